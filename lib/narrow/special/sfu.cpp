// Reductions of arguments, edges, and the interpolator between them.
#include <algorithm>
#include <cmath>

#include "narrow/base/float_environment.hpp"
#include "narrow/special/coefficients.hpp"
#include "narrow/special/special.hpp"

namespace narrow {

namespace {

using namespace detail;

constexpr Interpolator ex2_of{ex2_rows, 6, 32, 19, 57, true, true, 0x6fc4000000000000};
constexpr Interpolator lg2_of{lg2_rows, 6, 30, 18, 56, true, false, 0x868b000000000000};
constexpr Interpolator rcp_of{rcp_rows, 7, 30, 17, 56, false, true, 0x67e7000000000000, true};
constexpr Interpolator rsqrt_of{rsqrt_rows, 6, 31, 17, 57, false, true, 0x7fff800000000000};
constexpr Interpolator sqrt_of{sqrt_rows, 6, 33, 18, 58, true, false, 0x7fff800000000000};
constexpr Interpolator sin_of{sin_rows, 6, 31, 19, 56, true, false, 0};

constexpr std::uint32_t infinity = 0x7F800000;
constexpr float inf = std::bit_cast<float>(infinity);

// An argument taken apart. A subnormal one is normalised, and its exponent is its own.
struct Parts {
  bool negative, is_zero, is_inf, is_nan;
  int exponent;
  std::uint32_t fraction;

  Parts(float x, bool ftz) {
    const auto word = std::bit_cast<std::uint32_t>(x);
    std::uint32_t a = word & 0x7FFFFFFFu;
    if (ftz && a < 0x00800000u) a = 0;
    negative = word >> 31 != 0, is_zero = a == 0, is_inf = a == infinity, is_nan = a > infinity;
    if (a >= 0x00800000u || is_zero) {
      exponent = static_cast<int>(a >> 23) - 127;
    } else {
      const int length = bit_length(std::uint64_t{a});
      exponent = length - 150, a <<= 24 - length;
    }
    fraction = a & 0x7FFFFFu;
  }
};

float zero(bool negative) { return negative ? -0.0f : 0.0f; }
bool is_small(float x) { return (std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu) < 0x00800000u; }
float flushed(float x, bool ftz) { return ftz && is_small(x) ? zero(std::signbit(x)) : x; }

// floor(log2) of a double above zero.
int exponent_of(double x) { return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7FF) - 1023; }

// Sign, quadrant and 23 bits of the fraction of a quadrant, as a word.
std::uint32_t reduce_angle(float x) {
  constexpr double per_quadrant = 0x1.45f306p-1, quadrant = 0x1.921fb6546df20p0, end = 0x1.921fb6p0;
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(x) & 0x80000000u;
  const double a = std::fabs(static_cast<double>(x));
  if (is_small(x) || a >= 0x1p33) return sign;
  const double turned = a * per_quadrant;
  const auto k = static_cast<std::uint64_t>(turned);
  const double rest = std::clamp(a - static_cast<double>(k) * quadrant, 0.0, end) * per_quadrant;
  std::uint32_t bits = 0;
  if (rest > 0) {
    bits = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(rest) >> 29 & low_mask(23)) | 1u << 23;
    bits >>= std::min(-exponent_of(rest), 24);
  }
  const std::uint32_t word = sign | static_cast<std::uint32_t>(k & 3) << 23 | bits;
  // The larger the argument, the fewer bits of the fraction are known.
  const int of_argument = std::max(exponent_of(a) - 8, 0), of_turns = std::clamp(exponent_of(turned), 0, 25);
  return word & ~static_cast<std::uint32_t>(low_mask(std::max(of_argument, of_turns)));
}

float sine_of(std::uint32_t word, bool negative) {
  std::uint64_t sum = sin_of(word & 0x7FFFFFu);
  if (sum == 0) return zero(negative);
  const int shift = sin_of.weight + 1 - bit_length(sum);
  sum <<= shift;
  return float_of(negative, 127 - shift, sin_of.fraction_of(sum));
}

}  // namespace

