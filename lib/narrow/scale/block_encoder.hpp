// The inner work of the array functions: the largest magnitude of a piece, and pieces of scaled floats through the cast
// kernels. What it computes is defined by block_scale.hpp.
#pragma once

#include <algorithm>
#include <array>

#include "narrow/array/kernels.hpp"
#include "narrow/scale/block_scale.hpp"

namespace narrow::detail {

inline std::size_t divide_up(std::size_t a, std::size_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// A grid of blocks over a matrix, with 0 resolved to the whole.
struct Grid {
  std::size_t rows, cols, block_rows, block_cols, across, down;

  Grid(const BlockFormat& f, std::size_t r, std::size_t c)
      : rows(r),
        cols(c),
        block_rows(f.block_rows == 0 ? std::max<std::size_t>(r, 1) : f.block_rows),
        block_cols(f.block_cols == 0 ? std::max<std::size_t>(c, 1) : f.block_cols),
        across(divide_up(c, block_cols)),
        down(divide_up(r, block_rows)) {}
  std::size_t blocks() const { return across * down; }
  std::size_t top(std::size_t b) const { return b / across * block_rows; }
  std::size_t left(std::size_t b) const { return b % across * block_cols; }
  std::size_t height(std::size_t b) const { return std::min(block_rows, rows - top(b)); }
  std::size_t width(std::size_t b) const { return std::min(block_cols, cols - left(b)); }
};

inline constexpr std::uint32_t inf_word = 0x7F800000;

// Scaled values wait here for the cast kernel: within the first cache, a multiple of every common block.
inline constexpr std::size_t encoder_buffer = 4096;
using EncoderBuffer = std::array<float, encoder_buffer>;

// As block_amax_of, for blocks side by side; at most as many as fill the buffer.
inline void amaxes_of(const float* x, std::size_t blocks, std::size_t size, ScaleRule rule, float* amaxes) noexcept {
  std::uint32_t tops[encoder_buffer];
  const ArrayKernels& kernels = array_kernels();
  if (size == 32) kernels.top_words32(x, blocks, tops);
  else if (size == 16) kernels.top_words16(x, blocks, tops);
  else kernels.top_words(x, blocks, size, tops);
  for (std::size_t b = 0; b < blocks; ++b)
    amaxes[b] = tops[b] <= inf_word ? std::bit_cast<float>(tops[b]) : block_amax_of({x + b * size, size}, rule);
}
inline float amax_of(const float* x, std::size_t n, ScaleRule rule) {
  std::uint32_t top = 0;
  array_kernels().top_words(x, 1, n, &top);
  return top <= inf_word ? std::bit_cast<float>(top) : block_amax_of({x, n}, rule);
}

// What each code of the element format is worth.
inline std::array<float, 256> element_values(const Format& element) {
  std::array<float, 256> values{};
  for (std::size_t c = 0; c < values.size(); ++c)
    values[c] = static_cast<float>(decode(c & element.code_mask(), element));
  return values;
}

// What one call needs besides the data.
class BlockEncoder {
 public:
  // amax: of the whole tensor, where the format needs it.
  BlockEncoder(const BlockFormat& f, float amax)
      : scaling_(f, tensor_scale(amax, f)),
        whole_(f.block_rows == 0 ? scaling_(amax) : BlockScale{}),
        job_{f.element, element_cast(f), 0, code_plan(f.element, element_cast(f)), 0},
        kernel_(array_kernels().cast_codes8(job_)),
        scale_job_{f.scale, saturating, 0, value_plan(f.scale, saturating), 0},
        scale_kernel_(array_kernels().cast_values(scale_job_)),
        clamps_(!divides(f.rule) && (f.element.twos_complement || f.scale == "e4m3"_fmt)),
        values_(tries_two_scales(f.rule) ? element_values(f.element) : std::array<float, 256>{}) {}

  // Another tensor, or the next row, of the same format.
  void set_amax(float amax) { scaling_.tensor = tensor_scale(amax, format()); }

  const BlockFormat& format() const { return scaling_.format; }
  const TensorScale& tensor() const { return scaling_.tensor; }
  const BlockScale& whole() const { return whole_; }  // of the one block of a tensor-wide scale

  // The scale of block b of the grid.
  BlockScale scale_of(const float* data, const Grid& g, std::size_t b) const {
    if (format().block_rows == 0) return whole_;
    float amax = 0;
    for (std::size_t r = 0; r < g.height(b); ++r) {
      const float here = amax_of(data + (g.top(b) + r) * g.cols + g.left(b), g.width(b), format().rule);
      amax = here <= amax ? amax : here;  // a NaN stays once it is there: it compares false
      if (std::isnan(amax)) break;
    }
    return tries_two_scales(format().rule) ? better_of_two(data, g, b, amax) : scaling_(amax);
  }

  // The scales of many blocks from their amaxes, as scaling_ gives them one by one. The rules that are used most have
  // loops of their own, which the compiler turns into lanes.
  void scales_of(const float* amaxes, std::size_t n, float* stored, float* encode) const noexcept {
    switch (format().rule) {
      case ScaleRule::ocp_floor: return e8m0_scales<ScaleRule::ocp_floor>(amaxes, n, stored, encode);
      case ScaleRule::cuda_round_up: return e8m0_scales<ScaleRule::cuda_round_up>(amaxes, n, stored, encode);
      case ScaleRule::torchao_ceil: return e8m0_scales<ScaleRule::torchao_ceil>(amaxes, n, stored, encode);
      case ScaleRule::torchao_even: return e8m0_scales<ScaleRule::torchao_even>(amaxes, n, stored, encode);
      case ScaleRule::torchao_rceil: return e8m0_scales<ScaleRule::torchao_rceil>(amaxes, n, stored, encode);
      case ScaleRule::te_nvfp4_row:
      case ScaleRule::te_nvfp4: return nvfp4_te_scales(amaxes, n, stored, encode);
      case ScaleRule::torchao_nvfp4: return nvfp4_torchao_scales(amaxes, n, stored, encode);
      case ScaleRule::ct_nvfp4: return nvfp4_ct_scales(amaxes, n, stored, encode);
      case ScaleRule::modelopt_nvfp4: return nvfp4_modelopt_scales(amaxes, n, stored, encode);
      default: break;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const BlockScale s = scaling_(amaxes[i]);
      stored[i] = s.stored, encode[i] = s.encode;
    }
  }

  // out[i] = what is cast to the element format, as scaled_element, for blocks side by side. NVFP4 is clamped too, as
  // its saturating cast would do by itself: a block with the scale 0 is multiplied by the largest float, and Inf would
  // leave the lanes of the kernel.
  void scale_into(const float* x, std::size_t blocks, std::size_t size, const float* factors,
                  float* out) const noexcept {
    if (clamps_) return array_kernels().scale_clamped(x, blocks, size, factors, scaling_.element.largest, out);
    if (divides(format().rule)) return divide_into(x, blocks, size, factors, out);
    for (std::size_t b = 0; b < blocks; ++b)
      for (std::size_t i = b * size; i < (b + 1) * size; ++i) out[i] = x[i] * factors[b];
  }

  // Whole blocks of Size elements side by side in one pass, with their scales. False, and nothing is done, where a NaN
  // is in play or the cast has no lanes for it.
  template <std::size_t Size>
  bool encode_blocks(const float* x, std::size_t blocks, std::uint8_t* codes, float* stored) const noexcept {
    if (blocks == 0 || divides(format().rule) || !has_scaled_lanes(job_.plan, job_.cast)) return false;
    static_assert(Size == 16 || Size == 32);
    const ArrayKernels& kernels = array_kernels();
    EncoderBuffer amaxes, factors;
    std::array<std::uint32_t, encoder_buffer / Size> tops;
    (Size == 16 ? kernels.top_words16 : kernels.top_words32)(x, blocks, tops.data());
    std::uint32_t top = 0;
    for (std::size_t b = 0; b < blocks; ++b) top = std::max(top, tops[b]), amaxes[b] = std::bit_cast<float>(tops[b]);
    if (top >= inf_word) return false;
    scales_of(amaxes.data(), blocks, stored, factors.data());
    bool finite = true;
    for (std::size_t b = 0; b < blocks; ++b) finite = finite && factors[b] <= float_max;
    if (!finite) return false;
    const std::size_t n = blocks * Size, done = (Size == 16 ? kernels.cast_scaled16 : kernels.cast_scaled32)(
                                             x, factors.data(), n, codes, job_.plan);
    for (std::size_t i = done; i < n; ++i)
      codes[i] = static_cast<std::uint8_t>(narrow::encode(x[i] * factors[i / Size], job_.format, job_.cast));
    return true;
  }

  // Codes of scaled values.
  void cast(const float* scaled, std::size_t n, std::uint8_t* codes) const noexcept {
    kernel_(scaled, codes, 0, n, job_);
  }

  // Codes of a piece of a block that has its scale.
  void encode(const float* x, std::size_t n, float factor, std::uint8_t* codes, EncoderBuffer& buffer) const noexcept {
    for (std::size_t i = 0; i < n; i += encoder_buffer) {
      const std::size_t m = std::min(encoder_buffer, n - i);
      scale_into(x + i, 1, m, &factor, buffer.data());
      cast(buffer.data(), m, codes + i);
    }
  }

 private:
  BlockScale better_of_two(const float* data, const Grid& g, std::size_t b, float amax) const {
    FourOverSix both = scaling_.two_scales(amax);
    for (std::size_t r = 0; r < g.height(b); ++r) {
      const float* x = data + (g.top(b) + r) * g.cols + g.left(b);
      for (int which = 0; which < 2; ++which) {
        std::array<float, 16> scaled;
        std::array<std::uint8_t, 16> codes;
        scale_into(x, 1, g.width(b), &both.scales[which].encode, scaled.data());
        cast(scaled.data(), g.width(b), codes.data());
        for (std::size_t i = 0; i < g.width(b); ++i)
          both.add(which, r, x[i], values_[codes[i]], tensor(), format().rule);
      }
    }
    return both.better();
  }

  static void divide_into(const float* x, std::size_t blocks, std::size_t size, const float* divisors,
                          float* out) noexcept {
    for (std::size_t b = 0; b < blocks; ++b)
      for (std::size_t i = b * size; i < (b + 1) * size; ++i) out[i] = x[i] / divisors[b] + 0.0f;
  }

  static constexpr Cast saturating{.overflow = Overflow::saturate};

  template <ScaleRule Rule>
  void e8m0_scales(const float* amaxes, std::size_t n, float* stored, float* encode) const noexcept {
    const E8m0Element element = scaling_.element;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint8_t code = e8m0_scale(amaxes[i], element, Rule);
      stored[i] = e8m0_value(code);
      encode[i] = e8m0_inverse(code);
    }
  }

  // As nvfp4_te and nvfp4_torchao, all roundings to E4M3 in one call of the kernel.
  void nvfp4_te_scales(const float* amaxes, std::size_t n, float* stored, float* encode) const noexcept {
    const float multiplier = tensor().encode * (1 / 6.0f), decode = 1 / tensor().encode;
    for (std::size_t i = 0; i < n; ++i) encode[i] = amaxes[i] * multiplier;
    scale_kernel_(encode, stored, 0, n, scale_job_);
    for (std::size_t i = 0; i < n; ++i) {
      const float factor = 1 / (stored[i] * decode);
      encode[i] = factor < float_max ? factor : float_max;
    }
  }
  void nvfp4_torchao_scales(const float* amaxes, std::size_t n, float* stored, float* encode) const noexcept {
    const float whole = tensor().stored, factor = tensor().encode;
    for (std::size_t i = 0; i < n; ++i) {
      const float wanted = amaxes[i] / 6.0f / whole, raised = wanted < 0x1p-6f ? 0x1p-6f : wanted;
      encode[i] = raised > 448.0f ? 448.0f : raised;
    }
    scale_kernel_(encode, stored, 0, n, scale_job_);
    for (std::size_t i = 0; i < n; ++i) encode[i] = factor / stored[i];
  }

  // As nvfp4_ct and nvfp4_modelopt.
  void nvfp4_ct_scales(const float* amaxes, std::size_t n, float* stored, float* encode) const noexcept {
    const float factor = tensor().encode;
    for (std::size_t i = 0; i < n; ++i) encode[i] = factor * (amaxes[i] / 6.0f);
    scale_kernel_(encode, stored, 0, n, scale_job_);
    for (std::size_t i = 0; i < n; ++i) {
      stored[i] = stored[i] == 0 ? 0.125f : stored[i];
      encode[i] = stored[i] / factor;
    }
  }
  void nvfp4_modelopt_scales(const float* amaxes, std::size_t n, float* stored, float* encode) const noexcept {
    const float whole = tensor().stored, divisor = 6.0f * whole;
    for (std::size_t i = 0; i < n; ++i) {
      const float quotient = amaxes[i] / divisor, wanted = quotient == 0 ? 1.0f : quotient;
      encode[i] = wanted < 0x1p-9f ? 0x1p-9f : wanted > 448.0f ? 448.0f : wanted;
    }
    scale_kernel_(encode, stored, 0, n, scale_job_);
    for (std::size_t i = 0; i < n; ++i) encode[i] = stored[i] * whole;
  }

  BlockScaling scaling_;
  BlockScale whole_;
  CastJob job_;
  CastKernel<std::uint8_t> kernel_;
  CastJob scale_job_;
  CastKernel<float> scale_kernel_;
  bool clamps_;
  std::array<float, 256> values_;  // of the codes, where errors are compared
};

}  // namespace narrow::detail
