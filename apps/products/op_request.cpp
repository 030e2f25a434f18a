#include "products/op_request.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "narrow/special/attention.hpp"
#include "narrow/special/operation.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/model_choice.hpp"
#include "options/tensor_text.hpp"
#include "products/product_options.hpp"

namespace app {
namespace of_operation {

using narrow::Error;
using narrow::Format;
using narrow::Tensor;
using Shape = std::vector<std::uint64_t>;

constexpr Format fp64 = narrow::operator""_fmt("fp64", 4), fp32 = narrow::operator""_fmt("fp32", 4),
                 tf32 = narrow::operator""_fmt("tf32", 4), fp16 = narrow::operator""_fmt("fp16", 4),
                 bf16 = narrow::operator""_fmt("bf16", 4);

bool is_known(const Format& f) { return f == fp16 || f == bf16 || f == fp32; }

// What each takes; the first ones are needed.
struct Takes {
  std::string_view name;
  std::vector<std::string_view> needed, also;
};
const Takes& taken_by(std::string_view name) {
  static const std::vector<Takes> all = {
      {"softmax", {"--x"}, {}},
      {"log_softmax", {"--x"}, {}},
      {"layer_norm", {"--x"}, {"--w", "--b", "--eps"}},
      {"rms_norm", {"--x"}, {"--w", "--eps"}},
      {"gelu", {"--x"}, {}},
      {"gelu_tanh", {"--x"}, {}},
      {"silu", {"--x"}, {}},
      {"sum", {"--x"}, {}},
      {"mean", {"--x"}, {}},
      {"cross_entropy", {"--x", "--target"}, {}},
      {"linear", {"--x", "--w"}, {"--b", "--model"}},
      {"attention", {"--q", "--k", "--v"}, {"--scale", "--causal", "--plan"}},
      {"softmax_backward", {"--x", "--g"}, {}},
      {"log_softmax_backward", {"--x", "--g"}, {}},
      {"layer_norm_backward", {"--x", "--g"}, {"--w", "--eps"}},
      {"layer_norm_backward_w", {"--x", "--g"}, {"--eps"}},
      {"layer_norm_backward_b", {"--g"}, {}},
      {"rms_norm_backward", {"--x", "--g"}, {"--w", "--eps"}},
      {"rms_norm_backward_w", {"--x", "--g"}, {"--eps"}},
      {"gelu_backward", {"--x", "--g"}, {}},
      {"gelu_tanh_backward", {"--x", "--g"}, {}},
      {"silu_backward", {"--x", "--g"}, {}},
      {"cross_entropy_backward", {"--x", "--target"}, {"--g"}},
      {"sum_rows", {"--x"}, {}},
      {"embedding_backward", {"--g", "--target", "--words"}, {}},
      {"attention_backward_q", {"--q", "--k", "--v", "--g"}, {"--scale", "--causal"}},
      {"attention_backward_k", {"--q", "--k", "--v", "--g"}, {"--scale", "--causal"}},
      {"attention_backward_v", {"--q", "--k", "--v", "--g"}, {"--scale", "--causal"}},
  };
  for (const Takes& takes : all)
    if (takes.name == name) return takes;
  std::vector<std::string_view> names;
  for (const Takes& takes : all) names.push_back(takes.name);
  throw Error("operation " + narrow::quote(name) + "; " + narrow::hint(name, names) + "known are " + operation_names);
}

std::string joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

// A flag that an operation would ignore is a misunderstanding.
void check_flags(const OperationFlags& flags) {
  const Takes& takes = taken_by(flags.name);
  std::vector<const char*> given = flags.given();
  if (flags.b.file) given.push_back("--b");
  if (flags.model) given.push_back("--model");
  if (flags.plan) given.push_back("--plan");
  const auto has = [](const auto& list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  };
  std::vector<std::string_view> right = takes.needed;
  right.insert(right.end(), takes.also.begin(), takes.also.end());
  for (const char* flag : given)
    if (!has(right, flag) && flag != std::string_view("--variant") && flag != std::string_view("--x-format"))
      throw Error(std::string(takes.name) + ": takes no " + flag + "; it takes " + joined(right));
  for (const std::string_view flag : takes.needed)
    if (!has(given, flag))
      throw Error(std::string(takes.name) + ": " + std::string(flag) + " is missing; for example " + std::string(flag) +
                  (flag == "--words" ? " 50257" : " tensors.safetensors:" + std::string(flag.substr(2))));
}

double parse_double(const char* flag, const std::string& text) {
  const double x = narrow::decode(blame(flag, [&] { return narrow::parse_value(text, fp64); }), fp64);
  if (!std::isfinite(x)) throw Error(std::string(flag) + ": " + narrow::quote(text) + " is no finite number");
  return x;
}

std::size_t count_of(const Tensor& t) { return static_cast<std::size_t>(t.elements()); }
std::size_t cols_of(const Tensor& t) { return t.shape.empty() ? 1 : static_cast<std::size_t>(t.shape.back()); }
Shape without_last(Shape shape) {
  if (!shape.empty()) shape.pop_back();
  return shape;
}

std::string held_by(const MatrixFlags& flags, const Tensor& t) {
  return std::string(flags.name) + ": " + narrow::quote(*flags.file) + " holds " + std::string(t.type.name);
}

// Operands in other types than x has: a kernel reads one.
Tensor load_beside(const MatrixFlags& flags, const Tensor& first, const char* name) {
  Tensor t = load_operand(flags);
  if (!(t.type.format == first.type.format))
    throw Error(held_by(flags, t) + " and " + name + " is " + std::string(first.type.name) +
                "; convert it with narrow cast");
  return t;
}

std::vector<float> values_of(const Tensor& t, const char* flag) {
  std::vector<float> values(count_of(t));
  blame(flag, [&] { return narrow::read_values(t, 0, std::span(values)), 0; });
  return values;
}

std::vector<std::int64_t> load_target(const MatrixFlags& flags, const Shape& x) {
  Tensor t = open_operand(flags);
  const bool is_signed = t.type.kind == narrow::ElementKind::signed_integer;
  if (!is_signed && t.type.kind != narrow::ElementKind::unsigned_integer)
    throw Error(held_by(flags, t) + "; targets are integers, a column for each row of x");
  Shape rows = without_last(x), given = t.shape;
  std::erase(rows, 1u), std::erase(given, 1u);
  if (rows != given)
    throw Error(std::string(flags.name) + ": " + narrow::quote(*flags.file) + " has the shape " + shape_text(t.shape) +
                " and x " + shape_text(x) + ": a column for each row of x is needed");
  t = narrow::row_major(t);
  std::vector<std::uint64_t> words(count_of(t));
  blame(flags.name, [&] { return narrow::read_codes(t, 0, std::span(words)), 0; });
  std::vector<std::int64_t> targets;
  const int unused = is_signed ? 64 - t.type.bits : 0;
  for (const std::uint64_t word : words) targets.push_back(static_cast<std::int64_t>(word << unused) >> unused);
  return targets;
}

// Of the variants that apply, the one that was asked for.
void choose(const OperationFlags& flags, const std::vector<std::string_view>& known, LoadedOperation& operation) {
  std::vector<OperationVariant>& all = operation.variants;
  std::vector<std::string_view> fit;
  for (const OperationVariant& v : all) fit.push_back(v.name);
  if (!flags.variant) {
    if (fit.empty()) throw Error(flags.name + ": no variant takes these operands; there are " + joined(known));
    return;
  }
  if (std::find(known.begin(), known.end(), *flags.variant) == known.end())
    throw Error("--variant: " + narrow::quote(*flags.variant) + "; " + narrow::hint(*flags.variant, known) +
                "variants of " + flags.name + ": " + joined(known));
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const OperationVariant& v) { return v.name == *flags.variant; });
  if (found == all.end() && operation.found && *flags.variant == "math") return all.clear();
  operation.found = {};  // this one alone was asked for
  if (found == all.end())
    throw Error("--variant: " + *flags.variant + " does not take these operands" +
                (fit.empty() ? "" : "; those that do: " + joined(fit)));
  OperationVariant one = std::move(*found);
  all.clear();
  all.push_back(std::move(one));
}

