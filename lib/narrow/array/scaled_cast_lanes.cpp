// Floats times a factor that they share in groups, cast to one-byte codes in one pass: what block formats do to their
// elements. The bits are those of a multiplication in float and then encode.
#include "narrow/array/cast_lanes.hpp"

namespace narrow::detail::inline NARROW_LANES {

namespace {

template <size_t Group>
size_t cast_scaled(const float* in, const float* factors, size_t n, uint8_t* out,
                        const RoundPlan& plan) noexcept {
  static_assert(Group % lane_count == 0);
  constexpr size_t vectors = 8, step = vectors * lane_count;  // enough to hide the latency of each
  const RoundPlan p = plan;                                        // a copy: stores through out cannot change it
  size_t i = 0;
  for (; i + step <= n; i += step) {
    WordLanes x[vectors], result[vectors];
    ask_ahead(in + i, step * sizeof(float)), ask_ahead(out + i, step);
    for (size_t k = 0; k < vectors; ++k) {
      const size_t at = i + k * lane_count;
      x[k] = as_words(as_float(load(in + at)) * factors[at / Group]);
    }
    for (size_t k = 0; k < vectors; ++k)
      result[k] = cast_lanes<false, Way::anchor, Rounding::nearest_even, Finish::clamped>(x[k], p, RandomLanes{});
    for (size_t k = 0; k < vectors; k += 4)
      store_signed<false>(out + i + k * lane_count, result + k, x + k, p.sign_shift, p.sign_word);
  }
  return i;
}

template <size_t Group>
void top_words_of(const float* in, size_t groups, uint32_t* tops) noexcept {
  static_assert(Group % lane_count == 0);
  constexpr size_t together = 64;
  uint32_t lanes[together * lane_count];
  for (size_t begin = 0; begin < groups; begin += together) {
    const size_t count = groups - begin < together ? groups - begin : together;
    for (size_t g = 0; g < count; ++g) {
      const float* x = in + (begin + g) * Group;
      WordLanes top = magnitude(load(x));
      for (size_t k = lane_count; k < Group; k += lane_count) top = larger(top, magnitude(load(x + k)));
      store(lanes + g * lane_count, top);
    }
    for (size_t g = 0; g < count; ++g) {  // across the lanes of many groups at once
      uint32_t top = lanes[g * lane_count];
      for (size_t k = 1; k < lane_count; ++k) top = lanes[g * lane_count + k] > top ? lanes[g * lane_count + k] : top;
      tops[begin + g] = top;
    }
  }
}

}  // namespace

void top_words16(const float* in, size_t groups, uint32_t* tops) noexcept { top_words_of<16>(in, groups, tops); }
void top_words32(const float* in, size_t groups, uint32_t* tops) noexcept { top_words_of<32>(in, groups, tops); }
size_t cast_scaled16(const float* in, const float* factors, size_t n, uint8_t* out, const RoundPlan& plan) noexcept {
  return cast_scaled<16>(in, factors, n, out, plan);
}
size_t cast_scaled32(const float* in, const float* factors, size_t n, uint8_t* out, const RoundPlan& plan) noexcept {
  return cast_scaled<32>(in, factors, n, out, plan);
}

void top_words(const float* x, size_t blocks, size_t size, uint32_t* tops) noexcept {
  for (size_t b = 0; b < blocks; ++b, x += size) {
    WordLanes lanes{};
    size_t i = 0;
    for (; i + lane_count <= size; i += lane_count) lanes = larger(lanes, magnitude(load(x + i)));
    uint32_t top = largest_lane(lanes);
    for (; i < size; ++i) {
      const uint32_t a = as<uint32_t>(x[i]) & 0x7FFFFFFFu;
      top = a > top ? a : top;
    }
    tops[b] = top;
  }
}

void scale_clamped(const float* x, size_t blocks, size_t size, const float* factors, float limit, float* out) noexcept {
  const auto limit_word = as<uint32_t>(limit);
  for (size_t b = 0; b < blocks; ++b, x += size, out += size) {
    const float factor = factors[b];
    size_t i = 0;
    for (; i + lane_count <= size; i += lane_count)
      store(out + i, clamp(as_words(as_float(load(x + i)) * factor), limit_word, limit_word));
    for (; i < size; ++i) {
      const float v = x[i] * factor, cut = v > limit ? limit : v;
      out[i] = cut < -limit ? -limit : cut;
    }
  }
}

}  // namespace narrow::detail::inline NARROW_LANES
