#include "narrow/dot/kernels.hpp"

#include "narrow/simd/target.hpp"

namespace narrow::detail {

#define NARROW_DECLARE(target)           \
  namespace target {                     \
  extern const DotKernels dot_kernels; \
  }
NARROW_TARGETS(NARROW_DECLARE)
#undef NARROW_DECLARE

const DotKernels& dot_kernels() {
#define NARROW_ROW(target) &target::dot_kernels,
  static constexpr const DotKernels* rows[] = {NARROW_TARGETS(NARROW_ROW)};
#undef NARROW_ROW
  return *rows[simd::current_target()];
}

float round_lane(const DotModel& m, std::int64_t quanta, float addend, int lowest) {
  const auto own = static_cast<std::int64_t>(static_cast<double>(addend) * compose(false, 1, -lowest));
  return static_cast<float>(decode(round_sum(m, quanta + own, lowest), m.accumulator.format));
}
float round_addition(const DotModel& m, float sum) { return round_to(sum, m.accumulator.format); }

}  // namespace narrow::detail
