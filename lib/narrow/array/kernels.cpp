#include "narrow/array/kernels.hpp"

#include "narrow/base/random.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/simd/target.hpp"

namespace narrow::detail {

#define NARROW_DECLARE(target) \
  namespace target {           \
  extern const ArrayKernels array_kernels; \
  }
NARROW_TARGETS(NARROW_DECLARE)
#undef NARROW_DECLARE

const ArrayKernels& array_kernels() {
#define NARROW_ROW(target) &target::array_kernels,
  static constexpr const ArrayKernels* rows[] = {NARROW_TARGETS(NARROW_ROW)};
#undef NARROW_ROW
  return *rows[simd::current_target()];
}

template <class Out>
void cast_one_by_one(const float* in, Out* out, std::size_t begin, std::size_t end, const CastJob& job) noexcept {
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint64_t random = element_random(job, i);
    if constexpr (std::is_same_v<Out, float>) out[i] = round_to(in[i], job.format, job.cast, random);
    else out[i] = static_cast<Out>(encode(in[i], job.format, job.cast, random));
  }
}
template void cast_one_by_one(const float*, float*, std::size_t, std::size_t, const CastJob&) noexcept;
template void cast_one_by_one(const float*, std::uint8_t*, std::size_t, std::size_t, const CastJob&) noexcept;
template void cast_one_by_one(const float*, std::uint16_t*, std::size_t, std::size_t, const CastJob&) noexcept;
template void cast_one_by_one(const float*, std::uint32_t*, std::size_t, std::size_t, const CastJob&) noexcept;

template <class In>
void decode_one_by_one(const In* in, float* out, std::size_t begin, std::size_t end, const DecodePlan& plan) noexcept {
  for (std::size_t i = begin; i < end; ++i) out[i] = static_cast<float>(decode(in[i], plan.format));
}
template void decode_one_by_one(const std::uint8_t*, float*, std::size_t, std::size_t, const DecodePlan&) noexcept;
template void decode_one_by_one(const std::uint16_t*, float*, std::size_t, std::size_t, const DecodePlan&) noexcept;
template void decode_one_by_one(const std::uint32_t*, float*, std::size_t, std::size_t, const DecodePlan&) noexcept;

}  // namespace narrow::detail
