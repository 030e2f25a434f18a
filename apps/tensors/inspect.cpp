// narrow inspect: what is in a tensor file: names, shapes, types, sizes, metadata; or what is wrong with it.
#include <memory>

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/scale/scale_rule.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "options/tensor_choice.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace of_inspect {

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> pattern;
  bool json = false;
};

// The parts of a block-quantised tensor by the names of their keys, and what they are.
std::vector<std::pair<const char*, const narrow::Tensor*>> parts_of(const narrow::BlockParts& blocks) {
  std::vector<std::pair<const char*, const narrow::Tensor*>> parts{{"codes", &blocks.codes}};
  if (blocks.scales.source) parts.emplace_back("scales", &blocks.scales);
  if (blocks.scale2) parts.emplace_back("scale2", &*blocks.scale2);
  return parts;
}

std::string_view dtype_of(const narrow::Tensor& t) { return t.blocks ? t.blocks->codes.type.name : t.type.name; }

// As stored, scales and all: 4.5 for NVFP4.
double bits_per_weight(const narrow::Tensor& t) {
  const std::uint64_t n = t.elements();
  return n == 0 ? 0 : 8.0 * static_cast<double>(narrow::stored_bytes(t)) / static_cast<double>(n);
}

// "" where the file does not say by which rule its scales were chosen.
std::string_view rule_text(const narrow::BlockParts& b) {
  return b.layout == "narrow" ? narrow::row_of(b.format.rule).name : "";
}

const char* second_text(narrow::BlockParts::Second second) {
  using enum narrow::BlockParts::Second;
  return second == factor ? "factor" : second == divisor ? "divisor" : "amax";
}

std::string value_text(const narrow::BlockParts& b) {
  std::string text = b.zeros ? "(code - zero) * scale" : b.scales.source ? "code * scale" : "code * scale of its block";
  if (b.divisor != 1) text += " / " + digits_text(b.divisor, 6);
  if (!b.scale2) return text;
  const std::string name = printable(b.scale2->name);
  return text + (b.second == narrow::BlockParts::Second::divisor ? " / " : " * ") + name +
         (b.second == narrow::BlockParts::Second::amax ? " / 2688 (an amax)" : "");
}

std::string block_text(const narrow::BlockFormat& f) {
  const auto size = [](std::size_t n, const char* all) { return n == 0 ? std::string(all) : std::to_string(n); };
  return f.block_rows == 0 ? "all" : size(f.block_rows, "all") + "x" + size(f.block_cols, "row");
}

Json to_json(const narrow::Tensor& t) {
  Json row = Json::object();
  row["name"] = t.name;
  row["dtype"] = dtype_of(t);
  row["shape"] = t.shape;
  row["bytes"] = narrow::stored_bytes(t);
  if (t.column_major) row["column_major"] = true;
  if (t.big_endian) row["big_endian"] = true;
  if (!t.blocks) return row;
  const narrow::BlockParts& b = *t.blocks;
  row["block_format"] = b.format_name.substr(0, b.format_name.find(':'));
  row["layout"] = b.layout;
  if (!rule_text(b).empty()) row["rule"] = rule_text(b);
  row["block"] = {b.format.block_rows, b.format.block_cols};  // 0: all
  for (const auto& [key, part] : parts_of(b))
    row[key] = {{"name", part->name}, {"dtype", part->type.name}, {"shape", part->shape}, {"bytes", part->bytes()}};
  if (b.scale2) row["scale2"]["is"] = second_text(b.second);
  row["bits_per_weight"] = bits_per_weight(t);
  return row;
}

Json to_json(const ChosenFile& chosen) {
  Json tensors = Json::array(), broken = Json::array();
  for (const narrow::Tensor& t : chosen.tensors) tensors.push_back(to_json(t));
  for (const narrow::Unreadable& b : chosen.unreadable) broken.push_back({{"name", b.name}, {"reason", b.why}});
  Json metadata = Json::object();
  for (const auto& [key, value] : chosen.file.metadata) metadata[key] = value;
  Json out = Json::object();
  out["file"] = chosen.file.path;
  out["kind"] = narrow::file_kind_name(chosen.file.kind);
  out["tensors"] = std::move(tensors);
  out["metadata"] = std::move(metadata);
  out["unreadable"] = std::move(broken);
  return out;
}

