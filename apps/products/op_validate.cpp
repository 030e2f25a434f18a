#include "products/op_validate.hpp"

#include <algorithm>

#include "cli/terminal.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/tensor_text.hpp"
#include "products/step_picture.hpp"

namespace app {
namespace of_op_validate {

using narrow::Error;
using narrow::Format;
using Shape = std::vector<std::uint64_t>;

// How far a variant is from D.
struct Trial {
  const OperationVariant* variant = nullptr;
  std::uint64_t equal = 0, max_ulp = 0;
  std::uint64_t nan_codes = 0;     // NaN on both sides, and other codes
  std::uint64_t nan_mismatch = 0;  // NaN on one side
  std::uint64_t first = 0;         // where it differs first
  std::uint32_t expected = 0;      // there
};

Trial compare(const OperationVariant& variant, const std::vector<std::uint32_t>& d, const Format& f) {
  const std::vector<std::uint32_t> codes = variant.run();
  Trial trial{&variant};
  for (std::size_t n = codes.size(); n-- > 0;) {
    if (codes[n] == d[n]) {
      ++trial.equal;
      continue;
    }
    trial.first = n, trial.expected = codes[n];
    const int nans = (narrow::is_nan(codes[n], f) ? 1 : 0) + (narrow::is_nan(d[n], f) ? 1 : 0);
    if (nans == 2) ++trial.nan_codes;
    else if (nans == 1) ++trial.nan_mismatch;
    else  // zeros of unlike signs differ in bits and not in value
      trial.max_ulp = std::max({trial.max_ulp, narrow::ulp_distance(codes[n], d[n], f), std::uint64_t{1}});
  }
  return trial;
}

struct Answer {
  const LoadedOperation& operation;
  const std::vector<std::uint32_t>& d;
  std::vector<Trial> trials;  // the nearest first

