// The row of this instruction set.
#include "narrow/array/kernels.hpp"
#include "narrow/simd/width_lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {

CastKernel<float> value_kernel(const CastJob& job);
CastKernel<uint8_t> code8_kernel(const CastJob& job);
CastKernel<uint16_t> code16_kernel(const CastJob& job);
CastKernel<uint32_t> code32_kernel(const CastJob& job);
DecodeKernel<uint8_t> decode8_kernel(DecodeWay way);
DecodeKernel<uint16_t> decode16_kernel(DecodeWay way);
DecodeKernel<uint32_t> decode32_kernel(DecodeWay way);
void top_words(const float* x, size_t blocks, size_t size, uint32_t* tops) noexcept;
void top_words16(const float* in, size_t groups, uint32_t* tops) noexcept;
void top_words32(const float* in, size_t groups, uint32_t* tops) noexcept;
size_t cast_scaled16(const float* in, const float* factors, size_t n, uint8_t* out, const RoundPlan& plan) noexcept;
size_t cast_scaled32(const float* in, const float* factors, size_t n, uint8_t* out, const RoundPlan& plan) noexcept;
void scale_clamped(const float* x, size_t blocks, size_t size, const float* factors, float limit, float* out) noexcept;
void count_specials(SpecialCounts& to, const float* x, size_t n) noexcept;
uint64_t count_from(uint32_t from, uint32_t sign, const float* x, size_t n) noexcept;

BlockInput scan_block(const float* x, size_t n) noexcept;
NonFinite clear_non_finite(float* x, size_t n) noexcept;
Beyond count_overflow(const float* s, const float* r, size_t n, const uint32_t (&last_in_range)[2]) noexcept;
BlockErrors compare_block(const BlockToCompare& b, Difference difference, bool masked, bool relative) noexcept;
float largest_relative_error(const float* s, const float* r, size_t n) noexcept;

extern const ArrayKernels array_kernels;
constexpr ArrayKernels array_kernels{
    has_half_lanes, value_kernel, code8_kernel, code16_kernel, code32_kernel, decode8_kernel, decode16_kernel,
    decode32_kernel, top_words, top_words16, top_words32, cast_scaled16, cast_scaled32, scale_clamped, scan_block,
    clear_non_finite, count_overflow, compare_block, largest_relative_error, count_specials, count_from};

}  // namespace narrow::detail::inline NARROW_LANES
