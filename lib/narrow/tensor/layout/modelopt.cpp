// NVIDIA ModelOpt: FP8 (m.weight, m.weight_scale), NVFP4 (m.weight U8 [N, K/2], m.weight_scale E4M3 [N, K/16],
// m.weight_scale_2 F32: w * s * s2) and MXFP8. Its FP8 has the names of compressed-tensors: the configuration tells
// them apart.
#include <array>

#include "narrow/base/error.hpp"
#include "narrow/tensor/layout/rows.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace of_modelopt {

std::optional<BlockParts> parts_of(const CheckpointParts& all, const Tensor& codes) {
  const std::optional<std::string> module = before_ending(codes.name, "weight");
  if (!module || codes.shape.empty()) return {};
  const Tensor* scales = all.find(*module + "weight_scale");
  if (scales == nullptr) return {};
  BlockParts parts;
  if (const Tensor* second = all.find(*module + "weight_scale_2"); second != nullptr && codes.type.name == "U8") {
    std::vector<std::uint64_t> shape = codes.shape;
    shape.back() *= 2;
    if (scales->type.has_format() && scales->type.bits >= 16) return {};  // W4A8_AWQ, which is not read
    if (scales->type.name != "F8_E4M3")
      throw Error(quote(scales->name) + " is " + describe(*scales) + "; scales of NVFP4 are F8_E4M3");
    parts = fp4_blocks("modelopt", codes, std::move(shape), *scales, 16);
    parts.name = codes.name;
    parts.scale2 = require_one(*second);
  } else if (codes.type.name == "F8_E4M3" && text_at(all.config(), "quant_method") == "modelopt") {
    if (scales->type.name == "U8") {
      parts = scaled_matrix("modelopt", codes, as_e8m0(*scales), codes.type.format, {1, 32});
      parts.format_name = "mxfp8_e4m3";
    } else {  // [N/128, 1, K/128, 1]
      parts = scaled_matrix("modelopt", codes, *scales, codes.type.format,
                            scales->shape.size() == 4 ? MatrixSize{128, 128} : MatrixSize{});
    }
  } else {
    return {};
  }
  add_beside(parts, all, {*module + "input_scale"});
  return parts;
}

constexpr std::string_view formats[] = {"fp8_tensor_e4m3:ct_fp8", "fp8_row_e4m3:ct_fp8", "fp8_128x128:ct_fp8",
                                        "nvfp4:modelopt_nvfp4", "mxfp8_e4m3:torchao_rceil"};

std::string_view algorithm(const BlockFormat& f) {
  if (f.has_tensor_scale()) return "W4A16_NVFP4";  // of the weights alone: scales of activations come from data
  if (f.scale == "e8m0"_fmt) return "MXFP8";
  return f.block_rows == 0 ? "FP8" : f.block_cols == 0 ? "FP8_PER_CHANNEL_PER_TOKEN" : "FP8_PB_WO";
}

std::vector<TensorHeader> headers(const TensorHeader& header, const BlockFormat& f) {
  if (header.shape.size() != 2) throw Error("it is no matrix");
  const std::uint64_t rows = header.shape[0], cols = header.shape[1];
  const std::string scale = header.name + "_scale";
  const ElementType u8 = *find_element_type("U8"), fp8 = *find_element_type("F8_E4M3"),
                    fp32 = *find_element_type("F32");
  if (f.block_cols != 0 && cols % f.block_cols != 0)
    throw Error("its rows are no multiple of " + std::to_string(f.block_cols));
  if (f.has_tensor_scale())
    return {{header.name, u8, {rows, cols / 2}}, {scale, fp8, {rows, cols / 16}}, {header.name + "_scale_2", fp32, {}}};
  if (f.scale == "e8m0"_fmt) return {{header.name, fp8, {rows, cols}}, {scale, u8, {rows, cols / 32}}};
  if (f.block_rows > 1 && rows % f.block_rows != 0)
    throw Error("its columns are no multiple of " + std::to_string(f.block_rows));
  std::vector<std::uint64_t> shape;
  if (f.block_rows == 1) shape = {rows};
  if (f.block_rows > 1) shape = {rows / f.block_rows, 1, cols / f.block_cols, 1};
  return {{header.name, fp8, {rows, cols}}, {scale, fp32, shape}};
}

nlohmann::ordered_json config(const BlockFormat& f, const std::vector<std::string>& kept) {
  const bool fp4 = f.has_tensor_scale();
  nlohmann::ordered_json weights = {{"dynamic", false}, {"num_bits", fp4 ? 4 : 8}, {"type", "float"}};
  if (fp4) weights["group_size"] = 16;
  nlohmann::ordered_json config;
  nlohmann::ordered_json group;
  if (!fp4) group["input_activations"] = weights;
  group["weights"] = weights;
  group["targets"] = {"Linear"};
  if (fp4 || f.block_rows == 0) config["config_groups"] = {{"group_0", group}};
  config["ignore"] = kept;
  config["quant_algo"] = algorithm(f);
  config["producer"] = {{"name", "narrow"}, {"version", "1"}};
  config["quant_method"] = "modelopt";
  return config;
}

}  // namespace of_modelopt

const Layout modelopt_layout{"modelopt",
                             "NVIDIA ModelOpt, TensorRT-LLM, vLLM",
                             of_modelopt::parts_of,
                             of_modelopt::formats,
                             of_modelopt::headers,
                             of_modelopt::config};

}  // namespace narrow
