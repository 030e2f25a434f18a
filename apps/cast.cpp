// narrow cast: a tensor file to codes of a format, or to rounded values; names and metadata are kept.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "cast_blocks.hpp"
#include "cast_options.hpp"
#include "command.hpp"
#include "format_list.hpp"
#include "json_value.hpp"
#include "narrow/scale/block_format.hpp"
#include "narrow/tensor/cast_tensor.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "narrow/text/quote.hpp"
#include "progress.hpp"
#include "tensor_choice.hpp"
#include "tensor_text.hpp"
#include "terminal.hpp"

namespace app {
namespace {

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> to;
  TensorOptions choice;
  CastOptions cast;
  bool values = false, json = false;
};

// One tensor of the output: where it comes from, and whether it is cast or copied.
struct Planned {
  narrow::Tensor source;
  narrow::TensorHeader header;
  bool is_cast = false;
  bool names_format = true;  // the type says what the codes mean
};

struct Plan {
  std::vector<Planned> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// An .npy file has no name inside; .safetensors needs one.
std::string name_in_output(const narrow::Tensor& tensor, const std::string& input) {
  if (!tensor.name.empty()) return tensor.name;
  const std::string stem = std::filesystem::path(input).stem().string();
  return stem.empty() || stem == "-" ? "tensor" : stem;
}

bool can_cast(const narrow::Tensor& tensor, narrow::CastResult result) {
  return tensor.type.kind == narrow::ElementKind::floating ||
         (tensor.type.kind == narrow::ElementKind::complex && result == narrow::CastResult::values);
}

Plan make_plan(const ChosenFile& input, const ChosenFormat& to, narrow::CastResult result) {
  Plan plan;
  plan.metadata = input.file.metadata;
  const auto erase_key = [&](const std::string& key) {
    std::erase_if(plan.metadata, [&](const auto& entry) { return entry.first == key; });
  };
  for (const narrow::Tensor& tensor : input.file.tensors) {
    const auto chosen = std::find_if(input.tensors.begin(), input.tensors.end(),
                                     [&](const narrow::Tensor& t) { return t.name == tensor.name; });
    if (chosen == input.tensors.end() && input.one_named) continue;
    Planned planned{tensor, tensor, false, true};
    planned.header.name = name_in_output(tensor, input.file.path);
    if (chosen != input.tensors.end() && can_cast(*chosen, result)) {
      const narrow::ResultType type = narrow::cast_type(chosen->type, chosen->elements(), to.format, result);
      planned.source = *chosen;
      planned.header.type = type.type;
      planned.is_cast = true;
      planned.names_format = type.names_format;
      erase_key(format_key(tensor.name));
      if (!type.names_format) plan.metadata.emplace_back(format_key(planned.header.name), to.name);
    }
    plan.tensors.push_back(std::move(planned));
  }
  return plan;
}

void write_plan(const Plan& plan, const std::string& path, const narrow::FormatCast& to, narrow::CastResult result,
                std::uint64_t seed) {
  std::vector<narrow::TensorHeader> headers;
  std::uint64_t bytes = 0;
  for (const Planned& p : plan.tensors) headers.push_back(p.header), bytes += p.source.bytes();
  Progress progress("cast", bytes);
  const narrow::TensorPass pass{seed, 0, [&](std::uint64_t done) { progress.add(done); }};
  narrow::TensorWriter writer(path, std::move(headers), plan.metadata);
  const narrow::WriteBytes write = [&](std::span<const std::byte> piece) { writer.write(piece); };
  for (const Planned& p : plan.tensors) {
    if (p.is_cast) narrow::cast_tensor(p.source, to, result, write, pass);
    else narrow::copy_tensor(p.source, write, pass);
  }
  writer.finish();
}

bool is_npy(const std::string& path) { return path.ends_with(".npy"); }

void check_output(const std::string& path, const Plan& plan, const ChosenFile& input) {
  if (!is_npy(path) && !path.ends_with(".safetensors"))
    throw narrow::Error("cast: the ending of " + narrow::quote(path) +
                        " says what to write; accepted: .safetensors, .npy");
  if (is_npy(path) && plan.tensors.size() != 1)
    throw narrow::Error("cast: " + narrow::quote(path) + " holds one tensor, " + narrow::quote(input.argument) +
                        " has " + std::to_string(plan.tensors.size()) +
                        "; name one (FILE:TENSOR), or write .safetensors");
  const bool any = std::any_of(plan.tensors.begin(), plan.tensors.end(), [](const Planned& p) { return p.is_cast; });
  if (!any) (void)input.floating();  // says why
  if (!any)
    throw narrow::Error("cast: nothing to cast in " + narrow::quote(input.argument) +
                        "; complex tensors need --values");
}

Json to_json(const Plan& plan, const std::string& path, const ChosenFormat& to, bool values) {
  Json tensors = Json::array();
  for (const Planned& p : plan.tensors) {
    Json row;
    row["name"] = p.header.name;
    row["from"] = p.source.type.name;
    row["dtype"] = p.header.type.name;
    row["cast"] = p.is_cast;
    row["bytes"] = p.header.bytes();
    tensors.push_back(std::move(row));
  }
  Json out;
  out["file"] = path;
  out["format"] = to.name;
  out["values"] = values;
  out["tensors"] = std::move(tensors);
  return out;
}

std::string summary(const Plan& plan, const std::string& path, const ChosenFormat& to, bool values) {
  std::size_t cast = 0, plain = 0;
  std::uint64_t before = 0, after = 0;
  std::string types, plain_type;
  for (const Planned& p : plan.tensors) {
    before += p.source.bytes(), after += p.header.bytes();
    if (!p.is_cast) continue;
    ++cast;
    const std::string type(p.header.type.name);
    if (("," + types + ",").find("," + type + ",") == std::string::npos) types += (types.empty() ? "" : ",") + type;
    if (!p.names_format) ++plain, plain_type = type;
  }
  const std::size_t copied = plan.tensors.size() - cast;
  std::string text = printable(path) + ": " + std::to_string(cast) + (cast == 1 ? " tensor" : " tensors") +
                     " cast to " + to.name + (values ? " values in " : " codes in ") + types +
                     (copied != 0 ? ", " + std::to_string(copied) + " copied" : "") + "; " + size_text(before) +
                     " -> " + size_text(after) + "\n";
  if (plain != 0)
    text += "note: " + std::to_string(plain) + (plain == 1 ? " tensor" : " tensors") + " of " + to.name +
            " codes without a type in the file are written as " + plain_type +
            (is_npy(path) ? "; read them with --format " + to.name
                          : "; metadata '" + format_key("NAME") + "' says so, and narrow reads it") +
            "\n";
  return text;
}

int run(const Options& options) {
  if (options.files.size() != 2)
    throw narrow::Error("cast: give IN and OUT; for example: narrow cast model.safetensors out.safetensors --to e4m3");
  if (!options.to) throw narrow::Error("cast: no format; give one: --to e4m3");
  options.cast.check();
  if (narrow::is_block_format_name(*options.to)) {
    if (!options.cast.is_plain())
      throw narrow::Error("cast: --cast, --rounding, --overflow and --subnormals do not go with " +
                          narrow::quote(*options.to) + ", whose rule fixes them");
    return cast_to_blocks(
        {options.files[0], options.files[1], *options.to, options.choice, options.values, options.json});
  }
  const ChosenFormat to = blame("--to", [&] { return choose_format(*options.to); });
  const narrow::FormatCast cast{to.format, blame(to.name, [&] { return options.cast.cast_to(to.format); })};
  const auto result = options.values ? narrow::CastResult::values : narrow::CastResult::codes;
  const std::string& path = options.files[1];

  const ChosenFile input = open_chosen(options.files[0], options.choice);
  const Plan plan = make_plan(input, to, result);
  check_output(path, plan, input);
  write_plan(plan, path, cast, result, options.cast.random_value());
  print(options.json ? json_text(to_json(plan, path, to, options.values)) : summary(plan, path, to, options.values));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("FILE", options->files,
                   "IN OUT: a tensor file (or FILE:TENSOR, or -) and the file to write, which may be the same");
  arguments.option("--to", options->to, "FORMAT",
                   "the format of the result; a block format (mxfp8_e4m3, nvfp4, see list-scaling) gives codes and scales");
  options->choice.declare(arguments);
  arguments.flag("--values", options->values, "rounded values as F32 (F64 stays F64) instead of codes");
  options->cast.declare_for_arrays(arguments);
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace

const Command cast_command{"cast", "a tensor file to codes of a format, or to rounded values",
                           "narrow cast model.safetensors model-e4m3.safetensors --to e4m3 --overflow saturate",
                           declare};

}  // namespace app
