// narrow compare: two tensors, or two files of tensors by name: equal bits, distances in ulp, first and worst
// differences.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <unordered_map>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/format_list.hpp"
#include "options/tensor_choice.hpp"
#include "tensors/compare_text.hpp"

namespace app {
namespace of_compare {

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> x_format, y_format, max_ulp, rtol, atol;
  TensorOptions choice;
  bool json = false;
};

ChosenFile open_side(const Options& options, std::size_t side) {
  TensorOptions choice = options.choice;
  const std::optional<std::string>& own = side == 0 ? options.x_format : options.y_format;
  if (own) choice.format = own;
  return blame(side == 0 ? "X" : "Y", [&] { return open_chosen(options.files[side], choice); });
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
    for (ComparedTensor& pair : pairs) {
      if (pair.missing_in.empty())
        pair.found = narrow::compare_tensors(pair.x, pair.y, limits, [&](std::uint64_t done) { progress.add(done); });
      good = good && is_good(pair, limits);
    }
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
  arguments.values("FILE", options->files,
                   "X Y: two tensor files, FILE:TENSOR, or - for one of them; many tensors go by name");
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
    "narrow compare expected.safetensors kernel.safetensors --max-ulp 1", of_compare::declare};

}  // namespace app