// The flags checked, and --x-format at every operand that has none of its own.
OperationFlags prepared(const OperationFlags& flags) {
  check_flags(flags);
  OperationFlags all = flags;
  for (MatrixFlags* m : {&all.x, &all.w, &all.b, &all.g, &all.q, &all.k, &all.v})
    if (!m->format) m->format = flags.format, m->format_name = "--x-format";
  return all;
}

// The spans of the request point into the vectors.
struct RowData {
  narrow::OperationRequest request;
  std::vector<float> x, w, b, g;
  std::vector<std::int64_t> target;
};

// Of the result, whose first operand has the shape `first`.
Shape shape_of_rows(const std::string& name, const Shape& first, const narrow::OperationRequest& r) {
  if (name == "sum" || name == "mean") return without_last(first);
  if (name == "cross_entropy") return {};
  if (name == "embedding_backward") return {r.words, r.cols};
  if (name == "sum_rows" || name.ends_with("_w") || name.ends_with("_b")) return {r.cols};
  return first;
}

std::size_t parse_words(const std::string& text) {
  const double words = parse_double("--words", text);
  if (!(words >= 1 && words <= 0x1p31) || words != std::floor(words))
    throw Error("--words: " + narrow::quote(text) + " is no number of words; the rows of the table, for example 50257");
  return static_cast<std::size_t>(words);
}

