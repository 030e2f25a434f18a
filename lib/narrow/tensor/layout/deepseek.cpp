// FP8 in blocks, as DeepSeek-V3 has it and transformers' fine-grained FP8: m.weight F8_E4M3 [N, K] and
// m.weight_scale_inv with a scale for each 128 x 128, the last ones smaller. "inv" is the inverse of what was
// multiplied by: w * s is the value.
#include "narrow/base/error.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/layout/rows.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace of_deepseek {

// From the configuration, never from the shapes: 200 rows with 2 scales are not blocks of 100.
MatrixSize block_of(const nlohmann::json& config, const Tensor& scales) {
  const auto found = config.find("weight_block_size");
  if (found != config.end() && found->is_array() && found->size() == 2 && (*found)[0].is_number_unsigned() &&
      (*found)[1].is_number_unsigned() && (*found)[0] != 0 && (*found)[1] != 0)
    return {(*found)[0].get<std::size_t>(), (*found)[1].get<std::size_t>()};
  if (scales.elements() == 1) return {};
  return {128, 128};
}

std::optional<BlockParts> parts_of(const CheckpointParts& all, const Tensor& codes) {
  const std::optional<std::string> module = before_ending(codes.name, "weight");
  if (!module) return {};
  const Tensor* scales = all.find(*module + "weight_scale_inv");
  if (scales == nullptr && (codes.type.bits == 8)) scales = all.find(*module + "scale");  // as DeepSeek-V4 names it
  if (scales == nullptr) return {};
  const Tensor factors = as_e8m0(*scales);
  BlockParts parts;
  if (codes.type.name == "I8" && factors.type.name == "F8_E8M0" && !codes.shape.empty()) {  // experts in FP4
    std::vector<std::uint64_t> shape = codes.shape;
    shape.back() *= 2;
    parts = fp4_blocks("deepseek", codes, std::move(shape), factors, 32);
    parts.name = codes.name;
  } else if (codes.type.name == "F8_E4M3" || codes.type.name == "F8_E5M2") {
    const MatrixSize block =
        scales->elements() == 1 && matrix_of(codes).rows > 0 && !all.config().contains("weight_block_size")
            ? MatrixSize{}
            : block_of(all.config(), *scales);
    parts = scaled_matrix("deepseek", codes, factors, codes.type.format, block);
  } else {
    return {};  // a scale beside a tensor that is no FP8: lint says so
  }
  add_beside(parts, all, {*module + "activation_scale", *module + "input_scale"});
  return parts;
}

constexpr std::string_view formats[] = {"fp8_128x128:te_block_fp32"};

std::vector<TensorHeader> headers(const TensorHeader& header, const BlockFormat& f) {
  if (header.shape.size() != 2) throw Error("blocks are of matrices, it has shape of another rank");
  const MatrixSize m = matrix_of(header);
  TensorHeader codes = header;
  codes.type = *find_element_type("F8_E4M3");
  return {codes, {header.name + "_scale_inv", *find_element_type("F32"), {grid_rows(f, m.rows), grid_cols(f, m.cols)}}};
}

nlohmann::ordered_json config(const BlockFormat& f, const std::vector<std::string>& kept) {
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", {f.block_rows, f.block_cols}},
          {"modules_to_not_convert", kept}};
}

}  // namespace of_deepseek

const Layout deepseek_layout{"deepseek",
                             "DeepSeek-V3, transformers' fine-grained FP8",
                             of_deepseek::parts_of,
                             of_deepseek::formats,
                             of_deepseek::headers,
                             of_deepseek::config};

}  // namespace narrow
