// narrow validate: which models and plans turned A, B and C into this D, bit for bit; else where and how it differs.
#include "products/validate.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

#include "cli/number_text.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/dot/likelihood.hpp"
#include "narrow/dot/validate.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/special/operation.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/model_choice.hpp"
#include "options/tensor_text.hpp"
#include "products/epilogue.hpp"
#include "products/failing_vector.hpp"
#include "products/op_validate.hpp"
#include "products/step_picture.hpp"

namespace app {
namespace of_validate {

using narrow::ValidateResult;

using Options = ValidateFlags;

// A bar for work whose share of the whole is told now and then, from any thread.
class ShareProgress {
 public:
  void operator()(double share) {
    const auto now = static_cast<std::uint64_t>(share * parts);
    std::uint64_t before = done_.load();
    while (now > before && !done_.compare_exchange_weak(before, now)) {
    }
    if (now > before) bar_.add(now - before);
  }

 private:
  static constexpr double parts = 1000;
  Progress bar_{"validating", static_cast<std::uint64_t>(parts)};
  std::atomic<std::uint64_t> done_{0};
};

std::string name_of(const narrow::Candidate& c) {
  return std::string(c.model->name.view()) + ", " + narrow::plan_text(c.plan);
}

std::string batch_shape(std::size_t items, std::size_t rows, std::size_t cols) {
  return (items > 1 ? std::to_string(items) + "x" : "") + std::to_string(rows) + "x" + std::to_string(cols);
}

std::string of_total(const ValidateResult& r) {
  return std::to_string(r.equal_count) + " of " + std::to_string(r.total);
}

std::string counted(std::size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

// Candidates by plan: which models sum so.
std::vector<std::string> by_plan(const std::vector<narrow::Candidate>& candidates) {
  constexpr std::size_t named = 3;
  std::vector<std::pair<std::string, std::vector<std::string>>> plans;
  for (const narrow::Candidate& c : candidates) {
    const std::string plan = narrow::plan_text(c.plan);
    auto found = std::find_if(plans.begin(), plans.end(), [&](const auto& x) { return x.first == plan; });
    if (found == plans.end()) found = plans.insert(plans.end(), {plan, {}});
    found->second.emplace_back(c.model->name.view());
  }
  std::vector<std::string> lines;
  for (const auto& [plan, models] : plans) {
    std::string line = plan + ": ";
    for (std::size_t n = 0; n < models.size() && n < named; ++n) line += (n == 0 ? "" : ", ") + models[n];
    lines.push_back(line + (models.size() > named ? " and " + std::to_string(models.size() - named) + " more" : ""));
  }
  return lines;
}

// Codes of a column: those that are not zero by their places, or all of them where they are few.
std::string column_text(const std::vector<narrow::Code>& codes, const narrow::Format& f) {
  constexpr std::size_t most = 6;
  std::string text;
  std::size_t shown = 0;
  for (std::size_t n = 0; n < codes.size(); ++n) {
    if ((codes[n] & ~f.sign_mask()) == 0) continue;
    if (++shown > most) break;
    text += (text.empty() ? "" : ", ") + std::string("B[") + std::to_string(n) +
            "] = " + digits_text(narrow::decode(codes[n], f), 6) + " (" + narrow::to_hex_code(codes[n], f) + ")";
  }
  return shown > most ? "spread numbers" : "zeros but " + text;
}

std::string telling_text(const ValidateResult& r, const ProductInputs& in, const narrow::Format& d_format,
                         const std::optional<std::string>& file) {
  if (!r.telling) {
    if (r.differences.empty() && !file) return "";
    return std::string("  no short product was found that tells them apart") +
           (file ? ": " + *file + " was not written" : "") + "\n";
  }
  const narrow::TellingTest& test = *r.telling;
  const narrow::Format f = in.b.format == narrow::find_format("tf32") ? *narrow::find_format("fp32") : in.b.format;
  std::string text = "  to tell them apart, multiply A = ones(1, " + std::to_string(test.b.size()) +
                     ") and B = " + column_text(test.b, f) +
                     (file ? "; written to " + *file : "; --test FILE.safetensors writes them") + ":\n";
  constexpr std::size_t most = 4;
  for (std::size_t n = 0; n < test.answers.size() && n < most; ++n)
    text += "    " + code_and_value(test.answers[n].code, d_format) + "  " +
            name_of(test.answers[n].candidates.front()) +
            (test.answers[n].candidates.size() > 1
                 ? " and " + std::to_string(test.answers[n].candidates.size() - 1) + " more"
                 : "") +
            "\n";
  if (test.answers.size() > most)
    text += "    and " + counted(test.answers.size() - most, "other answer", "other answers") + "\n";
  return text;
}

std::string same_text(const ValidateResult& r, bool verbose) {
  if (r.candidates.size() < 2) return "";
  const std::vector<std::string> lines = by_plan(r.candidates);
  const std::size_t most = verbose ? lines.size() : 8;
  std::string text = "\n  " + std::to_string(r.candidates.size()) +
                     " models and plans have the same bits on this data; the likeliest is named. By plan:\n";
  for (std::size_t i = 0; i < lines.size() && i < most; ++i) text += "    " + lines[i] + "\n";
  if (lines.size() > most) text += "    and " + std::to_string(lines.size() - most) + " more plans; --json lists all\n";
  const auto sampled =
      std::find_if(r.candidates.begin(), r.candidates.end(), [&](const auto& c) { return c.compared < r.total; });
  if (sampled != r.candidates.end())
    text += "  confirmed on every output: " + std::to_string(sampled - r.candidates.begin()) +
            " of them; the others on the " + std::to_string(sampled->compared) + " outputs that tell most\n";
  if (!r.differences.empty()) text += "  they differ in " + r.differences + "\n";
  return text;
}

std::string distance_name(std::size_t i) {
  if (i <= 1) return std::to_string(i);
  const std::uint64_t first = 1ull << (i - 1);
  if (i == 2) return "2 to 3";
  if (i >= 21) return "2^" + std::to_string(i - 1) + " and more, below 2^" + std::to_string(i);
  return std::to_string(first) + " to " + std::to_string(2 * first - 1);
}

std::string distance_table(const ValidateResult& r, bool verbose, bool colour) {
  TextTable table{{"distance (ulp)", "outputs", "share"}, {Align::left, Align::right, Align::right}, {}};
  const auto row = [&](const std::string& name, std::uint64_t count) {
    table.rows.push_back(
        {name, std::to_string(count), share_text(static_cast<double>(count) / static_cast<double>(r.total))});
  };
  std::vector<std::size_t> bins;
  for (std::size_t i = 0; i < r.ulp_counts.size(); ++i)
    if (r.ulp_counts[i] != 0) bins.push_back(i);
  const std::size_t most = verbose ? bins.size() : 6;
  for (std::size_t n = 0; n < bins.size(); ++n) {
    if (n + 1 < most || bins.size() <= most) {
      row(distance_name(bins[n]), r.ulp_counts[bins[n]]);
      continue;
    }
    std::uint64_t rest = 0;
    for (std::size_t m = n; m < bins.size(); ++m) rest += r.ulp_counts[bins[m]];
    row((bins[n] >= 21 ? "2^" + std::to_string(bins[n] - 1) : std::to_string(1ull << (bins[n] - 1))) + " and more",
        rest);
    break;
  }
  if (r.nan_mismatch != 0) row("NaN on one side", r.nan_mismatch);
  return table.to_text(colour, 4);
}

struct Report {
  const ValidateResult& result;
  const ProductInputs& in;
  const LoadedMatrix& d;
  std::optional<FailingVector> failing;
  const Options& options;
  bool wrong_gpu = false;  // exact, but for other GPUs than the one that was named
};

std::string failing_text(const Report& r, bool colour) {
  constexpr std::size_t few = 4;  // products that are shown one by one
  if (!r.result.failing) return "";
  const narrow::FailingDot& dot = *r.result.failing;
  const std::string item = r.in.items() > 1 ? std::to_string(dot.item) + ", " : "";
  const std::string where = "D[" + item + std::to_string(dot.row) + ", " + std::to_string(dot.col) + "]";
  std::string text = "\n  " + paint("A dot product that differs", Colour::bold, colour) + ": " + where + ", " +
                     std::to_string(dot.a.size()) + " products\n";
  text += "    expected " + code_and_value(dot.expected, r.d.format) + "\n    found    " +
          code_and_value(dot.found, r.d.format) + "\n";
  if (!r.failing && r.options.vector)
    return text + "    " + *r.options.vector + " was not written: it has no words for scales and epilogues\n";
  if (!r.failing) return text;
  const FailingVector& v = *r.failing;
  for (std::size_t k = 0; k < dot.a.size() && k < few; ++k)
    text += "    k " + std::to_string(k) + "      " + digits_text(narrow::decode(dot.a[k], v.a_format), 8) + " (" +
            operand_text(dot.a[k], v.a_format) + ") * " + digits_text(narrow::decode(dot.b[k], v.b_format), 8) + " (" +
            operand_text(dot.b[k], v.b_format) + ")\n";
  if (dot.a.size() > few) text += "    and " + counted(dot.a.size() - few, "more", "more") + "\n";
  if (r.options.vector) return text + "    written as a C++ program to " + *r.options.vector + "\n";
  if (!r.options.verbose)
    return text + "    --verbose shows all of it in hex and as C++, --vector FILE.cpp writes that\n";
  return text + hex_lines(v, 4) + "\n  " + paint("The same in C++", Colour::bold, colour) + "\n\n" + cpp_program(v);
}

std::string headline(const ValidateResult& r, bool colour) {
  const std::string first = name_of(r.candidates.front());
  if (r.exact) return paint("bit-exact", Colour::green, colour) + ": " + first + ", " + of_total(r) + "\n";
  const std::string share = share_text(static_cast<double>(r.equal_count) / static_cast<double>(r.total));
  const bool explains = r.equal_count * 2 >= r.total;
  return paint("not bit-exact", Colour::red, colour) +
         (!r.relation.empty() ? "; D is not the product that was asked for: " + r.relation + "; held against "
          : explains          ? "; the closest: "
                              : "; nothing explains it; held against ") +
         first + ", " + of_total(r) + " (" + share + ")\n";
}

std::string function_text(const narrow::GemmOptions& options) {
  if (options.function.of == nullptr) return "";
  return std::string(options.rounds_before ? ", rounded, " : ", ") + std::string(options.function.name);
}

std::string to_text(const Report& report) {
  const bool colour = use_colour(1), verbose = report.options.verbose;
  const ValidateResult& r = report.result;
  const std::string tried = counted(r.models_tried, "model fits, ", "models fit, ") +
                            counted(r.plans_tried, "pair of model and plan tried", "pairs of model and plan tried");
  std::string text = headline(r, colour) + "  " + product_shape(report.in) + ", " +
                     code_format_name(report.in.a.format) + " * " + code_format_name(report.in.b.format) +
                     (report.in.c ? report.in.c->one_row_for_all ? " + bias" : " + C" : "") +
                     function_text(report.in.options) + " to " + code_format_name(report.d.format) + "; " + tried +
                     "\n  evidence for this model: " + narrow::evidence_text(*r.candidates.front().model) + "\n";
  if (report.wrong_gpu)
    text += "  " + paint("no model of " + *report.options.gpu + " gives these bits", Colour::yellow, colour) + "\n";
  if (r.exact) return text + same_text(r, verbose) + telling_text(r, report.in, report.d.format, report.options.test);
  for (const std::string& suspicion : r.suspicions)
    text += "  " + paint("suspicion", Colour::yellow, colour) + ": " + suspicion + "\n";
  const bool wide = report.in.a.format == narrow::find_format("fp64");  // whose sums no epilogue takes
  for (const narrow::EpilogueFunction& f : narrow::epilogue_functions())
    if (!wide && r.relation == f.name)
      text += "  --epilogue " + std::string(report.options.product.epilogue.value_or("").starts_with("bias") ? "bias+" : "") +
              std::string(f.name) + " asks for it\n";
  return text + "\n" + distance_table(r, verbose, colour) + failing_text(report, colour);
}

Json codes_json(const std::vector<narrow::Code>& codes, const narrow::Format& f) {
  Json list = Json::array();
  for (const narrow::Code code : codes) list.push_back(operand_text(code, f));
  return list;
}

Json to_json(const Report& report) {
  const ValidateResult& r = report.result;
  Json out = Json::object();
  out["exact"] = r.exact;
  out["model"] = std::string(r.candidates.front().model->name.view());
  out["evidence"] = narrow::evidence_name(r.candidates.front().model->evidence);
  out["plan"] = narrow::plan_text(r.candidates.front().plan);
  out["epilogue"] = report.options.product.epilogue ? Json(*report.options.product.epilogue) : Json();
  out["equal_count"] = r.equal_count;
  out["total"] = r.total;
  out["max_ulp"] = r.max_ulp;
  out["candidates"] = Json::array();
  for (const narrow::Candidate& c : r.candidates) {
    Json row = Json::object();
    row["model"] = std::string(c.model->name.view());
    row["evidence"] = narrow::evidence_name(c.model->evidence);
    row["plan"] = narrow::plan_text(c.plan);
    row["compared"] = c.compared;
    out["candidates"].push_back(std::move(row));
  }
  out["wrong_gpu"] = report.wrong_gpu;
  out["relation"] = r.relation.empty() ? Json() : Json(r.relation);
  out["differences"] = r.differences.empty() ? Json() : Json(r.differences);
  out["telling"] = Json();
  if (r.telling) {
    Json test = Json::object();
    test["b"] = codes_json(r.telling->b, report.in.b.format);
    test["answers"] = Json::array();
    for (const auto& answer : r.telling->answers) {
      Json names = Json::array();
      for (const narrow::Candidate& c : answer.candidates) names.push_back(name_of(c));
      test["answers"].push_back({{"code", narrow::to_hex_code(answer.code, report.d.format)}, {"candidates", names}});
    }
    out["telling"] = std::move(test);
  }
  out["distances"] = Json::array();
  for (std::size_t i = 0; i < r.ulp_counts.size(); ++i) {
    if (r.ulp_counts[i] == 0) continue;
    Json row = Json::object();
    row["from"] = i == 0 ? 0 : 1ull << (i - 1);
    row["to"] = i == 0 ? 0 : (1ull << i) - 1;
    row["count"] = r.ulp_counts[i];
    out["distances"].push_back(std::move(row));
  }
  out["nan_mismatch"] = r.nan_mismatch;
  out["suspicions"] = r.suspicions;
  out["models_tried"] = r.models_tried;
  out["plans_tried"] = r.plans_tried;
  out["failing"] = Json();
  if (report.failing) {
    const FailingVector& v = *report.failing;
    Json f = Json::object();
    f["item"] = v.dot.item;
    f["row"] = v.dot.row;
    f["col"] = v.dot.col;
    f["a"] = codes_json(v.dot.a, v.a_format);
    f["b"] = codes_json(v.dot.b, v.b_format);
    f["c"] = v.has_c ? Json(narrow::to_hex_code(v.dot.c, v.c_format)) : Json();
    f["expected"] = narrow::to_hex_code(v.dot.expected, v.d_format);
    f["found"] = narrow::to_hex_code(v.dot.found, v.d_format);
    out["failing"] = std::move(f);
  }
  return out;
}

// A row of ones and the column that tells, as a person would feed them to a kernel.
void write_test(const std::string& path, const narrow::TellingTest& test, const ProductInputs& in) {
  if (!path.ends_with(".safetensors"))
    throw narrow::Error("--test: " + narrow::quote(path) + "; give a file that ends in .safetensors");
  // TF32 operands are words.
  const auto in_file = [](const narrow::Format& f) {
    return f == narrow::find_format("tf32") ? *narrow::find_format("fp32") : f;
  };
  LoadedMatrix a = make_matrix(1, test.b.size(), in_file(in.a.format));
  LoadedMatrix b = make_matrix(test.b.size(), 1, in_file(in.b.format));
  const auto fill = [](LoadedMatrix& m, const auto& code_at) {
    std::visit(
        [&](auto& codes) {
          using U = std::remove_reference_t<decltype(codes[0])>;
          for (std::size_t n = 0; n < codes.size(); ++n) codes[n] = static_cast<U>(code_at(n));
        },
        m.codes);
  };
  const narrow::Code one = narrow::encode(1.0, a.format);
  fill(a, [&](std::size_t) { return one; });
  fill(b, [&](std::size_t n) { return test.b[n]; });
  write_matrices(path, {{"a", &a}, {"b", &b}});
}

narrow::ValidateRequest read_request(const Options& options, const ProductInputs& in, const LoadedMatrix& d) {
  narrow::ValidateRequest request;
  request.a = in.a.view(), request.b = in.b.view(), request.c = in.c_view(), request.d = d.view();
  request.a_format = in.a.format, request.b_format = in.b.format, request.d_format = d.format;
  request.options = in.options;
  request.batch = {d.items, in.a.item_step(), in.b.item_step(), in.c ? in.c->item_step() : 0, d.item_step()};
  if (options.gpu) request.gpu = blame("--gpu", [&] { return narrow::gpu_generation(*options.gpu); });
  return request;
}

Validated run(const Options& options) {
  const ProductOptions& p = options.product;
  std::optional<narrow::DotModel> model;
  if (p.model) model = blame("--model", [&] { return choose_model(*p.model); });
  std::optional<narrow::Plan> plan;
  if (p.plan) plan = blame("--plan", [&] { return narrow::parse_plan(*p.plan); });
  if (!options.d.file)
    throw narrow::Error("validate: --d is missing: the result of the kernel; for example --d out.npy");
  ProductInputs in;
  load_product(p, "validate", in);
  read_epilogue(p, in);
  const LoadedMatrix d = load_matrix(options.d);
  if (d.rows != in.a.rows || d.cols != in.b.cols || d.items != in.items())
    throw narrow::Error("validate: A B is " + batch_shape(in.items(), in.a.rows, in.b.cols) + " and D is " +
                        batch_shape(d.items, d.rows, d.cols) +
                        (d.rows == in.b.cols && d.cols == in.a.rows
                             ? ": D is transposed; --transpose-a with --transpose-b "
                               "and A and B exchanged gives its product"
                             : ""));
  if (model) {
    fit_matrix(in.a, p.a, model->a, model->name.view(), false);
    fit_matrix(in.b, p.b, model->b, model->name.view(), false);
  }
  narrow::ValidateRequest request = read_request(options, in, d);
  if (model) request.model = narrow::find_dot_model(model->name.view());
  request.plan = plan;
  ShareProgress progress;
  request.progress = [&](double share) { progress(share); };

  const ValidateResult result = narrow::validate(request);
  Report report{result, in, d, {}, options};
  report.wrong_gpu = result.exact && request.gpu &&
                     std::none_of(result.candidates.begin(), result.candidates.end(),
                                  [&](const auto& c) { return narrow::detail::is_of_gpu(*c.model, *request.gpu); });
  const bool scaled = !in.options.scale_a.values.empty() || !in.options.scale_b.values.empty() ||
                      !in.options.block_a.empty() || !in.options.block_b.empty();
  if (result.failing && !scaled && in.options.function.of == nullptr) {
    const narrow::DotModel& m = *result.candidates.front().model;
    report.failing.emplace(FailingVector{result.candidates.front(), *result.failing, m.a.format, m.b.format,
                                         in.c ? in.c->format : m.accumulator.format, d.format, in.options.alpha,
                                         in.options.beta, in.c.has_value()});
    if (options.vector) write_file(*options.vector, cpp_program(*report.failing));
  }
  if (options.test && result.telling) write_test(*options.test, *result.telling, in);
  return {result.exact, to_json(report), to_text(report)};
}

// Flags of products mean nothing to an operation, and the other way round.
OperationQuestion question_of(const Options& options, const OperationFlags& operation) {
  const ProductOptions& p = options.product;
  const std::pair<const char*, bool> of_products[] = {
      {"--a", p.a.file.has_value()},           {"--c", p.c.file.has_value()},
      {"--plan", p.plan.has_value()},          {"--alpha", p.alpha.has_value()},
      {"--beta", p.beta.has_value()},          {"--scale-a", p.scale_a.has_value()},
      {"--scale-b", p.scale_b.has_value()},    {"--a-format", p.a.format.has_value()},
      {"--c-format", p.c.format.has_value()},  {"--transpose-a", p.a.transpose},
      {"--transpose-b", p.b.transpose},        {"--epilogue", p.epilogue.has_value()}};
  for (const auto& [flag, given] : of_products)
    if (given)
      throw narrow::Error(std::string(flag) + ": it belongs to a product, and --op asks about " +
                          narrow::quote(operation.name) +
                          (flag == std::string_view("--plan") ? "; --variant names a plan of linear" : ""));
  OperationQuestion question{operation, options.d, options.gpu, options.vector, options.test, options.verbose};
  question.operation.b.file = p.b.file, question.operation.b.format = p.b.format;
  question.operation.model = p.model, question.operation.threads = p.threads;
  return question;
}

Validated run_either(const Options& options, const std::optional<std::string>& name, OperationFlags operation) {
  if (name) {
    operation.name = *name;
    return validate_operation(question_of(options, operation));
  }
  for (const char* flag : operation.given())
    throw narrow::Error(std::string(flag) + ": it needs --op; for example --op softmax");
  return run(options);
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  const auto operation = std::make_shared<OperationFlags>();
  const auto name = std::make_shared<std::optional<std::string>>();
  options->product.declare(arguments);
  arguments.option("--d", options->d.file, "FILE", "D, m x n: what the kernel returned");
  arguments.option("--d-format", options->d.format, "F", "what integers in D are codes of");
  arguments.option("--gpu", options->gpu, "NAME",
                   "the GPU it ran on (h200, a100, rtx 4090, ...): what it computes is tried, others only where that "
                   "fails (default: all that fit)");
  arguments.option("--test", options->test, "FILE",
                   "write the smallest product that tells the candidates apart (.safetensors: a, b)");
  arguments.option("--vector", options->vector, "FILE", "write a failing dot product as a C++ program");
  arguments.flag("--verbose", options->verbose,
                 "every plan, every distance, the failing dot product in hex and as C++");
  arguments.option("--op", *name, "NAME",
                   "which variant of an operation gave D, in place of a product: see narrow op --list");
  operation->declare(arguments, true);
  const auto json = std::make_shared<bool>(false);
  arguments.flag("--json", *json, "print JSON");
  return [options, operation, name, json] {
    const Validated found = run_either(*options, *name, *operation);
    print(*json ? json_text(found.json) : found.text);
    return found.exact ? 0 : 1;
  };
}

}  // namespace of_validate

Validated validate_product(const ValidateFlags& flags) { return of_validate::run(flags); }

const Command validate_command{
    "validate", "which models and plans produced a matrix product, bit for bit; else where it differs",
    "narrow validate --a a.npy --b b.npy --d d.npy", of_validate::declare,
    "Tries the models and plans that fit A, B and the GPU until one gives every bit of D, and names it; where "
    "several do, it says which test would tell them apart (--test writes it). Where none does, it says how far "
    "the nearest is, where the first difference lies, and what would explain it: flushed subnormals, operands "
    "in another format, a transposed matrix, an epilogue. Exit 0: a plan gives every bit; 1: none does.\n\n"
    "A third dimension in front is a batch. --scale-a and --scale-b are those of FP8 products, per tensor, row "
    "or block. --epilogue says what the kernel applied to the sum (bias+gelu), as cuBLASLt names it in a word.\n\n"
    "--op NAME asks the same of another operation (softmax, layer_norm, attention, ...): every variant of narrow op "
    "that takes the operands is held against D. linear is a product: A is --x, B is --w transposed, C is --b."};

}  // namespace app