LoadedOperation load_rows(const OperationFlags& flags) {
  const bool has_x = flags.x.file.has_value();  // gradients that do not ask for it have g alone
  const Tensor x = load_operand(has_x ? flags.x : flags.g);
  const auto data = std::make_shared<RowData>();
  narrow::OperationRequest& r = data->request;
  r.type = x.type.format, r.cols = cols_of(x), r.rows = count_of(x) / r.cols;
  r.threads = parse_threads(flags.threads);
  if (flags.eps) r.eps = parse_double("--eps", *flags.eps);
  bool mixed = false;  // a weight of another type: torch then composes rms_norm of other operations
  if (flags.w.file) {
    const Tensor w = flags.name == "rms_norm" ? load_operand(flags.w) : load_beside(flags.w, x, "x");
    mixed = !(w.type.format == r.type);
    data->w = values_of(w, "--w");
  }
  if (flags.b.file) data->b = values_of(load_beside(flags.b, x, "x"), "--b");
  if (has_x && flags.g.file) {
    const Tensor g = load_beside(flags.g, x, "x");
    const bool one = flags.name == "cross_entropy_backward";  // the gradient of the loss
    if (one ? g.elements() != 1 : g.shape != x.shape)
      throw Error("--g: " + narrow::quote(*flags.g.file) + " has the shape " + shape_text(g.shape) +
                  (one ? "; the loss has one gradient" : " and x " + shape_text(x.shape) + ": they are the same"));
    data->g = values_of(g, "--g");
  }
  if (flags.words) r.words = parse_words(*flags.words);
  if (r.words > (std::size_t{1} << 30) / r.cols)  // the table is not in any file
    throw Error("--words: a table of " + std::to_string(r.words) + " rows of " + std::to_string(r.cols) +
                " numbers; at most 2^30 numbers");
  if (flags.target.file) data->target = load_target(flags.target, x.shape);
  for (const auto& [flag, values] : {std::pair{"--w", &data->w}, std::pair{"--b", &data->b}})
    if (!values->empty() && values->size() != r.cols)
      throw Error(std::string(flag) + ": it has " + std::to_string(values->size()) + " numbers and a row of x " +
                  std::to_string(r.cols));
  const std::size_t classes = flags.words ? r.words : r.cols;
  for (const std::int64_t t : data->target)
    if ((flags.words || t != r.ignore_index) && (t < 0 || static_cast<std::uint64_t>(t) >= classes))
      throw Error("--target: " + std::to_string(t) +
                  (flags.words ? " is no word of " : " is no column of x, which has ") + std::to_string(classes) +
                  (flags.words ? "" : "; rows that do not count have -100"));
  (has_x ? data->x : data->g) = values_of(x, has_x ? "--x" : "--g");
  r.x = data->x, r.w = data->w, r.b = data->b, r.g = data->g, r.target = data->target;

  LoadedOperation operation{flags.name, r.type, shape_of_rows(flags.name, x.shape, r), {}};
  std::vector<std::string_view> known;
  for (const narrow::OperationRow* row : narrow::operation_rows(flags.name)) {
    known.push_back(row->variant);
    const bool is_kernel = row->variant != "double" && row->variant != "exact";
    const std::string kernel = row->kernel(r);
    if (kernel.empty() || (mixed && is_kernel && row->variant != "torch-composite")) continue;
    operation.variants.push_back({std::string(row->variant), kernel, std::string(row->what), is_kernel, [data, row] {
                                    return narrow::run_operation(row->operation, row->variant, data->request);
                                  }});
  }
  choose(flags, known, operation);
  return operation;
}

