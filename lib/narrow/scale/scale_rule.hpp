// The names of the rules by which blocks get their scales, each with the system that uses it.
//
//   static_assert(row_of(ScaleRule::ocp_floor).scale == ScaleKind::e8m0);
#pragma once

#include <cstdint>
#include <string_view>

namespace narrow {

// How the scale of a block follows from its largest magnitude.
enum class ScaleRule : std::uint8_t {
  // E8M0 scales
  ocp_floor,
  cuda_round_up,
  torchao_ceil,
  torchao_even,
  torchao_rceil,
  deepgemm,
  ct_mx,
  // E4M3 scales below an FP32 scale of the tensor
  te_nvfp4,
  te_nvfp4_row,
  te_4over6,
  te_4over6_mse,
  torchao_nvfp4,
  nvfp4_single,
  ct_nvfp4,
  modelopt_nvfp4,
  // FP32 scales
  te_current,
  te_current_pow2,
  te_block,
  te_block_fp32,
  torchao_fp8,
  torchao_fp8_pow2,
  deepgemm_fp32,
  deepgemm_ue8m0,
  ct_fp8,
  ct_int
};

// The format of the scales that a rule chooses.
enum class ScaleKind : std::uint8_t { e8m0, e4m3, fp32 };

// A rule by name.
struct ScaleRuleRow {
  ScaleRule rule;
  std::string_view name;
  std::string_view aliases;  // separated by spaces
  ScaleKind scale;
  std::string_view what;
  std::string_view source;
};

// All rules, in the order of the enumerators.
inline constexpr ScaleRuleRow scale_rule_table[] = {
    {ScaleRule::ocp_floor, "ocp_floor", "floor torchao_floor", ScaleKind::e8m0, "2^(floor(log2 amax) - emax)",
     "OCP MX 1.0 section 6.3; torchao FLOOR"},
    {ScaleRule::cuda_round_up, "cuda_round_up", "te_round_up", ScaleKind::e8m0,
     "amax * (1 / max) rounded up; NaN not counted; Inf gives 2^127",
     "cvt.rp.satfinite.ue8m0x2; TransformerEngine MXFP8"},
    {ScaleRule::torchao_ceil, "torchao_ceil", "ceil", ScaleKind::e8m0, "2^(ceil(log2 amax) - emax)",
     "torchao mx_formats CEIL"},
    {ScaleRule::torchao_even, "torchao_even", "even", ScaleKind::e8m0,
     "floor of amax after half a last place of the element was added", "torchao mx_formats EVEN"},
    {ScaleRule::torchao_rceil, "torchao_rceil", "rceil", ScaleKind::e8m0, "as cuda_round_up; Inf and NaN give NaN",
     "torchao mx_formats RCEIL"},
    {ScaleRule::deepgemm, "deepgemm", "", ScaleKind::e8m0,
     "max(amax, 1e-4) / max rounded up, codes 1 to 254; E2M1: ties to zero, no -0, NaN is 0",
     "DeepGEMM deep_gemm/utils/math.py (54e2261)"},
    {ScaleRule::ct_mx, "ct_mx", "compressed-tensors", ScaleKind::e8m0,
     "2^(floor(log2 amax) - emax), twice that from amax = 1.75 * 2^n on (E2M3: 1.9375 * 2^n)",
     "compressed-tensors quantization/utils/mxfp_utils.py"},
    {ScaleRule::te_nvfp4, "te_nvfp4", "te", ScaleKind::e4m3, "E4M3(amax * (S / 6)), S = 2688 / amax of the tensor",
     "TransformerEngine common/cast/nvfp4/core_nvfp4.cuh"},
    {ScaleRule::te_nvfp4_row, "te_nvfp4_row", "row_scaled", ScaleKind::e4m3,
     "as te_nvfp4, every row by an amax of its own", "TransformerEngine, row-scaled NVFP4 (#2931)"},
    {ScaleRule::te_4over6, "te_4over6", "4over6", ScaleKind::e4m3,
     "E4M3(amax / 6 * S) or E4M3(1.5 * that), S = 1536 / amax of the tensor: the smaller sum of |errors|",
     "TransformerEngine common/cast/nvfp4/quantize_4over6_nvfp4.cuh"},
    {ScaleRule::te_4over6_mse, "te_4over6_mse", "", ScaleKind::e4m3, "the same by the smaller sum of squared errors",
     "the same, nvfp4_4over6_err_mode MSE"},
    {ScaleRule::torchao_nvfp4, "torchao_nvfp4", "torchao", ScaleKind::e4m3,
     "E4M3(clamp(amax / 6 / T, 2^-6, 448)), T = amax of the tensor / 2688", "torchao mx_formats/nvfp4_tensor.py"},
    {ScaleRule::nvfp4_single, "nvfp4_single", "single", ScaleKind::e4m3,
     "E4M3(clamp(amax / 6, 2^-6, 448)), no factor of the tensor",
     "torchao mx_formats/nvfp4_tensor.py, per_tensor_scale None"},
    {ScaleRule::ct_nvfp4, "ct_nvfp4", "compressed-tensors", ScaleKind::e4m3,
     "E4M3(G * (amax / 6)), 0 is 1/8, G = 2688 / amax of the tensor; elements x / (scale / G)",
     "compressed-tensors quantization/utils/helpers.py"},
    {ScaleRule::modelopt_nvfp4, "modelopt_nvfp4", "modelopt", ScaleKind::e4m3,
     "E4M3(clamp(amax / (6 * T), 2^-9, 448)), amax 0 gives 1, T = amax of the tensor / 2688; elements x / (scale * T)",
     "NVIDIA ModelOpt quantization/qtensor/nvfp4_tensor.py"},
    {ScaleRule::te_current, "te_current", "", ScaleKind::fp32, "max / amax; 1 for amax 0, Inf, NaN",
     "TransformerEngine common/recipe/recipe_common.cuh"},
    {ScaleRule::te_current_pow2, "te_current_pow2", "", ScaleKind::fp32, "the same, rounded down to a power of two",
     "TransformerEngine common/recipe/recipe_common.cuh"},
    {ScaleRule::te_block, "te_block", "", ScaleKind::fp32, "as te_current_pow2",
     "TransformerEngine Float8BlockScaling"},
    {ScaleRule::te_block_fp32, "te_block_fp32", "", ScaleKind::fp32, "as te_current",
     "TransformerEngine, NVTE_FP8_BLOCK_SCALING_FP32_SCALES=1"},
    {ScaleRule::torchao_fp8, "torchao_fp8", "torchao", ScaleKind::fp32, "max / max(amax, 1e-12), divided in FP64",
     "torchao float8/float8_utils.py"},
    {ScaleRule::torchao_fp8_pow2, "torchao_fp8_pow2", "", ScaleKind::fp32,
     "the same, 2^floor(log2), log2 rounded to FP32", "torchao float8/float8_utils.py (0.19)"},
    {ScaleRule::deepgemm_fp32, "deepgemm_fp32", "deepgemm", ScaleKind::fp32, "decode scale max(amax, 1e-4) / max",
     "DeepGEMM deep_gemm/utils/math.py"},
    {ScaleRule::deepgemm_ue8m0, "deepgemm_ue8m0", "", ScaleKind::fp32, "the same, rounded up to a power of two",
     "DeepGEMM deep_gemm/utils/math.py"},
    {ScaleRule::ct_fp8, "ct_fp8", "compressed-tensors", ScaleKind::fp32,
     "decode scale amax / max, 2^-23 for 0; elements x / scale", "compressed-tensors quantization/utils/helpers.py"},
    {ScaleRule::ct_int, "ct_int", "compressed-tensors", ScaleKind::fp32,
     "decode scale amax / 127.5 (int4: 7.5), 2^-23 for 0; elements x / scale, -128 (-8) among them",
     "compressed-tensors quantization/utils/helpers.py"},
};

// The row of a rule.
constexpr const ScaleRuleRow& row_of(ScaleRule rule) noexcept { return scale_rule_table[static_cast<int>(rule)]; }

// Whether a NaN in a block makes the block's amax NaN. CUDA's fmaxf drops it, torch.amax lets it through.
constexpr bool takes_nan(ScaleRule rule) noexcept {
  switch (rule) {
    case ScaleRule::cuda_round_up:
    case ScaleRule::te_nvfp4:
    case ScaleRule::te_nvfp4_row:
    case ScaleRule::te_4over6:
    case ScaleRule::te_4over6_mse:
    case ScaleRule::te_current:
    case ScaleRule::te_current_pow2:
    case ScaleRule::te_block:
    case ScaleRule::te_block_fp32: return false;
    default: return true;
  }
}

// Whether elements are divided by the decode scale, not multiplied by its inverse, and -0 becomes 0 on the way:
// compressed-tensors adds a zero point of 0, ModelOpt takes the sign from x < 0.
constexpr bool divides(ScaleRule rule) noexcept {
  switch (rule) {
    case ScaleRule::ct_mx:
    case ScaleRule::ct_nvfp4:
    case ScaleRule::modelopt_nvfp4:
    case ScaleRule::ct_fp8:
    case ScaleRule::ct_int: return true;
    default: return false;
  }
}

// Whether the largest element of a block becomes 4 or 6, whichever errs less over the block ("four over six").
constexpr bool tries_two_scales(ScaleRule rule) noexcept {
  return rule == ScaleRule::te_4over6 || rule == ScaleRule::te_4over6_mse;
}
// Whether the amax of the tensor (or of a row) itself is kept beside the blocks, and not a factor.
constexpr bool keeps_amax(ScaleRule rule) noexcept {
  return rule == ScaleRule::te_nvfp4 || rule == ScaleRule::te_nvfp4_row || tries_two_scales(rule);
}

}  // namespace narrow
