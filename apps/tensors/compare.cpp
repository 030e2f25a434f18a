// narrow compare: two tensors, or two files of tensors by name: equal bits, distances in ulp, first and worst
// differences.
#include <bit>
#include <cmath>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "cli/command.hpp"
#include "cli/crew.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/compare_tensors.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/format_list.hpp"
#include "options/tensor_choice.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace of_compare {

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> x_format, y_format, max_ulp, rtol, atol;
  TensorOptions choice;
  bool json = false;
};

struct ComparedTensor {
  std::string name;
  narrow::Tensor x, y;
  narrow::Comparison found;
  std::string missing_in;       // the file that has no tensor of this name, or none that can be read
  std::string unreadable = {};  // why not
};

// Without a limit every bit must be equal.
bool is_good(const ComparedTensor& pair, const narrow::CompareOptions& limits) {
  if (!pair.missing_in.empty()) return false;
  if (limits.has_tolerance()) return pair.found.outside == 0;
  return limits.max_ulp ? pair.found.within(*limits.max_ulp) : pair.found.equal_bits();
}

ChosenFile open_side(const Options& options, std::size_t side) {
  TensorOptions choice = options.choice;
  const std::optional<std::string>& own = side == 0 ? options.x_format : options.y_format;
  if (own) choice.format = own;
  return blame(side == 0 ? "X" : "Y", [&] {
    const std::vector<std::string> files = by_first([&] { return expand_folders({options.files[side]}); });
    choice.may_match_none = files.size() > 1;
    ChosenFile all = open_chosen(files[0], choice);
    all.argument = options.files[side];
    std::unordered_set<std::string> names;
    for (const narrow::Tensor& tensor : all.tensors) names.insert(tensor.name);
    for (std::size_t k = 1; k < files.size(); ++k) {
      ChosenFile next = open_chosen(files[k], choice);
      for (narrow::Tensor& tensor : next.tensors) {
        if (!names.insert(tensor.name).second)
          throw narrow::Error("two files of " + narrow::quote(all.argument) + " have a tensor " +
                              narrow::quote(tensor.name) + "; compare them one by one");
        all.tensors.push_back(std::move(tensor));
      }
      all.unreadable.insert(all.unreadable.end(), next.unreadable.begin(), next.unreadable.end());
    }
    if (choice.may_match_none && choice.pattern && all.tensors.empty() && all.unreadable.empty())
      throw narrow::Error("--tensors: no name in the files of " + narrow::quote(all.argument) + " matches " +
                          narrow::quote(*choice.pattern));
    return all;
  });
}

// The pairs to compare. One tensor each: whatever their names; else by name, and those without a partner are reported.
std::vector<ComparedTensor> pair_up(const ChosenFile& x, const ChosenFile& y, bool& by_name) {
  std::vector<ComparedTensor> pairs;
  by_name = x.tensors.size() != 1 || y.tensors.size() != 1 || !x.unreadable.empty() || !y.unreadable.empty();
  if (!by_name) {
    pairs.push_back({x.tensors[0].name, x.tensors[0], y.tensors[0], {}, ""});
    return pairs;
  }
  // By name; nullptr: cannot be read.
  using Names = std::unordered_map<std::string_view, const narrow::Tensor*>;
  const auto names_of = [](const ChosenFile& file) {
    Names names;
    for (const narrow::Tensor& tensor : file.tensors) names.emplace(tensor.name, &tensor);
    for (const narrow::Unreadable& broken : file.unreadable) names.emplace(broken.name, nullptr);
    return names;
  };
  const Names in_x = names_of(x), in_y = names_of(y);
  for (const narrow::Tensor& tensor : x.tensors) {
    const auto other = in_y.find(tensor.name);
    if (other == in_y.end()) pairs.push_back({tensor.name, tensor, {}, {}, y.argument});
    else if (other->second != nullptr) pairs.push_back({tensor.name, tensor, *other->second, {}, ""});
  }
  for (const narrow::Tensor& tensor : y.tensors)
    if (!in_x.contains(tensor.name)) pairs.push_back({tensor.name, tensor, {}, {}, x.argument});
  for (const narrow::Unreadable& broken : x.unreadable)
    pairs.push_back({broken.name, {}, {}, {}, x.argument, broken.why});
  for (const narrow::Unreadable& broken : y.unreadable)
    if (const auto other = in_x.find(broken.name); other == in_x.end() || other->second != nullptr)
      pairs.push_back({broken.name, {}, {}, {}, y.argument, broken.why});
  return pairs;
}

