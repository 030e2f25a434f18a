// compressed-tensors (llm-compressor, vLLM): FP8 and INT8 as m.weight with m.weight_scale, packed codes as
// m.weight_packed. The factor of NVFP4 is a divisor: w * s / G.
#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/layout/rows.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace of_compressed_tensors {

std::uint64_t number_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

// What the configuration says of weights like these: the first group of that type that fits.
nlohmann::json weights_of(const nlohmann::json& config, std::string_view type, const auto& fits) {
  const auto groups = config.find("config_groups");
  if (groups == config.end() || !groups->is_object()) return nlohmann::json::object();
  for (const auto& [name, group] : groups->items())
    if (group.is_object() && group.contains("weights") && group["weights"].is_object()) {
      const nlohmann::json& weights = group["weights"];
      if ((!weights.contains("type") || text_at(weights, "type") == type) && fits(weights)) return weights;
    }
  return nlohmann::json::object();
}

MatrixSize block_of(const nlohmann::json& weights, const Tensor& scales) {
  const auto found = weights.find("block_structure");
  if (text_at(weights, "strategy") == "block" && found != weights.end() && found->is_array() && found->size() == 2 &&
      (*found)[0].is_number_unsigned() && (*found)[1].is_number_unsigned())
    return {(*found)[0].get<std::size_t>(), (*found)[1].get<std::size_t>()};
  if (text_at(weights, "strategy") == "group" && number_at(weights, "group_size") != 0)
    return {1, static_cast<std::size_t>(number_at(weights, "group_size"))};
  return scales.shape.size() == 2 && scales.shape[0] != 1 && scales.shape[1] != 1 ? MatrixSize{128, 128} : MatrixSize{};
}

// As many zero points as scales: plain, or packed along the rows, 2^(b-1) above.
Tensor zero_points(const Tensor& zeros, const Tensor& scales, int bits) {
  const std::uint64_t count = scales.elements();
  if (zeros.type.name == "I8") {
    if (zeros.elements() != count) throw Error(quote(zeros.name) + " is " + describe(zeros) + ", not like the scales");
    return zeros;
  }
  const std::uint64_t rows = scales.shape.empty() ? 1 : scales.shape[0], cols = rows == 0 ? 0 : count / rows;
  const std::uint64_t words = (rows * static_cast<unsigned>(bits) + 31) / 32;
  if (zeros.type.name != "I32" || zeros.elements() != words * cols)
    throw Error(quote(zeros.name) + " is " + describe(zeros) + "; packed zero points of " + describe(scales) + " are " +
                std::to_string(words) + " x " + std::to_string(cols) + " words");
  return computed({zeros.name, *find_element_type("I8"), scales.shape},
                  [=](std::uint64_t first, std::span<std::byte> out) {
                    for (std::size_t i = 0; i < out.size(); ++i) {
                      const std::uint64_t row = (first + i) / cols, bit = row * static_cast<unsigned>(bits);
                      const auto word = [&](std::uint64_t row_of_words) {
                        std::uint32_t x = 0;
                        read_codes(zeros, row_of_words * cols + (first + i) % cols, std::span(&x, 1));
                        return std::uint64_t{x};
                      };
                      std::uint64_t both = word(bit / 32);
                      if (bit % 32 + static_cast<unsigned>(bits) > 32) both |= word(bit / 32 + 1) << 32;
                      const int u = static_cast<int>(both >> (bit % 32) & ((1u << bits) - 1));
                      out[i] = static_cast<std::byte>(u - (1 << (bits - 1)));
                    }
                  });
}

bool packs_densely(const std::string& version) {
  int major = 0, minor = 0;
  return std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2 && (major > 0 || minor >= 17);
}