  const Trial& best() const { return trials.front(); }
  std::uint64_t total() const { return d.size(); }
  bool exact() const { return best().equal == total(); }
  bool only_nan_codes() const { return !exact() && best().equal + best().nan_codes == total(); }
};

std::string place_of(const Answer& a) {
  std::string text;
  for (const std::uint64_t i : narrow::indices_of(a.best().first, a.operation.shape))
    text += (text.empty() ? "" : ", ") + std::to_string(i);
  return "[" + text + "]";
}

std::string headline(const Answer& a, bool colour) {
  const Trial& best = a.best();
  const OperationVariant& v = *best.variant;
  const std::string who = a.operation.name + ", " + v.name + (v.kernel == v.name ? "" : " (" + v.kernel + ")") + ", " +
                          std::to_string(best.equal) + " of " + std::to_string(a.total());
  if (a.exact()) return paint("bit-exact", Colour::green, colour) + ": " + who + "\n";
  const bool explains = best.equal * 2 >= a.total();
  std::string text = paint("not bit-exact", Colour::red, colour) +
                     (a.only_nan_codes() ? "; the numbers are those of "
                      : explains         ? "; the nearest: "
                                         : "; nothing explains it; held against ") +
                     who + " (" + share_text(static_cast<double>(best.equal) / static_cast<double>(a.total())) + ")";
  if (best.max_ulp > 0) text += ", at most " + std::to_string(best.max_ulp) + " ulp away";
  return text + "\n";
}

std::string variant_table(const Answer& a, bool colour) {
  TextTable table{{"variant", "kernel", "equal", "largest distance (ulp)"},
                  {Align::left, Align::left, Align::right, Align::right},
                  {}};
  for (const Trial& t : a.trials) {
    std::string distance = std::to_string(t.max_ulp);
    if (t.nan_mismatch > 0) distance += ", and " + std::to_string(t.nan_mismatch) + " with NaN on one side";
    table.rows.push_back({t.variant->name, t.variant->kernel, std::to_string(t.equal), distance});
  }
  return table.to_text(colour, 4);
}

std::string to_text(const Answer& a) {
  const bool colour = use_colour(1);
  const Format& f = a.operation.format;
  std::string text = headline(a, colour) + "  " + shape_text(a.operation.shape) + " " + code_format_name(f) + "; " +
                     std::to_string(a.trials.size()) + (a.trials.size() == 1 ? " variant" : " variants") +
                     " tried\n  " + a.best().variant->name + ": " + a.best().variant->what + "\n";
  const auto nans = std::count_if(a.d.begin(), a.d.end(), [&](std::uint32_t code) { return narrow::is_nan(code, f); });
  if (nans > 0) text += "  " + std::to_string(nans) + " of the outputs are NaN\n";
  std::string same;
  for (const Trial& t : a.trials)
    if (t.equal == a.total()) same += (same.empty() ? "" : ", ") + t.variant->name;
  if (same.find(',') != std::string::npos)
    text += "  this data does not tell these apart: " + same + "; the likeliest is named\n";
  if (a.only_nan_codes())
    text += "  all differences are codes of NaN: the kernels write " +
            narrow::to_hex_code(f.width() == 32 ? 0x7FFFFFFF : 0x7FFF, f) + "\n";
  if (!a.exact()) {
    const Trial& best = a.best();
    text += "  " + std::to_string(a.total() - best.equal) + " differ, the first at " + place_of(a) + "\n    expected " +
            code_and_value(best.expected, f) + "\n    found    " + code_and_value(a.d[best.first], f) + "\n";
  }
  return text + "\n" + variant_table(a, colour);
}

Json to_json(const Answer& a) {
  const Trial& best = a.best();
  const Format& f = a.operation.format;
  Json out = Json::object();
  out["exact"] = a.exact();
  out["operation"] = a.operation.name;
  out["variant"] = best.variant->name;
  out["kernel"] = best.variant->kernel;
  out["shape"] = a.operation.shape;
  out["format"] = code_format_name(f);
  out["equal_count"] = best.equal;
  out["total"] = a.total();
  out["max_ulp"] = best.max_ulp;
  out["nan_codes"] = best.nan_codes;
  out["nan_mismatch"] = best.nan_mismatch;
  out["candidates"] = Json::array();
  for (const Trial& t : a.trials)
    out["candidates"].push_back({{"variant", t.variant->name},
                                 {"kernel", t.variant->kernel},
                                 {"equal_count", t.equal},
                                 {"max_ulp", t.max_ulp},
                                 {"nan_codes", t.nan_codes},
                                 {"nan_mismatch", t.nan_mismatch}});
  out["first_difference"] = Json();
  if (!a.exact()) {
    Json first = Json::object();
    first["index"] = narrow::indices_of(best.first, a.operation.shape);
    first["expected"] = narrow::to_hex_code(best.expected, f);
    first["found"] = narrow::to_hex_code(a.d[best.first], f);
    out["first_difference"] = std::move(first);
  }
  return out;
}

// D as it must be: of the type and the shape of the result, where dimensions of one do not count.
narrow::Tensor load_result(const MatrixFlags& flags, const std::string& name, const Format& format,
                           const Shape& shape) {
  if (!flags.file) throw Error("validate: --d is missing: what the kernel returned; for example --d out.npy");
  const narrow::Tensor d = load_operand(flags);
  const std::string who = "--d: " + narrow::quote(*flags.file);
  if (!(d.type.format == format))
    throw Error(who + " holds " + std::string(d.type.name) + " and " + name + " of these operands gives " +
                code_format_name(format));
  Shape wanted = shape, given = d.shape;
  std::erase(wanted, 1u), std::erase(given, 1u);
  if (wanted != given)
    throw Error(who + " has the shape " + shape_text(d.shape) + " and " + name + " of these operands " +
                shape_text(shape));
  return d;
}

void require_numbers(const std::vector<std::uint32_t>& d, const Format& f) {
  if (std::all_of(d.begin(), d.end(), [&](std::uint32_t code) { return narrow::is_nan(code, f); }))
    throw Error("validate: every output is NaN: that tells nothing about what made it");
}

// By the search for the model and the plan of a product; its answer in the words of operations.
Validated linear(const OperationQuestion& question) {
  const OperationFlags& flags = question.operation;
  LinearOperands in = load_linear(flags);
  narrow::Tensor d = load_result(question.d, flags.name, in.x.type.format, in.shape);
  require_numbers(operand_codes(d, "--d"), d.type.format);
  d.shape = {in.x.shape[0], in.w.shape[0]};
  ValidateFlags product;
  product.product.model = flags.model, product.product.plan = flags.variant, product.product.threads = flags.threads;
  product.gpu = question.gpu, product.vector = question.vector, product.test = question.test;
  product.verbose = question.verbose;
  std::vector<narrow::Tensor> tensors;
  const auto add = [&](narrow::Tensor tensor, const char* name, MatrixFlags& to) {
    tensor.name = name, to.file = name;
    tensors.push_back(std::move(tensor));
  };
  add(in.x, "<x>", product.product.a), add(in.w, "<w>", product.product.b), add(d, "<d>", product.d);
  product.product.b.transpose = true;
  if (in.b) add(*in.b, "<b>", product.product.c);
  const narrow::TensorsInMemory held(std::move(tensors));
  Validated found = validate_product(product);

  const Json& p = found.json;
  const auto variant = [](const Json& of) {
    return of["model"].get<std::string>() + ", " + of["plan"].get<std::string>();
  };
  Json out = Json::object();
  out["exact"] = found.exact;
  out["operation"] = flags.name;
  out["variant"] = variant(p);
  out["kernel"] = p["model"];
  out["shape"] = in.shape;
  out["format"] = code_format_name(d.type.format);
  for (const char* key : {"equal_count", "total", "max_ulp"}) out[key] = p[key];
  out["candidates"] = Json::array();  // all that are exact, else the nearest
  for (const Json& c : p["candidates"])
    out["candidates"].push_back({{"variant", variant(c)},
                                 {"kernel", c["model"]},
                                 {"equal_count", found.exact ? c["compared"] : p["equal_count"]},
                                 {"max_ulp", p["max_ulp"]}});
  out["first_difference"] = Json();
  if (p["failing"].is_object()) {
    const Json& failing = p["failing"];
    Json first = Json::object();
    const std::uint64_t at = failing["row"].get<std::uint64_t>() * in.w.shape[0] + failing["col"].get<std::uint64_t>();
    first["index"] = narrow::indices_of(at, in.shape);
    first["expected"] = failing["expected"];
    first["found"] = failing["found"];
    out["first_difference"] = std::move(first);
  }
  out["product"] = p;
  found.json = std::move(out);
  return found;
}

Validated run(const OperationQuestion& question) {
  if (question.operation.name == "linear") return linear(question);
  for (const auto& [flag, given] : {std::pair{"--gpu", question.gpu.has_value()},
                                    {"--vector", question.vector.has_value()},
                                    {"--test", question.test.has_value()}})
    if (given) throw Error(std::string(flag) + ": it belongs to products and to --op linear");
  const LoadedOperation operation = load_operation(question.operation);
  const narrow::Tensor tensor = load_result(question.d, operation.name, operation.format, operation.shape);
  const std::vector<std::uint32_t> d = operand_codes(tensor, "--d");
  require_numbers(d, operation.format);
  Answer answer{operation, d, {}};
  for (const OperationVariant& variant : operation.variants)
    answer.trials.push_back(compare(variant, d, operation.format));
  const auto is_exact = [&](const Trial& t) { return t.equal == d.size(); };
  std::vector<OperationVariant> found;
  if (operation.found && std::none_of(answer.trials.begin(), answer.trials.end(),
                                      [&](const Trial& t) { return t.variant->is_kernel && is_exact(t); }))
    found = operation.found(d);
  for (const OperationVariant& variant : found) {  // before what no kernel computes
    const Trial trial = compare(variant, d, operation.format);
    answer.trials.insert(std::find_if(answer.trials.begin(), answer.trials.end(),
                                      [](const Trial& t) { return !t.variant->is_kernel; }),
                         trial);
    if (is_exact(trial)) break;
  }
  std::stable_sort(answer.trials.begin(), answer.trials.end(), [](const Trial& a, const Trial& b) {
    return a.equal != b.equal ? a.equal > b.equal : a.max_ulp < b.max_ulp;
  });
  return {answer.exact(), to_json(answer), to_text(answer)};
}

}  // namespace of_op_validate

Validated validate_operation(const OperationQuestion& question) { return of_op_validate::run(question); }

}  // namespace app