double parse_tolerance(const char* flag, const std::string& text) {
  constexpr narrow::Format fp64 = narrow::operator""_fmt("fp64", 4);
  const double x = blame(flag, [&] { return std::bit_cast<double>(narrow::parse_value(text, fp64)); });
  if (x >= 0 && std::isfinite(x)) return x;
  throw narrow::Error(std::string(flag) + ": " + narrow::quote(text) +
                      " is not accepted; accepted: 0 or more, as 1e-3");
}

narrow::CompareOptions read_limits(const Options& options) {
  narrow::CompareOptions limits;
  constexpr narrow::Format any_word = narrow::operator""_fmt("fp64", 4);
  if (options.max_ulp)
    limits.max_ulp = blame("--max-ulp", [&] { return narrow::parse_code(*options.max_ulp, any_word); });
  if (options.rtol) limits.rtol = parse_tolerance("--rtol", *options.rtol);
  if (options.atol) limits.atol = parse_tolerance("--atol", *options.atol);
  if (options.choice.format)
    limits.in = blame("--format", [&] { return choose_format(*options.choice.format).format; });
  return limits;
}

// What was found, as JSON and for people.

// Integers have no format; they are shown as they are.
std::int64_t signed_value(narrow::Code code, const narrow::ElementType& type) {
  const int unused = 64 - type.bits;
  return static_cast<std::int64_t>(code << unused) >> unused;
}

std::string code_text(narrow::Code code, const narrow::ElementType& type) {
  if (type.has_format()) return narrow::to_hex_code(code, type.format);
  static constexpr const char* digits = "0123456789ABCDEF";
  std::string text = "0x";
  for (int shift = type.bits - 4; shift >= 0; shift -= 4) text += digits[code >> shift & 15];
  return text;
}

std::string value_text(narrow::Code code, const narrow::ElementType& type) {
  if (type.has_format()) return short_text(code, type.format);
  if (type.kind == narrow::ElementKind::signed_integer) return std::to_string(signed_value(code, type));
  return std::to_string(code);
}

Json value_json(narrow::Code code, const narrow::ElementType& type) {
  if (type.has_format()) return json_number(narrow::decode(code, type.format));
  if (type.kind == narrow::ElementKind::signed_integer) return signed_value(code, type);
  return code;
}

// What the codes of a comparison are: those of its format, or of the integers.
narrow::ElementType code_type(const ComparedTensor& pair) {
  narrow::ElementType type = pair.x.type;
  if (pair.found.format) type.format = *pair.found.format;
  return type;
}

// Of a complex tensor two values make an element: the last index says which.
std::vector<std::uint64_t> indices(const narrow::Tensor& tensor, std::uint64_t index) {
  std::vector<std::uint64_t> shape = tensor.shape;
  if (tensor.type.values() == 2) shape.push_back(2);
  return narrow::indices_of(index, shape);
}

Json to_json(const ComparedTensor& pair, const narrow::Difference& d) {
  Json row = Json::object();
  row["index"] = indices(pair.x, d.index);
  row["flat"] = d.index;
  const narrow::ElementType type = code_type(pair);
  const bool one = pair.found.has_ulp;  // values of two types have no codes to show
  row["x_code"] = one ? Json(code_text(d.x, type)) : Json();
  row["y_code"] = one ? Json(code_text(d.y, type)) : Json();
  row["x"] = value_json(d.x, type);
  row["y"] = value_json(d.y, type);
  row["ulp"] = one && d.ulp ? Json(*d.ulp) : Json();
  return row;
}

// Bin k > 1 holds the distances 2^(k-2) + 1 to 2^(k-1).
std::uint64_t bin_first(std::size_t k) { return k <= 1 ? k : (std::uint64_t{1} << (k - 2)) + 1; }
std::uint64_t bin_last(std::size_t k) { return k <= 1 ? k : k == 65 ? ~std::uint64_t{0} : std::uint64_t{1} << (k - 1); }

std::string bin_text(std::size_t k) {
  const std::uint64_t a = bin_first(k), b = bin_last(k);
  return a == b ? std::to_string(a) : std::to_string(a) + "-" + std::to_string(b);
}