// Integers of a few bits in words of 32, the first in the lowest bits, each row from a word of its own; 2^(b-1) is
// added.
BlockParts packed_integers(const CheckpointParts& all, const std::string& module, const Tensor& codes) {
  const Tensor& scales = all.require(module + "weight_scale", "the scales of packed integers");
  const Tensor& about = all.require(module + "weight_shape", "the numbers of rows and columns");
  if (about.elements() != 2 || codes.shape.size() != 2) throw Error("packed integers are of matrices");
  std::uint64_t shape[2];
  read_codes(about, 0, std::span<std::uint64_t>(shape));
  // Of several groups the one whose bits fill these words, in runs as long as these scales have.
  const auto fills = [&](const nlohmann::json& w) {
    const std::uint64_t group = number_at(w, "group_size"), held = scales.shape.empty() ? 0 : scales.shape.back();
    return shape[1] < (std::uint64_t{1} << 40) && number_at(w, "num_bits") <= 8 &&
           (shape[1] * number_at(w, "num_bits") + 31) / 32 == codes.shape[1] &&
           held == (group == 0 ? 1 : shape[1] / group + (shape[1] % group != 0 ? 1 : 0));
  };
  nlohmann::json weights = weights_of(all.config(), "int", fills);
  if (weights.empty()) weights = weights_of(all.config(), "int", [](const nlohmann::json&) { return true; });
  std::uint64_t bits = number_at(weights, "num_bits");
  if (bits == 0) bits = shape[1] <= 4 * codes.shape[1] ? 8 : 4;
  if (bits < 1 || bits > 8) throw Error("packed integers of " + std::to_string(bits) + " bits; 1 to 8 are read");
  if (32 % bits != 0 && !packs_densely(text_at(all.config(), "version")))
    throw Error(
        "packed integers of " + std::to_string(bits) +
        " bits, which compressed-tensors packs without gaps from 0.17 on; the configuration names no such version");
  if (all.find(module + "weight_g_idx") != nullptr)
    throw Error("groups in the order of activations (weight_g_idx) are not read");
  if (shape[0] != codes.shape[0] || shape[1] > (std::uint64_t{1} << 40) ||
      codes.shape[1] != (shape[1] * bits + 31) / 32)
    throw Error(quote(codes.name) + " is " + describe(codes) + "; " + std::to_string(shape[0]) + " x " +
                std::to_string(shape[1]) + " integers of " + std::to_string(bits) + " bits need other words");
  BlockParts parts{.layout = "compressed-tensors", .format_name = {}, .format = {}, .codes = codes, .scales = scales};
  parts.shape = {shape[0], shape[1]};
  const std::uint64_t across = shape[0] == 0 ? 0 : scales.elements() / shape[0];
  std::uint64_t group = number_at(weights, "group_size");
  if (text_at(weights, "strategy") == "channel" || across == 1) group = 0;
  else if (group == 0 && across != 0) group = shape[1] / across;
  if (scales.shape.size() != 2 || scales.shape[0] != shape[0] || scales.type.kind != ElementKind::floating ||
      scales.shape[1] != (group == 0 ? 1 : shape[1] / group + (shape[1] % group != 0 ? 1 : 0)))
    throw Error(quote(scales.name) + " is " + describe(scales) + ", which fits no groups of " + std::to_string(group) +
                " in rows of " + std::to_string(shape[1]));
  const Format element{0, static_cast<int>(bits) - 1, 2 - static_cast<int>(bits), Specials::none, true, true, true};
  parts.format = {element, scales.type.format, 1, static_cast<std::size_t>(group), ScaleRule::te_current};
  parts.format_name = "int" + std::to_string(bits) + (group == 0 ? "_row" : "_1x" + std::to_string(group));
  for (int u = 0; u < 1 << bits; ++u) parts.values.push_back(static_cast<float>(u - (1 << (bits - 1))));
  parts.packing = {static_cast<int>(bits), false, codes.shape[1] * 32};
  if (const Tensor* zeros = all.find(module + "weight_zero_point")) {
    parts.zeros = zero_points(*zeros, scales, static_cast<int>(bits));
    parts.beside.push_back(*zeros);
  }
  return parts;
}

