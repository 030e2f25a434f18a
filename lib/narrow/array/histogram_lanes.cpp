#include "narrow/array/kernels.hpp"
#include "narrow/simd/lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {

namespace {
uint64_t total_count(WordLanes negative_counts) noexcept {
  uint64_t sum = 0;
  for (int k = 0; k < lane_count; ++k) sum += 0u - negative_counts[k];
  return sum;
}
}  // namespace

void count_specials(SpecialCounts& to, const float* x, size_t n) noexcept {
  WordLanes zero{}, minus_zero{}, inf{}, minus_inf{};
  size_t i = 0;
  for (; i + lane_count <= n; i += lane_count) {
    const WordLanes word = load(x + i);
    zero += equal(word, 0);
    minus_zero += equal(word, 0x80000000u);
    inf += equal(word, 0x7F800000u);
    minus_inf += equal(word, 0xFF800000u);
  }
  to.zero[0] += total_count(zero), to.zero[1] += total_count(minus_zero);
  to.inf[0] += total_count(inf), to.inf[1] += total_count(minus_inf);
  for (; i < n; ++i) {
    const uint32_t word = as<uint32_t>(x[i]);
    if ((word << 1) == 0) ++to.zero[word >> 31];
    if ((word << 1) == 0xFF000000u) ++to.inf[word >> 31];
  }
}

uint64_t count_from(uint32_t from, uint32_t sign, const float* x, size_t n) noexcept {
  WordLanes counts{};
  size_t i = 0;
  for (; i + lane_count <= n; i += lane_count) {
    // The sign flipped, so that words of the other sign are negative integers and below every threshold.
    const WordLanes a = load(x + i) ^ sign;
    counts += above(a, splat(from - 1)) & above(splat(0x7F800000), a);
  }
  uint64_t count = total_count(counts);
  for (; i < n; ++i) {
    const uint32_t a = as<uint32_t>(x[i]) ^ sign;
    if (a >= from && a < 0x7F800000u) ++count;
  }
  return count;
}

}  // namespace narrow::detail::inline NARROW_LANES