std::string differences_text(const ComparedTensor& pair, const std::vector<narrow::Difference>& list, bool colour) {
  constexpr Align l = Align::left, r = Align::right;
  const narrow::ElementType type = code_type(pair);
  TextTable table{{"index", "flat", "X code", "Y code", "X", "Y", "ulp"}, {l, r, l, l, l, l, r}, {}};
  if (!pair.found.has_ulp) table = {{"index", "flat", "X", "Y"}, {l, r, l, l}, {}};
  for (const narrow::Difference& d : list) {
    std::vector<TextCell> row{shape_text(indices(pair.x, d.index)), std::to_string(d.index)};
    if (pair.found.has_ulp) row.insert(row.end(), {code_text(d.x, type), code_text(d.y, type)});
    row.insert(row.end(), {value_text(d.x, type), value_text(d.y, type)});
    if (pair.found.has_ulp) row.push_back(d.ulp ? std::to_string(*d.ulp) : "NaN");
    table.rows.push_back(std::move(row));
  }
  return table.to_text(colour, 4);
}

std::string distribution_text(const narrow::Comparison& c, bool colour) {
  TextTable table{{"ulp", "values"}, {Align::right, Align::left}, {}};
  table.rows.push_back({"equal bits", count_text(c.equal, c.total)});
  for (std::size_t k = 0; k < narrow::ulp_bins; ++k)
    if (c.by_ulp[k] != 0)
      table.rows.push_back({k == 0 ? "0 (sign of zero)" : bin_text(k), count_text(c.by_ulp[k], c.total)});
  if (c.nan_payload != 0) table.rows.push_back({"NaN, other bits", count_text(c.nan_payload, c.total)});
  if (c.nan_mismatch != 0) table.rows.push_back({"NaN against a number", count_text(c.nan_mismatch, c.total)});
  return table.to_text(colour, 4);
}

// Whether a side was rounded before the comparison.
bool is_rounded(const ComparedTensor& pair) {
  return pair.found.has_ulp && pair.found.format &&
         (pair.x.type.format != *pair.found.format || pair.y.type.format != *pair.found.format);
}

std::string format_text(const ComparedTensor& pair) {
  for (const ChosenFormat& row : all_formats())
    if (row.format == *pair.found.format) return row.name;
  return "a format of " + std::to_string(pair.found.format->width()) + " bits";
}

std::string limit_text(const narrow::CompareOptions& limits) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " or ") + word; };
  if (limits.max_ulp) add(std::to_string(*limits.max_ulp) + " ulp");
  if (limits.has_tolerance())
    add("rtol " + digits_text(limits.rtol.value_or(0), 6) + " and atol " + digits_text(limits.atol.value_or(0), 6));
  return text;
}

std::string verdict(const ComparedTensor& pair, const narrow::CompareOptions& limits) {
  if (!pair.unreadable.empty()) return "cannot be read in " + printable(pair.missing_in) + ": " + pair.unreadable;
  if (!pair.missing_in.empty()) return "not in " + printable(pair.missing_in);
  if (pair.found.equal_bits())
    return is_rounded(pair) ? "equal in " + format_text(pair) : pair.found.has_ulp ? "equal bits" : "equal values";
  return is_good(pair, limits) ? "within " + limit_text(limits) : "differs";
}

// What the values of both are, and what was compared.
std::string types_text(const ComparedTensor& pair) {
  const std::string x(pair.x.type.name), y(pair.y.type.name);
  return (x == y ? x : x + " against " + y) + (is_rounded(pair) ? " in " + format_text(pair) : "");
}

TextCell verdict_cell(const ComparedTensor& pair, const narrow::CompareOptions& limits) {
  const std::string text = verdict(pair, limits);
  return {text, paint(text, is_good(pair, limits) ? Colour::green : Colour::red, true)};
}

std::string details(const ComparedTensor& pair, bool colour) {
  const narrow::Comparison& c = pair.found;
  std::string text = c.has_ulp ? "  distances\n" + distribution_text(c, colour) : "";
  const bool same = c.first.size() == c.worst.size() && c.total - c.equal <= c.first.size();
  if (!same) text += "  first differences\n" + differences_text(pair, c.first, colour);
  return text + (same ? "  differences, worst first\n" : "  worst differences\n") +
         differences_text(pair, c.worst, colour);
}