struct AttentionData {
  narrow::AttentionRequest request;
  std::vector<std::uint16_t> q, k, v, g;
};

// "SCORES/VALUES".
narrow::AttentionPlans parse_plans(const std::string& text) {
  const std::size_t bar = text.find('/');
  if (bar == std::string::npos)
    throw Error("--plan: " + narrow::quote(text) + " is no pair of orders, of the scores and of the values; for example split:32/chain");
  const narrow::AttentionPlans plans = blame("--plan", [&] {
    return narrow::AttentionPlans{narrow::parse_plan(text.substr(0, bar)), narrow::parse_plan(text.substr(bar + 1))};
  });
  const std::string problem = narrow::attention_plans_problem(plans);
  if (!problem.empty()) throw Error("--plan: " + problem);
  return plans;
}

OperationVariant attention_variant(const narrow::AttentionRow& row, const std::shared_ptr<const AttentionData>& data,
                                   std::optional<narrow::AttentionPlans> plans = {}) {
  narrow::AttentionRequest r = data->request;
  if (plans) r.plans = plans;
  return {std::string(row.variant), row.kernel(r), std::string(row.what), row.variant != "double", [data, r, &row] {
            const auto o = narrow::run_attention(row.variant, r);
            return std::vector<std::uint32_t>(o.begin(), o.end());
          }};
}

// Batch, heads, length, dimension: ones stand in front.
std::array<std::size_t, 4> four(const Tensor& t, const MatrixFlags& flags) {
  if (t.shape.size() > 4)
    throw Error(std::string(flags.name) + ": " + narrow::quote(*flags.file) + " has the shape " + shape_text(t.shape) +
                "; attention takes [batch, heads, length, dimension]");
  std::array<std::size_t, 4> sizes{1, 1, 1, 1};
  for (std::size_t i = 0; i < t.shape.size(); ++i) sizes[4 - t.shape.size() + i] = static_cast<std::size_t>(t.shape[i]);
  return sizes;
}