BlockParts packed_fp4(const CheckpointParts& all, const std::string& module, const Tensor& codes) {
  const Tensor& scales = all.require(module + "weight_scale", "the scales of packed FP4");
  std::vector<std::uint64_t> shape = codes.shape;
  if (shape.empty()) throw Error("packed FP4 without a shape");
  shape.back() *= 2;
  if (scales.type.name == "U8" || scales.type.name == "F8_E8M0")
    return fp4_blocks("compressed-tensors", codes, std::move(shape), as_e8m0(scales), 32);
  if (scales.type.name != "F8_E4M3")
    throw Error(quote(scales.name) + " is " + describe(scales) + "; scales of FP4 are F8_E4M3 or U8");
  BlockParts parts = fp4_blocks("compressed-tensors", codes, std::move(shape), scales, 16);
  parts.scale2 = require_one(all.require(module + "weight_global_scale", "the factor of NVFP4"));
  parts.second = BlockParts::Second::divisor;
  return parts;
}

std::optional<BlockParts> parts_of(const CheckpointParts& all, const Tensor& codes) {
  std::optional<std::string> module = before_ending(codes.name, "weight_packed");
  BlockParts parts;
  if (module && (codes.type.name == "I32" || codes.type.name == "U8")) {
    parts = codes.type.name == "I32" ? packed_integers(all, *module, codes) : packed_fp4(all, *module, codes);
    parts.name = *module + "weight";
  } else {
    module = before_ending(codes.name, "weight");
    const Tensor* scales = module ? all.find(*module + "weight_scale") : nullptr;
    if (scales == nullptr) return {};
    if (codes.type.name == "F8_E4M3" && (scales->type.name == "U8" || scales->type.name == "F8_E8M0")) {
      parts = scaled_matrix("compressed-tensors", codes, as_e8m0(*scales), codes.type.format, {1, 32});
      parts.format_name = "mxfp8_e4m3";
    } else if (codes.type.name == "F8_E4M3" || codes.type.name == "F8_E5M2" || codes.type.name == "I8") {
      const Format element = codes.type.name == "I8" ? "int8"_fmt : codes.type.format;
      const char* type = element.is_integer() ? "int" : "float";
      const auto fits = [&](const nlohmann::json& w) {
        const MatrixSize block = block_of(w, *scales), m = matrix_of(codes);
        if (w.contains("num_bits") && number_at(w, "num_bits") != 8) return false;
        if (block.rows == 0 || block.cols == 0) return true;
        const BlockFormat f{element, scales->type.format, block.rows, block.cols, ScaleRule::te_current};
        const std::uint64_t down = grid_rows(f, m.rows), across = grid_cols(f, m.cols);
        return scales->elements() == down * across && !scales->shape.empty() && scales->shape.back() == across;
      };
      const auto any = [](const nlohmann::json&) { return true; };  // which scaled_matrix refuses with a reason
      nlohmann::json weights = weights_of(all.config(), type, fits);
      if (weights.empty()) weights = weights_of(all.config(), type, any);
      parts = scaled_matrix("compressed-tensors", codes, *scales, element, block_of(weights, *scales));
    } else {
      return {};
    }
    if (const Tensor* zeros = all.find(*module + "weight_zero_point")) {
      parts.zeros = zero_points(*zeros, *scales, 8);
      parts.beside.push_back(*zeros);
    }
  }
  add_beside(parts, all, {*module + "weight_shape", *module + "input_scale", *module + "input_global_scale"});
  return parts;
}

constexpr std::string_view formats[] = {"fp8_tensor_e4m3:ct_fp8", "fp8_row_e4m3:ct_fp8", "fp8_128x128:ct_fp8",
                                        "nvfp4:ct_nvfp4",         "mxfp4:ct_mx",         "mxfp8_e4m3:ct_mx",
                                        "int8_row:ct_int",        "int4_1x128:ct_int",   "int4_1x32:ct_int"};