std::string heading(const ComparedTensor& pair, const narrow::CompareOptions& limits, bool colour) {
  const std::string name = pair.name.empty() ? "tensor" : printable(pair.name);
  std::string text =
      paint(name, Colour::bold, colour) + ": " + (colour ? verdict_cell(pair, limits).painted : verdict(pair, limits));
  if (!pair.missing_in.empty()) return text + "\n";
  const narrow::Comparison& c = pair.found;
  text += ", " + types_text(pair) + " " + shape_text(pair.x.shape) + ", " + std::to_string(c.equal) + " of " +
          std::to_string(c.total) + " values equal";
  if (!c.equal_bits() && c.has_ulp) text += ", max " + std::to_string(c.max_ulp) + " ulp";
  if (limits.has_tolerance())
    text += ", max |y - x| " + digits_text(c.max_abs, 4) + ", relative " + digits_text(c.max_rel, 4) + ", " +
            std::to_string(c.outside) + " outside";
  return text + "\n";
}

Json compare_json(const ComparedTensor& pair, const narrow::CompareOptions& limits) {
  const narrow::Comparison& c = pair.found;
  const bool missing = !pair.missing_in.empty();
  Json out = Json::object();
  out["tensor"] = pair.name;
  out["dtype"] = pair.x.type.name;
  out["shape"] = pair.x.shape;
  out["total"] = missing ? pair.x.values() : c.total;
  out["equal_count"] = c.equal;
  out["equal_bits"] = !missing && c.equal_bits();
  out["max_ulp"] = missing || !c.has_ulp ? Json() : Json(c.max_ulp);
  out["nan_mismatch"] = c.nan_mismatch;
  out["nan_payload"] = c.nan_payload;
  out["zero_sign_mismatch"] = c.zero_sign_mismatch;
  out["within"] = is_good(pair, limits);
  out["missing_in"] = missing ? Json(pair.missing_in) : Json();
  out["unreadable"] = pair.unreadable.empty() ? Json() : Json(pair.unreadable);
  out["y_dtype"] = missing ? Json() : Json(pair.y.type.name);
  out["compared_in"] = !missing && c.has_ulp && c.format ? Json(format_text(pair)) : Json();
  const bool tolerance = !missing && limits.has_tolerance();
  out["outside"] = tolerance ? Json(c.outside) : Json();
  out["max_abs_error"] = tolerance ? json_number(c.max_abs) : Json();
  out["max_rel_error"] = tolerance ? json_number(c.max_rel) : Json();
  Json bins = Json::array();
  for (std::size_t k = 0; k < narrow::ulp_bins; ++k)
    if (c.by_ulp[k] != 0 && c.has_ulp) {
      Json bin = Json::object();
      bin["from"] = bin_first(k);
      bin["to"] = bin_last(k);
      bin["count"] = c.by_ulp[k];
      bins.push_back(std::move(bin));
    }
  out["ulp"] = std::move(bins);
  for (const char* key : {"first", "worst"}) {
    Json list = Json::array();
    for (const narrow::Difference& d : key == std::string("first") ? c.first : c.worst)
      list.push_back(to_json(pair, d));
    out[key] = std::move(list);
  }
  return out;
}

std::string compare_text(const std::vector<ComparedTensor>& pairs, const narrow::CompareOptions& limits, bool colour) {
  if (pairs.size() == 1) {
    const ComparedTensor& pair = pairs.front();
    const bool show = pair.missing_in.empty() && !pair.found.equal_bits();
    return heading(pair, limits, colour) + (show ? details(pair, colour) : "");
  }
  constexpr Align l = Align::left, r = Align::right;
  constexpr std::size_t most_details = 3;
  TextTable table{{"tensor", "type", "values", "equal", "max ulp", "NaN against number", "sign of zero", "verdict"},
              {l, l, r, r, r, r, r, l},
              {}};
  std::string more;
  std::size_t bad = 0, differing = 0;
  for (const ComparedTensor& pair : pairs) {
    const narrow::Comparison& c = pair.found;
    const bool missing = !pair.missing_in.empty(), good = is_good(pair, limits);
    const auto count = [&](std::uint64_t n) { return missing ? std::string("-") : std::to_string(n); };
    table.rows.push_back({printable(pair.name), missing ? std::string(pair.x.type.name) : types_text(pair),
                          pair.unreadable.empty() ? std::to_string(pair.x.values()) : "-", count(c.equal),
                          c.has_ulp ? count(c.max_ulp) : "-", count(c.nan_mismatch), count(c.zero_sign_mismatch),
                          verdict_cell(pair, limits)});
    bad += good ? 0 : 1;
    if (!good && !missing && ++differing <= most_details)
      more += "\n" + heading(pair, limits, colour) + details(pair, colour);
  }
  std::string text = table.to_text(colour) + more;
  if (differing > most_details)
    text += "\n" + std::to_string(differing) + " tensors differ; --tensors NAME shows the differences of others\n";
  if (bad == 0)
    text += std::to_string(pairs.size()) + " tensors, none differs" +
            (limits.max_ulp || limits.has_tolerance() ? " beyond what is allowed" : "") + "\n";
  return text;
}

