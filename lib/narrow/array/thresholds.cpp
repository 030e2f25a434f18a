#include "narrow/array/thresholds.hpp"

#include <cmath>

#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow::detail {

namespace {

// The first of the words 1 .. 0x7F800000 for which holds is true, given that it stays true from there on.
template <class Predicate>
std::uint32_t first_word(const Predicate& holds) {
  std::uint32_t low = 1, high = 0x7F800000;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

}  // namespace

std::uint32_t find_overflow(const FormatCast& to, bool negative, int scale_log2) {
  const DefaultFloats guard;
  const float scale = std::ldexp(negative ? -1.0f : 1.0f, scale_log2);
  return first_word([&](std::uint32_t word) {
    const float scaled = std::bit_cast<float>(word) * scale;
    return std::isinf(scaled) || overflows(scaled, to.format, to.cast);
  });
}

Thresholds find_thresholds(const FormatCast& to, bool negative, int scale_log2) {
  if (to.cast.rounding == Rounding::stochastic) throw Error("histogram: a stochastic cast has no thresholds; use statistics");
  if (scale_log2 < -126 || scale_log2 > 127) throw Error("histogram: scale 2^" + std::to_string(scale_log2) + " is no normal float");
  const DefaultFloats guard;
  const float scale = std::ldexp(1.0f, scale_log2);
  const auto scaled = [&](std::uint32_t word) { return std::bit_cast<float>(word | (negative ? 0x80000000u : 0)) * scale; };
  const auto result = [&](std::uint32_t word) { return encode(scaled(word), to.format, to.cast); };
  Thresholds t;
  t.zero_below = first_word([&](std::uint32_t w) { return classify(result(w), to.format) != ValueClass::zero; });
  t.normal_from = first_word([&](std::uint32_t w) {
    const ValueClass c = classify(result(w), to.format);
    return c != ValueClass::zero && c != ValueClass::subnormal;
  });
  t.overflow_from = find_overflow(to, negative, scale_log2);
  return t;
}

}  // namespace narrow::detail