LoadedOperation load_attention(const OperationFlags& flags) {
  const Tensor q = load_operand(flags.q), k = load_beside(flags.k, q, "q"), v = load_beside(flags.v, q, "q");
  if (q.type.format == fp32) throw Error(held_by(flags.q, q) + "; attention is known for F16 and BF16");
  const auto of_q = four(q, flags.q), of_k = four(k, flags.k), of_v = four(v, flags.v);
  if (of_k != of_v || of_q[0] != of_k[0] || of_q[3] != of_k[3] || of_q[1] % of_k[1] != 0)
    throw Error(
        "attention: q is " + shape_text(q.shape) + ", k " + shape_text(k.shape) + " and v " + shape_text(v.shape) +
        "; right are [batch, heads, length, dimension], with a length of their own and fewer heads for k and v");
  const auto data = std::make_shared<AttentionData>();
  narrow::AttentionRequest& r = data->request;
  r.type = q.type.format, r.batch = of_q[0], r.heads = of_q[1], r.queries = of_q[2], r.dim = of_q[3];
  r.kv_heads = of_k[1], r.keys = of_k[2], r.causal = flags.causal, r.threads = parse_threads(flags.threads);
  if (flags.scale) r.scale = parse_double("--scale", *flags.scale);
  if (flags.plan && flags.variant != "math")
    throw Error("--plan: it belongs to --variant math: other kernels have orders of their own");
  const auto read = [](const Tensor& t, const char* flag, std::vector<std::uint16_t>& codes) {
    codes.resize(count_of(t));
    blame(flag, [&] { return narrow::read_codes(t, 0, std::span(codes)), 0; });
  };
  read(q, "--q", data->q), read(k, "--k", data->k), read(v, "--v", data->v);
  r.q = data->q, r.k = data->k, r.v = data->v;

  LoadedOperation operation{flags.name, r.type, q.shape, {}};
  std::vector<std::string_view> known;
  const bool backward = flags.g.file.has_value();
  const char which = flags.name.back();
  if (backward) {
    const Tensor g = load_beside(flags.g, q, "q");
    if (g.shape != q.shape)
      throw Error("--g: " + narrow::quote(*flags.g.file) + " has the shape " + shape_text(g.shape) + " and q " +
                  shape_text(q.shape) + ": the gradient of the result has that of q");
    read(g, "--g", data->g);
    if (which != 'q') operation.shape = k.shape;
  }
  for (const narrow::AttentionRow* row : narrow::attention_rows()) {
    if (backward && row->run_backward == nullptr) continue;
    known.push_back(row->variant);
    if (flags.plan && row->variant == "math") {
      if (!row->kernel(r).empty())
        throw Error("--plan: several heads are one batched product, whose sums are chains; without --plan they are computed so");
      r.plans = parse_plans(*flags.plan);
    }
    const std::string kernel = row->kernel(r).empty() ? "" : backward ? row->backward_kernel(r) : row->kernel(r);
    if (kernel.empty() && !backward && row->variant == "math")
      operation.found = [data, row](const std::vector<std::uint32_t>& d) {
        std::vector<OperationVariant> variants;
        const std::vector<std::uint16_t> o(d.begin(), d.end());
        narrow::FoundPlans found = narrow::find_attention_plans(data->request, o);
        const std::size_t count = found.plans.size();
        constexpr std::size_t most = 4;  // where a part was looked at, the first may be wrong in the rest
        found.plans.resize(std::clamp<std::size_t>(count, 1, most));  // none: how far one chain each is from it
        for (const narrow::AttentionPlans& each : found.plans) {
          variants.push_back(attention_variant(*row, data, each));
          if (found.exact && count > 1)
            variants.back().what += "; this data does not tell " + std::to_string(count) + " pairs of orders apart, the likeliest is named";
        }
        return variants;
      };
    if (kernel.empty()) continue;
    if (backward) {
      operation.variants.push_back(
          {std::string(row->variant), kernel, std::string(row->what), true, [data, row, which] {
             const narrow::AttentionGradients d = narrow::run_attention_backward(row->variant, data->request, data->g);
             const auto& one = which == 'q' ? d.q : which == 'k' ? d.k : d.v;
             return std::vector<std::uint32_t>(one.begin(), one.end());
           }});
      continue;
    }
    operation.variants.push_back(attention_variant(*row, data));
  }
  // What torch takes on an H200, where it applies.
  std::stable_partition(operation.variants.begin(), operation.variants.end(),
                        [](const OperationVariant& one) { return one.name == "cudnn"; });
  choose(flags, known, operation);
  return operation;
}

struct LinearData {
  narrow::DotModel model;
  narrow::Plan plan;
  narrow::GemmOptions options;
  std::vector<std::uint32_t> x, w, b;
  std::size_t rows = 0, in = 0, out = 0;

  std::vector<std::uint32_t> run() const {
    const int bytes = sizeof(std::uint32_t);
    const narrow::CodeMatrix a{x.data(), bytes, rows, in, in, narrow::Layout::row_major};
    const narrow::CodeMatrix turned{w.data(), bytes, in, out, in, narrow::Layout::column_major};
    narrow::CodeMatrix c;
    if (!b.empty()) c = {b.data(), bytes, rows, out, 0, narrow::Layout::row_major};
    std::vector<std::uint32_t> d(rows * out);
    narrow::gemm(model, plan, a, turned, c, narrow::MatrixView<std::uint32_t>{d.data(), rows, out}, options);
    return d;
  }
};

