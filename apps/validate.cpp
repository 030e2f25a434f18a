// narrow validate: which models and plans turned A, B and C into this D, bit for bit; else where and how it differs.
#include "narrow/dot/validate.hpp"

#include <atomic>
#include <memory>

#include "failing_vector.hpp"
#include "json_value.hpp"
#include "model_choice.hpp"
#include "narrow/text/print.hpp"
#include "narrow/text/quote.hpp"
#include "number_text.hpp"
#include "product_options.hpp"
#include "progress.hpp"
#include "step_picture.hpp"
#include "table.hpp"
#include "tensor_text.hpp"
#include "terminal.hpp"
#include "write_file.hpp"

namespace app {
namespace {

using narrow::ValidateResult;

struct Options {
  ProductOptions product;
  MatrixFlags d{"--d", {}, {}, false};
  std::optional<std::string> vector;
  bool json = false;
};

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

std::string of_total(const ValidateResult& r) {
  return std::to_string(r.equal_count) + " of " + std::to_string(r.total);
}

std::string same_text(const ValidateResult& r) {
  constexpr std::size_t most = 16;
  if (r.candidates.size() < 2) return "";
  std::string text =
      "\n  " + std::to_string(r.candidates.size()) +
      " models and plans have the same arithmetic on this data; the first in the order of the table is named:\n";
  for (std::size_t i = 0; i < r.candidates.size() && i < most; ++i) text += "    " + name_of(r.candidates[i]) + "\n";
  if (r.candidates.size() > most)
    text += "    and " + std::to_string(r.candidates.size() - most) + " more; --json lists them\n";
  return text;
}

std::string distance_name(std::size_t i) {
  if (i <= 1) return std::to_string(i);
  const std::uint64_t first = 1ull << (i - 1);
  if (i == 2) return "2 to 3";
  if (i >= 21) return "2^" + std::to_string(i - 1) + " and more, below 2^" + std::to_string(i);
  return std::to_string(first) + " to " + std::to_string(2 * first - 1);
}

std::string distance_table(const ValidateResult& r, bool colour) {
  Table table{{"distance (ulp)", "outputs", "share"}, {Align::left, Align::right, Align::right}, {}};
  const auto row = [&](const std::string& name, std::uint64_t count) {
    table.rows.push_back(
        {name, std::to_string(count), share_text(static_cast<double>(count) / static_cast<double>(r.total))});
  };
  for (std::size_t i = 0; i < r.ulp_counts.size(); ++i)
    if (r.ulp_counts[i] != 0) row(distance_name(i), r.ulp_counts[i]);
  if (r.nan_mismatch != 0) row("NaN on one side", r.nan_mismatch);
  return table.to_text(colour, 4);
}

struct Report {
  const ValidateResult& result;
  const ProductInputs& in;
  const LoadedMatrix& d;
  std::optional<FailingVector> failing;
  const std::optional<std::string>& vector_file;
};

std::string failing_text(const Report& r, bool colour) {
  constexpr std::size_t longest = 128;  // products; more fill screens
  if (!r.result.failing) return "";
  const narrow::FailingDot& dot = *r.result.failing;
  const std::string where = "D[" + std::to_string(dot.row) + ", " + std::to_string(dot.col) + "]";
  std::string text = "\n  " + paint("A dot product that differs", Colour::bold, colour) + ": " + where + ", " +
                     std::to_string(dot.a.size()) + " products\n";
  if (r.vector_file) return text + "    written as a C++ program to " + *r.vector_file + "\n";
  if (!r.failing)
    return text + "    expected " + std::to_string(dot.expected) + ", found " + std::to_string(dot.found) +
           " (codes)\n";
  if (dot.a.size() > longest)
    return text + "    expected " + code_and_value(dot.expected, r.failing->d_format) + "\n    found    " +
           code_and_value(dot.found, r.failing->d_format) +
           "\n    all of it as a C++ program: --vector FILE.cpp; as hex codes: --json\n";
  return text + hex_lines(*r.failing, 4) + "\n  " + paint("The same in C++", Colour::bold, colour) + "\n\n" +
         cpp_program(*r.failing);
}

std::string to_text(const Report& report) {
  const bool colour = use_colour(1);
  const ValidateResult& r = report.result;
  const narrow::Candidate& first = r.candidates.front();
  const std::string tried = std::to_string(r.models_tried) + (r.models_tried == 1 ? " model fits, " : " models fit, ") +
                            std::to_string(r.plans_tried) + " pairs of model and plan tried";
  const std::string what = "  " + product_shape(report.in) + ", " + code_format_name(report.in.a.format) + " * " +
                           code_format_name(report.in.b.format) + (report.in.c ? " + C" : "") + " to " +
                           code_format_name(report.d.format) + "; " + tried + "\n";
  if (r.exact)
    return paint("bit-exact", Colour::green, colour) + ": " + name_of(first) + ", " + of_total(r) + "\n" + what +
           same_text(r);
  std::string text = paint("not bit-exact", Colour::red, colour) + "; the closest: " + name_of(first) + ", " +
                     of_total(r) + " (" +
                     share_text(static_cast<double>(r.equal_count) / static_cast<double>(r.total)) + ")\n" + what +
                     "\n" + distance_table(r, colour);
  for (const std::string& suspicion : r.suspicions)
    text += "\n  " + paint("suspicion", Colour::yellow, colour) + ": " + suspicion;
  if (!r.suspicions.empty()) text += "\n";
  return text + failing_text(report, colour);
}

Json codes_json(const std::vector<narrow::Code>& codes, const narrow::Format& f) {
  Json list = Json::array();
  for (const narrow::Code code : codes) list.push_back(operand_text(code, f));
  return list;
}

Json to_json(const Report& report) {
  const ValidateResult& r = report.result;
  Json out;
  out["exact"] = r.exact;
  out["model"] = std::string(r.candidates.front().model->name.view());
  out["plan"] = narrow::plan_text(r.candidates.front().plan);
  out["equal_count"] = r.equal_count;
  out["total"] = r.total;
  out["max_ulp"] = r.max_ulp;
  out["candidates"] = Json::array();
  for (const narrow::Candidate& c : r.candidates) {
    Json row;
    row["model"] = std::string(c.model->name.view());
    row["plan"] = narrow::plan_text(c.plan);
    out["candidates"].push_back(std::move(row));
  }
  out["distances"] = Json::array();
  for (std::size_t i = 0; i < r.ulp_counts.size(); ++i) {
    if (r.ulp_counts[i] == 0) continue;
    Json row;
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
    Json f;
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

int run(const Options& options) {
  const ProductOptions& p = options.product;
  narrow::ValidateRequest request;
  std::optional<narrow::DotModel> model;
  if (p.model) model = blame("--model", [&] { return choose_model(*p.model); });
  if (model) request.model = narrow::find_dot_model(model->name.view());
  if (p.plan) request.plan = blame("--plan", [&] { return narrow::parse_plan(*p.plan); });
  if (!options.d.file)
    throw narrow::Error("validate: --d is missing: the result of the kernel; for example --d out.npy");
  ProductInputs in;
  load_product(p, "validate", in);
  const LoadedMatrix d = load_matrix(options.d);
  if (d.rows != in.a.rows || d.cols != in.b.cols)
    throw narrow::Error("validate: A B is " + std::to_string(in.a.rows) + "x" + std::to_string(in.b.cols) +
                        " and D is " + std::to_string(d.rows) + "x" + std::to_string(d.cols));
  if (model) {
    fit_matrix(in.a, p.a, model->a, model->name.view(), false);
    fit_matrix(in.b, p.b, model->b, model->name.view(), false);
  }
  request.a = in.a.view(), request.b = in.b.view(), request.c = in.c_view(), request.d = d.view();
  request.a_format = in.a.format, request.b_format = in.b.format, request.d_format = d.format;
  request.options = in.options;
  ShareProgress progress;
  request.progress = [&](double share) { progress(share); };

  const ValidateResult result = narrow::validate(request);
  Report report{result, in, d, {}, options.vector};
  const bool scaled = !in.options.scale_a.values.empty() || !in.options.scale_b.values.empty() ||
                      !in.options.block_a.empty() || !in.options.block_b.empty();
  if (result.failing && !scaled) {
    const narrow::DotModel& m = *result.candidates.front().model;
    report.failing.emplace(FailingVector{result.candidates.front(), *result.failing, m.a.format, m.b.format,
                                         in.c ? in.c->format : m.accumulator.format, d.format, in.options.alpha,
                                         in.options.beta, in.c.has_value()});
    if (options.vector) write_file(*options.vector, cpp_program(*report.failing));
  }
  print(options.json ? json_text(to_json(report)) : to_text(report));
  return result.exact ? 0 : 1;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  options->product.declare(arguments);
  arguments.option("--d", options->d.file, "FILE", "D, m x n: what the kernel returned");
  arguments.option("--d-format", options->d.format, "F", "what integers in D are codes of");
  arguments.option("--vector", options->vector, "FILE", "write a failing dot product as a C++ program");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace

const Command validate_command{"validate",
                               "which models and plans produced a matrix product, bit for bit; else where it differs",
                               "narrow validate --a a.npy --b b.npy --d d.npy", declare};

}  // namespace app
