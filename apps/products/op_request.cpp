#include "products/op_request.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "narrow/special/attention.hpp"
#include "narrow/special/operation.hpp"
#include "options/model_choice.hpp"
#include "products/op_loaders.hpp"

namespace app {
namespace of_operation {

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

Shape without_last(Shape shape) {
  if (!shape.empty()) shape.pop_back();
  return shape;
}

std::string held_by(const MatrixFlags& flags, const Tensor& t) {
  return std::string(flags.name) + ": " + narrow::quote(*flags.file) + " holds " + std::string(t.type.name);
}

Tensor load_beside(const MatrixFlags& flags, const Tensor& first, const char* name) {
  Tensor t = load_operand(flags);
  if (!(t.type.format == first.type.format))
    throw Error(held_by(flags, t) + " and " + name + " is " + std::string(first.type.name) +
                "; convert it with narrow cast");
  return t;
}

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
