// narrow compare: two tensors, or two files of tensors by name: equal bits, distances in ulp, first and worst
// differences.
#include <algorithm>
#include <memory>

#include "command.hpp"
#include "compare_text.hpp"
#include "format_list.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/parse.hpp"
#include "narrow/text/quote.hpp"
#include "progress.hpp"
#include "tensor_choice.hpp"
#include "terminal.hpp"

namespace app {
namespace {

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> x_format, y_format, max_ulp;
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
  by_name = x.tensors.size() != 1 || y.tensors.size() != 1;
  if (!by_name) {
    pairs.push_back({x.tensors[0].name, x.tensors[0], y.tensors[0], {}, ""});
    return pairs;
  }
  const auto find = [](const ChosenFile& file, const std::string& name) {
    return std::find_if(file.tensors.begin(), file.tensors.end(),
                        [&](const narrow::Tensor& t) { return t.name == name; });
  };
  for (const narrow::Tensor& tensor : x.tensors) {
    const auto other = find(y, tensor.name);
    if (other != y.tensors.end()) pairs.push_back({tensor.name, tensor, *other, {}, ""});
    else pairs.push_back({tensor.name, tensor, {}, {}, y.argument});
  }
  for (const narrow::Tensor& tensor : y.tensors)
    if (find(x, tensor.name) == x.tensors.end()) pairs.push_back({tensor.name, tensor, {}, {}, x.argument});
  return pairs;
}

int run(const Options& options) {
  if (options.files.size() != 2)
    throw narrow::Error("compare: give X and Y; for example: narrow compare before.safetensors after.safetensors");
  if (options.files[0] == "-" && options.files[1] == "-")
    throw narrow::Error("compare: only one of X and Y can be standard input");
  std::optional<std::uint64_t> max_ulp;
  constexpr narrow::Format any_word = narrow::operator""_fmt("fp64", 4);
  if (options.max_ulp) max_ulp = blame("--max-ulp", [&] { return narrow::parse_code(*options.max_ulp, any_word); });

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
        pair.found = narrow::compare_tensors(pair.x, pair.y, 10, 0, [&](std::uint64_t done) { progress.add(done); });
      good = good && is_good(pair, max_ulp);
    }
  }
  if (options.json) {
    Json list = Json::array();
    for (const ComparedTensor& pair : pairs) list.push_back(compare_json(pair, max_ulp));
    print(json_text(by_name ? list : list[0]));
  } else {
    print(compare_text(pairs, max_ulp, use_colour(1)));
  }
  return good ? 0 : 1;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("FILE", options->files,
                   "X Y: two tensor files, FILE:TENSOR, or - for one of them; many tensors go by name");
  options->choice.declare(arguments);
  arguments.option("--x-format", options->x_format, "FORMAT", "the same for X alone");
  arguments.option("--y-format", options->y_format, "FORMAT", "the same for Y alone");
  arguments.option(
      "--max-ulp", options->max_ulp, "N",
      "values may be N apart, zeros may differ in sign, NaN in payload (default: every bit must be equal)");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace

const Command compare_command{"compare",
                              "bit equality, ulp distances, first and worst differences of two tensors or files",
                              "narrow compare expected.safetensors kernel.safetensors --max-ulp 1", declare};

}  // namespace app
