// MXFP4 as gpt-oss has it: m_blocks U8 [.., N, K/32, 16] and m_scales U8 [.., N, K/32], E8M0 codes. The tensor is m
// [.., N, K].
#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/tensor/layout/rows.hpp"

namespace narrow {

namespace of_mxfp4 {

std::optional<BlockParts> parts_of(const CheckpointParts& all, const Tensor& codes) {
  if (codes.type.name != "U8" || codes.shape.size() < 2 || codes.shape.back() != 16) return {};
  std::optional<std::string> name = before_ending(codes.name, "_blocks");
  std::string scales = "_scales";
  if (!name) name = before_ending(codes.name, ".blocks"), scales = ".scales";
  if (!name) return {};
  const Tensor& factors = all.require(*name + scales, "its scales");
  std::vector<std::uint64_t> shape(codes.shape.begin(), codes.shape.end() - 1);
  shape.back() *= 32;
  BlockParts parts = fp4_blocks("mxfp4", codes, std::move(shape), as_e8m0(factors), 32);
  parts.name = *name;
  return parts;
}

constexpr std::string_view formats[] = {"mxfp4:ocp_floor"};

std::vector<TensorHeader> headers(const TensorHeader& header, const BlockFormat&) {
  if (header.shape.size() < 2) throw Error("it is no matrix");
  if (header.shape.back() % 32 != 0) throw Error("its rows are no multiple of 32");
  const ElementType u8 = *find_element_type("U8");
  std::vector<std::uint64_t> scales = header.shape;
  scales.back() /= 32;
  std::vector<std::uint64_t> blocks = scales;
  blocks.push_back(16);
  return {{header.name + "_blocks", u8, blocks}, {header.name + "_scales", u8, scales}};
}

nlohmann::ordered_json config(const BlockFormat&, const std::vector<std::string>& kept) {
  return {{"quant_method", "mxfp4"}, {"modules_to_not_convert", kept}};
}

}  // namespace of_mxfp4

const Layout mxfp4_layout{"mxfp4",           "gpt-oss",         of_mxfp4::parts_of,
                          of_mxfp4::formats, of_mxfp4::headers, of_mxfp4::config};

}  // namespace narrow