LoadedOperation load_product_of(const OperationFlags& flags) {
  const LinearOperands in = load_linear(flags);
  const Format type = in.x.type.format;
  const auto data = std::make_shared<LinearData>();
  const std::string usual = type == fp16   ? "hopper.wgmma.f32.f16.f16"
                            : type == bf16 ? "hopper.wgmma.f32.bf16.bf16"
                                           : "software.fma.f32.f32.f32";
  data->model = blame("--model", [&] { return choose_model(flags.model.value_or(usual)); });
  const auto fits = [&](const Format& wanted) { return wanted == type || (wanted == tf32 && type == fp32); };
  const std::string model(data->model.name.view());
  if (!fits(data->model.a.format) || !fits(data->model.b.format))
    throw Error("--model: " + model + " takes " + code_format_name(data->model.a.format) + " and " +
                code_format_name(data->model.b.format) + ", and x is " + code_format_name(type) + "; for example " +
                usual);
  data->plan = blame("--variant", [&] { return narrow::parse_plan(flags.variant.value_or("chain")); });
  data->options.output = type, data->options.threads = parse_threads(flags.threads);
  data->rows = static_cast<std::size_t>(in.x.shape[0]), data->in = static_cast<std::size_t>(in.x.shape[1]);
  data->out = static_cast<std::size_t>(in.w.shape[0]);
  data->x = operand_codes(in.x, "--x"), data->w = operand_codes(in.w, "--w");
  if (in.b) data->b = operand_codes(*in.b, "--b"), data->options.c_format = in.b->type.format;
  LoadedOperation operation{flags.name, type, in.shape, {}};
  operation.variants.push_back({narrow::plan_text(data->plan), model,
                                "one product; evidence: " + narrow::evidence_text(data->model), true,
                                [data] { return data->run(); }});
  return operation;
}

}  // namespace of_operation

void OperationFlags::declare(Arguments& arguments, bool beside_products) {
  arguments.option(
      "--x", x.file, "FILE",
      "x: FILE or FILE:TENSOR (.npy, .npz, .safetensors) of F16, BF16 or F32; the last dimension is the row");
  arguments.option("--w", w.file, "FILE", "the weight of a norm, or w [out, in] of linear");
  if (!beside_products) arguments.option("--b", b.file, "FILE", "the bias of layer_norm or linear");
  arguments.option("--g", g.file, "FILE", "backward: the gradient of the result, of x's type");
  arguments.option(
      "--target", target.file, "FILE",
      "cross_entropy: a column for each row of x, -100 for none; embedding_backward: a word for each row of g");
  arguments.option("--words", words, "N", "embedding_backward: rows of the table");
  arguments.option("--q", q.file, "FILE",
                   "attention: Q [batch, heads, length, dimension], ones may be left out in front");
  arguments.option("--k", k.file, "FILE", "attention: K, the heads may be fewer");
  arguments.option("--v", v.file, "FILE", "attention: V, as K");
  arguments.flag("--causal", causal, "attention: a query sees no keys after its own place");
  arguments.option("--eps", eps, "E", "norms (default: what torch takes)");
  arguments.option("--scale", scale, "S", "attention (default: 1 / sqrt(dimension))");
  arguments.option("--variant", variant, "V",
                   "a variant of narrow op --list, for linear a plan as of narrow gemm (default: what torch runs; for "
                   "linear chain, which cuBLAS often takes)");
  arguments.option("--x-format", format, "F", "what integers in the operands are codes of: bf16, fp16, fp32");
  if (beside_products) return;
  arguments.option("--model", model, "NAME", "linear: a model of narrow models (default: hopper.wgmma of the type)");
  arguments.option("--plan", plan, "SCORES/VALUES",
                   "attention, --variant math with one head: the orders of its sums as validate --op names them, for example split:32/chain");
  arguments.option("--threads", threads, "N", "threads (default: all cores); the bits do not depend on it");
}

std::vector<const char*> OperationFlags::given() const {
  std::vector<const char*> flags;
  for (const MatrixFlags* m : {&x, &w, &g, &target, &q, &k, &v})
    if (m->file) flags.push_back(m->name);
  if (causal) flags.push_back("--causal");
  if (eps) flags.push_back("--eps");
  if (scale) flags.push_back("--scale");
  if (words) flags.push_back("--words");
  if (variant) flags.push_back("--variant");
  if (format) flags.push_back("--x-format");
  return flags;
}

