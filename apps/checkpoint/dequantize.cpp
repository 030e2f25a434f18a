// narrow dequantize: a quantised model as plain numbers.
#include <memory>

#include "checkpoint/model.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/text/quote.hpp"
#include "options/format_list.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace of_dequantize {

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> to;
  bool json = false;
};

Converted plain(const narrow::Tensor& t, const narrow::FormatCast& to, const narrow::ElementType& type,
                std::uint64_t& not_finite) {
  if (!t.blocks) return copied(t);
  Converted c;
  c.headers = {t};
  c.headers[0].type = type;
  c.is_changed = true;
  c.write = [t, to, type, &not_finite](const auto& write, const narrow::BytesDone& done) {
    const narrow::WriteBytes counted = [&](std::span<const std::byte> bytes) {
      not_finite += narrow::count_not_finite(bytes, type);
      write(bytes);
    };
    if (to.format == t.type.format) return narrow::copy_tensor(t, counted, {0, 0, done});
    narrow::cast_tensor(t, to, narrow::CastResult::codes, counted, {0, 0, done});
  };
  return c;
}

int run(const Options& options) {
  if (options.files.size() != 2)
    throw narrow::Error("dequantize: give IN and OUT; for example: narrow dequantize model-nvfp4 model-fp32");
  const std::string word = options.to.value_or("fp32");
  const ChosenFormat chosen = blame("--to", [&] { return choose_format(word); });
  const narrow::ElementType* type = narrow::element_type_of(chosen.format);
  if (type == nullptr || type->bits < 16)
    throw narrow::Error("--to: " + narrow::quote(word) + "; a dequantised model is fp32, fp64, fp16 or bf16");
  const narrow::FormatCast to{chosen.format, {}};
  const Model model = open_model(options.files[0], "dequantize");
  std::uint64_t not_finite = 0;
  const bool is_gguf = model.files[0].kind == narrow::FileKind::gguf;
  Conversion how{"dequantize",
                 [&](const narrow::Tensor& t) { return plain(t, to, *type, not_finite); },
                 {},
                 {"hf_quant_config.json"}};
  how.edit = [&](Json& config) {
    config.erase("compression_config"), config.erase("quantization_config");
    const char* name = type->name == "F32"   ? "float32"
                       : type->name == "F64" ? "float64"
                       : type->name == "F16" ? "float16"
                                             : "bfloat16";
    for (const char* key : {"torch_dtype", "dtype"})
      if (config.contains(key)) config[key] = name;
  };
  const ConvertedModel m = convert_model(model, options.files[1], how);
  const std::string& out = options.files[1];
  if (options.json) {
    print(json_text(Json{{"model", out},
                         {"format", chosen.name},
                         {"dequantised", m.changed},
                         {"kept", m.kept},
                         {"shards", m.shards},
                         {"other_files", m.other_files},
                         {"bytes_before", m.bytes_before},
                         {"bytes_after", m.bytes_after},
                         {"not_finite", not_finite}}));
  } else {
    print(printable(out) + ": " + std::to_string(m.changed) + (m.changed == 1 ? " tensor" : " tensors") +
          " dequantised to " + chosen.name + ", " + std::to_string(m.kept) + " kept; " + size_text(m.bytes_before) +
          " -> " + size_text(m.bytes_after) + "\n" +
          (m.changed == 0
               ? "note: nothing in " + printable(options.files[0]) + " is quantised in a layout that is known\n"
               : "") +
          (not_finite != 0 ? "note: " + many(not_finite, "dequantised value") + " NaN or Inf in " + chosen.name + "\n"
                           : "") +
          (is_gguf ? "note: what the .gguf says besides its tensors (architecture, vocabulary) is left behind\n" : ""));
  }
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("MODEL", options->files,
                   "IN OUT: two folders, or a file (.safetensors, .gguf) and the .safetensors to write");
  arguments.option(
      "--to", options->to, "FORMAT",
      "the type of the result: fp32, fp64, fp16 or bf16 (default fp32; the others are what FP32 rounds to)");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_dequantize

const Command dequantize_command{
    "dequantize", "a quantised model as plain numbers", "narrow dequantize model-nvfp4 model-fp32",
    of_dequantize::declare,
    "Reads DeepSeek's FP8, compressed-tensors, ModelOpt, gpt-oss, bitsandbytes and GGUF, whose values are the "
    "exact product of code, scale and factor, rounded once to FP32; and what narrow cast wrote, code * (scale "
    "* factor). --to bf16 or fp16 rounds that once more."};

}  // namespace app