int run(const Options& options) {
  if (options.files.size() != 2)
    throw narrow::Error("compare: give X and Y; for example: narrow compare before.safetensors after.safetensors");
  if (options.files[0] == "-" && options.files[1] == "-")
    throw narrow::Error("compare: only one of X and Y can be standard input");
  const narrow::CompareOptions limits = read_limits(options);
  const ChosenFile x = open_side(options, 0), y = open_side(options, 1);
  bool by_name = false;
  std::vector<ComparedTensor> pairs = pair_up(x, y, by_name);
  std::uint64_t bytes = 0;
  for (const ComparedTensor& pair : pairs)
    if (pair.missing_in.empty()) bytes += pair.x.bytes() + pair.y.bytes();
  bool good = true;
  {
    Progress progress("compare", bytes);
    std::vector<std::uint64_t> sizes;
    for (const ComparedTensor& pair : pairs)
      sizes.push_back(pair.missing_in.empty() ? pair.x.bytes() + pair.y.bytes() : 0);
    share_tensors(
        sizes, [&](std::size_t i) { return narrow::quote(pairs[i].name); },
        [&](std::size_t i, narrow::PieceLog* log) {
          ComparedTensor& pair = pairs[i];
          if (!pair.missing_in.empty()) return;
          const auto done = [&](std::uint64_t count) { progress.add(count); };
          pair.found = narrow::compare_tensors(pair.x, pair.y, limits, done, log);
        });
    for (const ComparedTensor& pair : pairs) good = good && is_good(pair, limits);
  }
  if (options.json) {
    Json list = Json::array();
    for (const ComparedTensor& pair : pairs) list.push_back(compare_json(pair, limits));
    print(json_text(by_name ? list : list[0]));
  } else {
    print(compare_text(pairs, limits, use_colour(1)));
  }
  return good ? 0 : 1;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values(
      "FILE", options->files,
      "X Y: two tensor files, folders of them, FILE:TENSOR, or - for one of them; many tensors go by name");
  options->choice.declare(
      arguments,
      "compare in this format: integers (V1 and V2 too) of its width are its codes, floating numbers "
      "of another type are rounded to it, to nearest even");
  arguments.option("--x-format", options->x_format, "FORMAT", "integers of X are codes of this format");
  arguments.option("--y-format", options->y_format, "FORMAT", "integers of Y are codes of this format");
  arguments.option(
      "--max-ulp", options->max_ulp, "N",
      "values may be N apart, zeros may differ in sign, NaN in payload (default: every bit must be equal)");
  arguments.option(
      "--rtol", options->rtol, "R",
      "values may differ: |y - x| <= A + R * |x| (X is the reference; Inf must be equal, NaN is close to NaN); "
      "for two types, too; with --max-ulp either is enough");
  arguments.option("--atol", options->atol, "A", "the same (default 0 where one of them is given)");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_compare

const Command compare_command{
    "compare", "bit equality, ulp distances, tolerances, first and worst differences of two tensors or files",
    "narrow compare expected.safetensors kernel.safetensors --max-ulp 1", of_compare::declare,
    "Without a tolerance every bit must be equal, signs of zeros and payloads of NaN included. --format "
    "compares as codes of a format, F32 against BF16 for example, and so measures distances in its ulps. The "
    "exit status is 1 where they differ beyond what is allowed."};

}  // namespace app