narrow::Tensor load_operand(const MatrixFlags& flags) {
  narrow::Tensor t = open_operand(flags);
  MatrixFlags how = flags;
  const bool is_first = flags.name == std::string_view("--x") || flags.name == std::string_view("--q");
  // One flag for all operands: it is about those whose type says nothing.
  if (how.format_name != nullptr && !is_first && t.type.kind == narrow::ElementKind::floating) how.format.reset();
  const bool is_code = t.type.may_be_codes() && (t.type.bits == 16 || t.type.bits == 32);
  if (is_code && !how.format)
    throw narrow::Error(of_operation::held_by(flags, t) + "; name what the codes are, for example " +
                        (flags.format_name != nullptr ? flags.format_name : std::string(flags.name) + "-format") +
                        (t.type.bits == 16 ? " bf16" : " fp32"));
  const bool may_be = is_code || t.type.kind == narrow::ElementKind::floating;
  const narrow::Format format = may_be ? code_format_of(t, how) : narrow::Format{};
  if (!may_be || !of_operation::is_known(format))
    throw narrow::Error(of_operation::held_by(flags, t) + "; operations are known for F16, BF16 and F32");
  if (t.elements() == 0)
    throw narrow::Error(std::string(flags.name) + ": " + narrow::quote(*flags.file) + " has the shape " +
                        shape_text(t.shape) + ": it is empty");
  return narrow::row_major(blame(flags.name, [&] { return narrow::with_format(std::move(t), format); }));
}

std::vector<std::uint32_t> operand_codes(const narrow::Tensor& tensor, const char* flag) {
  std::vector<std::uint32_t> codes(static_cast<std::size_t>(tensor.elements()));
  blame(flag, [&] { return narrow::read_codes(tensor, 0, std::span(codes)), 0; });
  return codes;
}

LinearOperands load_linear(const OperationFlags& given) {
  using namespace of_operation;
  const OperationFlags flags = prepared(given);
  LinearOperands in{load_operand(flags.x), {}, {}, {}};
  in.w = load_beside(flags.w, in.x, "x");
  const std::size_t cols = cols_of(in.x);
  if (in.x.shape.empty() || in.w.shape.size() != 2 || in.w.shape[1] != cols)
    throw Error("linear: x is " + shape_text(in.x.shape) + " and w " + shape_text(in.w.shape) +
                "; right are [.., in] and [out, in]");
  constexpr std::uint64_t most = std::uint64_t{1} << 30;  // D is not in any file
  if (in.x.elements() / cols > most / in.w.shape[0])
    throw Error("linear: " + std::to_string(in.x.elements() / cols) + " times " + std::to_string(in.w.shape[0]) +
                " outputs; at most 2^30");
  in.shape = without_last(in.x.shape);
  in.shape.push_back(in.w.shape[0]);
  in.x.shape = {in.x.elements() / cols, cols};
  if (flags.b.file) {
    in.b = load_operand(flags.b);
    if (in.b->shape != Shape{in.w.shape[0]})
      throw Error("--b: " + narrow::quote(*flags.b.file) + " has the shape " + shape_text(in.b->shape) +
                  "; the bias has one number for each of " + std::to_string(in.w.shape[0]) + " outputs");
  }
  return in;
}

LoadedOperation load_operation(const OperationFlags& flags) {
  const OperationFlags all = of_operation::prepared(flags);
  if (flags.name.starts_with("attention")) return of_operation::load_attention(all);
  if (flags.name == "linear") return of_operation::load_product_of(all);
  return of_operation::load_rows(all);
}

std::vector<OperationLine> operation_lines(const std::string& name) {
  if (!name.empty()) (void)of_operation::taken_by(name);
  std::vector<OperationLine> lines;
  for (const narrow::OperationRow* row : narrow::operation_rows())
    lines.push_back({std::string(row->operation), std::string(row->variant), std::string(row->what)});
  lines.push_back({"linear", "PLAN", "x w^T + b as narrow gemm computes it; the plan is its --plan (default chain)"});
  for (const narrow::AttentionRow* row : narrow::attention_rows())
    lines.push_back({"attention", std::string(row->variant), std::string(row->what)});
  for (const char* part : {"attention_backward_q", "attention_backward_k", "attention_backward_v"})
    for (const narrow::AttentionRow* row : narrow::attention_rows())
      if (row->run_backward != nullptr)
        lines.push_back({part, std::string(row->variant), "its deterministic backward pass"});
  if (!name.empty()) std::erase_if(lines, [&](const OperationLine& line) { return line.operation != name; });
  return lines;
}

}  // namespace app