float sfu_ex2(float x, bool ftz) {
  const DefaultFloats guard;
  const Parts p(x, ftz);
  if (p.is_nan) return gpu_nan;
  if (p.is_inf) return p.negative ? 0 : inf;
  if (is_small(x)) return 1;
  if (x >= 128) return inf;
  if (x < -126) {
    if (x < -400) return 0;
    const float half = sfu_ex2(x * 0.5f, ftz);
    return flushed(half * half, ftz);
  }
  const float whole = std::trunc(x);
  int n = static_cast<int>(whole);
  auto fraction = static_cast<std::uint32_t>(std::fabs(x - whole) * 0x1p23f);
  if (p.negative && fraction != 0) fraction = ~fraction & 0x7FFFFFu, n -= 1;
  return n < -126 ? 0 : float_of(false, 127 + n, ex2_of.fraction_of(ex2_of(fraction)));
}

float sfu_lg2(float x, bool ftz) {
  const DefaultFloats guard;
  const Parts p(x, ftz);
  if (p.is_zero) return -inf;
  if (p.is_nan || p.negative) return gpu_nan;
  if (p.is_inf) return inf;
  if (x == 1) return 0;
  const bool is_subnormal = is_small(x);
  const int exponent = p.exponent + (is_subnormal ? 24 : 0);
  const std::int64_t total = static_cast<std::int64_t>(lg2_of(p.fraction)) + exponent * (std::int64_t{1} << lg2_of.weight);
  std::uint64_t sum = static_cast<std::uint64_t>(total < 0 ? -total : total) & ~low_mask(20);
  const int shift = bit_length(sum) - 1 - lg2_of.weight;
  sum = shift >= 0 ? sum >> shift : sum << -shift;
  const float result = float_of(exponent < 0, 127 + shift, lg2_of.fraction_of(sum));
  return is_subnormal ? result - 24 : result;
}

float sfu_rcp(float x, bool ftz) {
  const DefaultFloats guard;
  const Parts p(x, ftz);
  if (p.is_nan) return gpu_nan;
  if (p.is_inf) return zero(p.negative);
  if (p.is_zero) return p.negative ? -inf : inf;
  std::uint64_t sum = rcp_of(p.fraction);
  const bool is_one = sum >> rcp_of.weight != 0;
  if (!is_one) sum <<= 1;
  const float result = float_of(p.negative, is_one ? 127 : 126, rcp_of.fraction_of(sum));
  return flushed(std::ldexp(result, -p.exponent), ftz);
}

float sfu_sqrt(float x, bool ftz) {
  const DefaultFloats guard;
  const Parts p(x, ftz);
  if (p.is_nan) return gpu_nan;
  if (p.is_zero) return zero(p.negative);
  if (p.negative) return gpu_nan;
  if (p.is_inf) return inf;
  const int odd = p.exponent & 1;
  const float result = float_of(false, 127, sqrt_of.fraction_of(sqrt_of(p.fraction, odd != 0 ? 64 : 0)));
  return std::ldexp(result, (p.exponent - odd) / 2);
}

float sfu_rsqrt(float x, bool ftz) {
  const DefaultFloats guard;
  const Parts p(x, ftz);
  if (p.is_nan) return gpu_nan;
  if (p.is_zero) return p.negative ? -inf : inf;
  if (p.negative) return gpu_nan;
  if (p.is_inf) return 0;
  const int odd = p.exponent & 1, half = (p.exponent - odd) / 2;
  if (odd == 0 && p.fraction == 0) return std::ldexp(1.0f, -half);
  const std::uint64_t sum = rsqrt_of(p.fraction, odd != 0 ? 64 : 0) << 1;
  return std::ldexp(float_of(false, 126, rsqrt_of.fraction_of(sum)), -half);
}

float sfu_sin(float x) {
  const DefaultFloats guard;
  if (Parts(x, false).is_nan || Parts(x, false).is_inf) return gpu_nan;
  const std::uint32_t word = reduce_angle(x);
  const bool turned = (word >> 24 & 1) != 0;  // quadrants 2 and 3
  return sine_of((word >> 23 & 1) != 0 ? ~word : word, (word >> 31 != 0) != turned);
}

float sfu_cos(float x) {
  const DefaultFloats guard;
  if (Parts(x, false).is_nan || Parts(x, false).is_inf) return gpu_nan;
  const std::uint32_t word = reduce_angle(x), quadrant = word >> 23 & 3;
  return sine_of((quadrant & 1) == 0 ? ~word : word, ((quadrant + 1) & 2) != 0);
}

}  // namespace narrow
