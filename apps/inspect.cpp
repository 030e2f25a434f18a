// narrow inspect: what is in a tensor file: names, shapes, types, sizes, metadata; or what is wrong with it.
#include <memory>

#include "command.hpp"
#include "json_value.hpp"
#include "narrow/text/quote.hpp"
#include "number_text.hpp"
#include "table.hpp"
#include "tensor_choice.hpp"
#include "tensor_text.hpp"
#include "terminal.hpp"

namespace app {
namespace {

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> pattern;
  bool json = false;
};

Json to_json(const ChosenFile& chosen) {
  Json tensors = Json::array();
  for (const narrow::Tensor& t : chosen.tensors) {
    Json row;
    row["name"] = t.name;
    row["dtype"] = t.type.name;
    row["shape"] = t.shape;
    row["bytes"] = t.bytes();
    if (t.column_major) row["column_major"] = true;
    if (t.big_endian) row["big_endian"] = true;
    tensors.push_back(std::move(row));
  }
  Json metadata = Json::object();
  for (const auto& [key, value] : chosen.file.metadata) metadata[key] = value;
  Json out;
  out["file"] = chosen.file.path;
  out["kind"] = narrow::file_kind_name(chosen.file.kind);
  out["tensors"] = std::move(tensors);
  out["metadata"] = std::move(metadata);
  return out;
}

std::string to_text(const ChosenFile& chosen) {
  const bool colour = use_colour(1);
  std::uint64_t elements = 0;
  for (const narrow::Tensor& t : chosen.tensors) elements += t.elements();
  const std::size_t n = chosen.tensors.size();
  std::string text = paint(printable(chosen.file.path), Colour::bold, colour) + ": " +
                     std::string(narrow::file_kind_name(chosen.file.kind)) + ", " + std::to_string(n) +
                     (n == 1 ? " tensor, " : " tensors, ") + std::to_string(elements) + " elements, " +
                     size_text(bytes_of(chosen.tensors)) + "\n";
  Table table{{"tensor", "type", "shape", "bytes", "order"},
              {Align::left, Align::left, Align::left, Align::right, Align::left},
              {}};
  for (const narrow::Tensor& t : chosen.tensors) {
    std::string order = t.column_major ? "Fortran" : "";
    if (t.big_endian) order += order.empty() ? "big endian" : ", big endian";
    table.rows.push_back(
        {printable(t.name), std::string(t.type.name), shape_text(t.shape), std::to_string(t.bytes()), order});
  }
  bool any_order = false;
  for (const auto& row : table.rows) any_order = any_order || !row.back().text.empty();
  if (!any_order) {  // C order, little endian: nothing to say
    table.header.pop_back();
    table.align.pop_back();
    for (auto& row : table.rows) row.pop_back();
  }
  if (n != 0) text += table.to_text(colour, 2);
  if (!chosen.file.metadata.empty()) text += "metadata\n";
  for (const auto& [key, value] : chosen.file.metadata) text += "  " + printable(key) + ": " + printable(value) + "\n";
  return text;
}

int run(const Options& options) {
  if (options.files.empty()) throw narrow::Error("inspect: no file; for example: narrow inspect model.safetensors");
  TensorOptions choice;
  choice.pattern = options.pattern;
  if (options.json) {
    // One file, one object; several files, an array of them.
    Json all = Json::array();
    for (const std::string& file : expand_folders(options.files)) all.push_back(to_json(open_chosen(file, choice)));
    print(json_text(all.size() == 1 ? all[0] : all));
    return 0;
  }
  std::string text;
  for (const std::string& file : expand_folders(options.files)) {
    if (!text.empty()) text += "\n";
    text += to_text(open_chosen(file, choice));
  }
  print(text);
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("FILE", options->files,
                   "tensor files (.safetensors, its index, .npy, .npz), FILE:TENSOR, folders, or -");
  arguments.option("--tensors", options->pattern, "REGEX",
                   "only tensors whose name contains a match of this expression");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace

const Command inspect_command{"inspect", "what is in a tensor file, and what is wrong with it",
                              "narrow inspect model.safetensors", declare};

}  // namespace app