// The parts of the tensors in block formats, a line each.
std::string blocks_text(const std::vector<narrow::Tensor>& tensors, bool colour) {
  constexpr Align l = Align::left;
  TextTable table{{"tensor", "layout", "block", "rule", "bits", "codes", "scales", "value"},
                  {l, l, l, l, Align::right, l, l, l},
                  {}};
  for (const narrow::Tensor& t : tensors) {
    if (!t.blocks) continue;
    const narrow::BlockParts& b = *t.blocks;
    table.rows.push_back(
        {printable(t.name), b.layout, b.is_flat ? std::to_string(b.format.block_cols) : block_text(b.format),
         std::string(rule_text(b)), digits_text(bits_per_weight(t), 4), std::string(b.codes.type.name),
         !b.scales.source
             ? "in the blocks"
             : printable(b.scales.name) + " " + std::string(b.scales.type.name) + " " + shape_text(b.scales.shape),
         value_text(b)});
  }
  return table.rows.empty() ? "" : "block formats (bits: per weight, scales included)\n" + table.to_text(colour, 2);
}

std::string to_text(const ChosenFile& chosen) {
  const bool colour = use_colour(1);
  std::uint64_t elements = 0, bytes = 0;
  for (const narrow::Tensor& t : chosen.tensors) elements += t.elements(), bytes += narrow::stored_bytes(t);
  const std::size_t n = chosen.tensors.size();
  std::string text = paint(printable(chosen.file.path), Colour::bold, colour) + ": " +
                     std::string(narrow::file_kind_name(chosen.file.kind)) + ", " + std::to_string(n) +
                     (n == 1 ? " tensor, " : " tensors, ") + std::to_string(elements) +
                     (elements == 1 ? " element, " : " elements, ") + size_text(bytes) + "\n";
  TextTable table{{"tensor", "type", "shape", "bytes", "order"},
              {Align::left, Align::left, Align::left, Align::right, Align::left},
              {}};
  bool any_order = false;
  for (const narrow::Tensor& t : chosen.tensors) {
    std::string order = t.column_major ? "Fortran" : "";
    if (t.big_endian) order += order.empty() ? "big endian" : ", big endian";
    any_order = any_order || !order.empty();
    const std::string type =
        t.blocks ? t.blocks->format_name.substr(0, t.blocks->format_name.find(':')) : std::string(t.type.name);
    table.rows.push_back(
        {printable(t.name), printable(type), shape_text(t.shape), std::to_string(narrow::stored_bytes(t)), order});
  }
  if (!any_order) {  // C order, little endian: nothing to say
    table.header.pop_back();
    table.align.pop_back();
    for (auto& row : table.rows) row.pop_back();
  }
  if (n != 0) text += table.to_text(colour, 2);
  text += blocks_text(chosen.tensors, colour);
  if (!chosen.unreadable.empty()) text += paint("unreadable", Colour::red, colour) + "\n";
  for (const narrow::Unreadable& b : chosen.unreadable) text += "  " + printable(b.name) + ": " + b.why + "\n";
  std::string metadata;
  for (const auto& [key, value] : chosen.file.metadata)  // what the tables above say already stands there
    if (!key.starts_with(narrow::block_format_key("")) && !key.starts_with(narrow::scale2_key("")))
      metadata += "  " + printable(key) + ": " + printable(value) + "\n";
  return text + (metadata.empty() ? "" : "metadata\n" + metadata);
}

int run(const Options& options) {
  if (options.files.empty()) throw narrow::Error("inspect: no file; for example: narrow inspect model.safetensors");
  TensorOptions choice;
  choice.pattern = options.pattern;
  Json all = Json::array();
  std::string text;
  bool good = true;
  for (const std::string& file : expand_folders(options.files)) {
    const ChosenFile chosen = open_chosen(file, choice);
    good = good && chosen.unreadable.empty();
    if (options.json) all.push_back(to_json(chosen));
    else text += (text.empty() ? "" : "\n") + to_text(chosen);
  }
  // One file, one object; several files, an array of them.
  print(options.json ? json_text(all.size() == 1 ? all[0] : all) : text);
  return good ? 0 : 1;
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

}  // namespace of_inspect

const Command inspect_command{
    "inspect", "what is in a tensor file, and what is wrong with it (exit 1 when a tensor cannot be read)",
    "narrow inspect model.safetensors", of_inspect::declare,
    "Every number in a header is checked against the file before it is used. Codes, scales and factors of a "
    "quantised checkpoint are one tensor; layout, block and bits a weight are named. One unreadable tensor "
    "leaves the others, and makes the exit status 1."};

}  // namespace app