std::vector<TensorHeader> headers(const TensorHeader& header, const BlockFormat& f) {
  if (header.shape.size() != 2) throw Error("it is no matrix");
  const std::uint64_t rows = header.shape[0], cols = header.shape[1];
  const auto type = [](const char* name) { return *find_element_type(name); };
  const std::string scale = header.name + "_scale", packed = header.name + "_packed";
  const int bits = f.element.width();
  if (f.block_rows == 1 && f.block_cols != 0 && cols % f.block_cols != 0)
    throw Error("its rows are no multiple of " + std::to_string(f.block_cols));
  if (f.has_tensor_scale())
    return {{packed, type("U8"), {rows, cols / 2}},
            {scale, type("F8_E4M3"), {rows, cols / 16}},
            {header.name + "_global_scale", type("F32"), {1}}};
  const std::uint64_t across = f.block_cols == 0 ? 1 : (cols + f.block_cols - 1) / f.block_cols;
  const std::uint64_t down = f.block_rows == 0 ? 1 : (rows + f.block_rows - 1) / f.block_rows;
  const std::vector<std::uint64_t> grid = f.block_rows == 0 ? std::vector<std::uint64_t>{1} : std::vector{down, across};
  if (f.scale == "e8m0"_fmt)
    return {bits == 4 ? TensorHeader{packed, type("U8"), {rows, cols / 2}}
                      : TensorHeader{header.name, type("F8_E4M3"), {rows, cols}},
            {scale, type("U8"), grid}};
  if (f.element.is_integer() && bits == 4) return {{packed, type("I32"), {rows, cols / 8}}, {scale, type("F32"), grid}};
  return {{header.name, type(f.element.is_integer() ? "I8" : "F8_E4M3"), {rows, cols}}, {scale, type("F32"), grid}};
}

// Activations are scaled as they come, a token at a time; packed integers and NVFP4 leave them as they are.
nlohmann::ordered_json config(const BlockFormat& f, const std::vector<std::string>& kept) {
  using Json = nlohmann::ordered_json;
  const bool integer = f.element.is_integer(), fp4 = f.element.width() == 4 && !integer, mx = f.scale == "e8m0"_fmt;
  const int bits = f.element.width();
  const char* strategy = f.has_tensor_scale() ? "tensor_group"
                         : f.block_rows == 0  ? "tensor"
                         : f.block_cols == 0  ? "channel"
                         : f.block_rows == 1  ? "group"
                                              : "block";
  Json weights = {{"num_bits", bits},
                  {"type", integer ? "int" : "float"},
                  {"symmetric", true},
                  {"strategy", strategy},
                  {"dynamic", false}};
  if (f.block_rows == 1 && f.block_cols != 0) weights["group_size"] = f.block_cols;
  if (f.block_rows > 1) weights["block_structure"] = {f.block_rows, f.block_cols};
  if (mx) weights["scale_dtype"] = "torch.uint8";
  if (f.has_tensor_scale()) weights["scale_dtype"] = "torch.float8_e4m3fn";
  Json activations = nullptr;
  if (bits == 8) {
    activations = {{"num_bits", 8},
                   {"type", integer ? "int" : "float"},
                   {"symmetric", true},
                   {"strategy", "token"},
                   {"dynamic", true}};
    if (mx)
      activations["strategy"] = "group", activations["group_size"] = 32, activations["scale_dtype"] = "torch.uint8";
    if (f.block_rows > 1) activations["strategy"] = "group", activations["group_size"] = f.block_cols;
  }
  const char* format = f.has_tensor_scale() ? "nvfp4-pack-quantized"
                       : mx && fp4          ? "mxfp4-pack-quantized"
                       : mx                 ? "mxfp8-quantized"
                       : integer            ? (bits == 4 ? "pack-quantized" : "int-quantized")
                                            : "float-quantized";
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", weights},
              {"input_activations", activations},
              {"output_activations", nullptr},
              {"format", format}}}}},
          {"ignore", kept},
          {"kv_cache_scheme", nullptr},
          {"version", "0.18.0"}};
}

}  // namespace of_compressed_tensors

const Layout compressed_tensors_layout{"compressed-tensors",
                                       "llm-compressor, vLLM",
                                       of_compressed_tensors::parts_of,
                                       of_compressed_tensors::formats,
                                       of_compressed_tensors::headers,
                                       of_compressed_tensors::config,
                                       true};

}  // namespace narrow
