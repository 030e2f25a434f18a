// Special functions in lanes: the same interpolator (interpolator.hpp), reductions (sfu.hpp) and sequences
// (cuda_math.hpp), for arguments in the middle of their range. Every operation is exact or the IEEE one, so the bits
// are the same. What is done for both registers is unrolled, so that they stay registers at -O2 too.
#include "narrow/simd/wide_lanes.hpp"
#include "narrow/special/cuda_terms.hpp"
#include "narrow/special/interpolator.hpp"
#include "narrow/special/kernels.hpp"

namespace narrow::detail::inline NARROW_LANES {

namespace {

struct TwoFloats {
  FloatLanes of[2];
};

// The squarer keeps the products x_i x_j from column 19 on, so its result is a multiple of 2^19; here in units of it.
// Bit j meets the bits 18 - j to j - 1, and itself in column 2j:
//   sum over j = 10..16 of x_j ((x & (2^j - 2^(18-j))) + 2^(j-1)) 2^(j-18)
// Bits 0 and 1 have no part in it, so that x >> 2 is enough, and nothing is above 2^16.
[[gnu::always_inline]] inline TwoWords square(TwoWords x) noexcept {
  for (WordLanes& w : x.of) w >>= 2;
  const HalfRow y = low_halves(x);
  HalfRow sum{};
#pragma GCC unroll 7
  for (int j = 10; j <= 16; ++j) {
    const uint16_t bit = static_cast<uint16_t>(1u << (j - 2)), below = static_cast<uint16_t>(1u << (16 - j));
    const uint16_t half = bit / 2, others = bit - below;
    const HalfRow has_bit = as<HalfRow>((y & bit) != 0);
    sum += (((y & others) + half) & has_bit) >> (16 - j);
  }
  return words_of(sum);
}

// As Interpolator has it, in units of 2^a1, above which everything lies.
template <Interpolator i>
struct Interpolation {
  static constexpr int low_bits = 23 - i.index_bits,
                       place = i.weight - 23 - i.a1;  // place: of the fraction's lowest bit

  struct Sums {
    WideLanes of[2];
  };

  [[gnu::always_inline]] static Sums sum(const uint64_t* rows, const TwoWords& fraction,
                                         const TwoWords& offset) noexcept {
    TwoWords xl;
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) xl.of[r] = fraction.of[r] & ((1u << low_bits) - 1);
    TwoWords squares = xl;
    if (i.halves_xl)
      for (WordLanes& w : squares.of) w <<= 1;
    squares = square(squares);
    Sums sums;
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      WordLanes c0, upper;
      gather_words(rows, (fraction.of[r] >> low_bits) + offset.of[r], c0, upper);
      const WideLanes first = multiply_words(upper & 0xFFFFFu, xl.of[r]);
      const WideLanes second = widen_words(((upper >> 20) * squares.of[r]) << ((i.halves_xl ? 17 : 19) - i.a1));
      sums.of[r] = widen_words(c0);
#pragma GCC unroll 2
      for (int p = 0; p < 2; ++p) {
        LongLanes& t = sums.of[r].part[p];
        t = (t << (i.a0 - i.a1)) + (i.bias >> (64 - i.weight + 23) >> i.a1);
        t = i.adds_c1 ? t + first.part[p] : t - first.part[p];
        t = i.adds_c2 ? t + second.part[p] : t - second.part[p];
      }
    }
    return sums;
  }
  // The sum from `below` bits under the fraction on.
  template <int below = 0>
  [[gnu::always_inline]] static TwoWords bits(const uint64_t* rows, const TwoWords& fraction,
                                              const TwoWords& offset) noexcept {
    const Sums sums = sum(rows, fraction, offset);
    TwoWords out;
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) out.of[r] = words_from<place - below>(sums.of[r]);
    return out;
  }
};

using Ex2 = Interpolation<ex2_interpolator>;
using Lg2 = Interpolation<lg2_interpolator>;
using Rcp = Interpolation<rcp_interpolator>;
using Sqrt = Interpolation<sqrt_interpolator>;
using Rsqrt = Interpolation<rsqrt_interpolator>;

constexpr uint32_t fraction_mask = 0x7FFFFFu;

inline IntLanes truncated(FloatLanes x) noexcept { return __builtin_convertvector(x, IntLanes); }
inline FloatLanes floats_of(IntLanes x) noexcept { return __builtin_convertvector(x, FloatLanes); }
inline FloatLanes word(uint32_t w) noexcept { return as_float(splat(w)); }
inline FloatLanes chosen(WordLanes mask, FloatLanes yes, FloatLanes no) noexcept {
  return as_float(select(mask, as_words(yes), as_words(no)));
}
inline FloatLanes fma_of(FloatLanes a, FloatLanes b, FloatLanes c) noexcept { return fused(c, a, b); }
// ((c0 x + c1) x + c2) x + ..
template <uint32_t first, uint32_t... others>
[[gnu::always_inline]] inline FloatLanes horner(FloatLanes x, Terms<first, others...>) noexcept {
  FloatLanes sum = word(first);
  ((sum = fma_of(sum, x, word(others))), ...);
  return sum;
}

// Functions of two registers: results, and zeros in `good` where a lane is not right.
#define NARROW_SPECIAL(name)                                                                         \
  [[gnu::always_inline]] inline TwoFloats name([[maybe_unused]] const SpecialTables& t, TwoFloats x, \
                                               TwoWords& good) noexcept
constexpr int both[] = {0, 1};

// -126 <= x < 128. What is below 2^-23 in magnitude has no fraction, and its power is one.
NARROW_SPECIAL(ex2_of) {
  TwoWords fraction, exponent;
#pragma GCC unroll 2
  for (const int r : both) {
    const FloatLanes v = x.of[r];
    good.of[r] &= as<WordLanes>(v >= -126.0f) & as<WordLanes>(v < 128.0f);
    const IntLanes n = truncated(chosen(good.of[r], v, FloatLanes{}));
    const FloatLanes rest = chosen(good.of[r], v - floats_of(n), FloatLanes{});
    fraction.of[r] = as<WordLanes>(truncated(as_float(magnitude(as_words(rest))) * 0x1p23f));
    const WordLanes below = negative_mask(as_words(v)) & ~equal(fraction.of[r], 0);
    fraction.of[r] = (fraction.of[r] ^ below) & fraction_mask;
    exponent.of[r] = as<WordLanes>(n) + below + 127u;  // a mask is -1
  }
  const TwoWords bits = Ex2::bits(t.ex2, fraction, TwoWords{});
#pragma GCC unroll 2
  for (const int r : both) x.of[r] = as_float(exponent.of[r] << 23 | (bits.of[r] & fraction_mask));
  return x;
}

// As signed words: no float below zero is among them.
inline WordLanes is_between(WordLanes x, uint32_t first, uint32_t last) noexcept {
  return above(x, splat(first - 1)) & above(splat(last + 1), x);
}

// 2^-126 <= |x| < 2^126.
NARROW_SPECIAL(rcp_of) {
  TwoWords fraction;
#pragma GCC unroll 2
  for (const int r : both) {
    const WordLanes a = magnitude(as_words(x.of[r]));
    good.of[r] &= is_between(a, 0x00800000u, 0x7E7FFFFFu);
    fraction.of[r] = a & fraction_mask;
  }
  const TwoWords bits = Rcp::bits<1>(t.rcp, fraction, TwoWords{});
#pragma GCC unroll 2
  for (const int r : both) {
    const WordLanes w = as_words(x.of[r]), is_one = as<WordLanes>((bits.of[r] >> 24) != 0);
    const WordLanes field = 253u - is_one - (magnitude(w) >> 23);
    x.of[r] = as_float((w & 0x80000000u) | field << 23 | (select(is_one, bits.of[r] >> 1, bits.of[r]) & fraction_mask));
  }
  return x;
}

// Normal x above zero.
inline WordLanes is_normal(WordLanes w) noexcept { return is_between(w, 0x00800000u, 0x7F7FFFFFu); }

// A root: the exponent is the field less 127, and its lowest bit chooses the half of the table.
struct RootParts {
  TwoWords fraction, odd, offset, half;  // half: 127 more than half of the exponent
};
[[gnu::always_inline]] inline RootParts root_parts(const TwoFloats& x, TwoWords& good) noexcept {
  RootParts parts;
#pragma GCC unroll 2
  for (const int r : both) {
    const WordLanes w = as_words(x.of[r]), odd = ~(w >> 23) & 1;
    good.of[r] &= is_normal(w);
    parts.fraction.of[r] = w & fraction_mask, parts.odd.of[r] = odd, parts.offset.of[r] = odd << 6;
    parts.half.of[r] = ((w >> 23) + 127u - odd) >> 1;
  }
  return parts;
}
NARROW_SPECIAL(sqrt_of) {
  const RootParts parts = root_parts(x, good);
  const TwoWords bits = Sqrt::bits(t.sqrt, parts.fraction, parts.offset);
#pragma GCC unroll 2
  for (const int r : both) x.of[r] = as_float(parts.half.of[r] << 23 | (bits.of[r] & fraction_mask));
  return x;
}
NARROW_SPECIAL(rsqrt_of) {
  const RootParts parts = root_parts(x, good);
  const TwoWords bits = Rsqrt::bits<1>(t.rsqrt, parts.fraction, parts.offset);
#pragma GCC unroll 2
  for (const int r : both) {
    const WordLanes is_power = equal(parts.odd.of[r] | parts.fraction.of[r], 0);
    const WordLanes field = 253u - is_power - parts.half.of[r];
    x.of[r] = as_float(field << 23 | (bits.of[r] & fraction_mask & ~is_power));
  }
  return x;
}

// The sum of fraction and exponent, whose bias has one bit more than units of 2^18, has 47 bits, so that a double holds
// it; of its magnitude without the lowest three the first 24 are the result.
NARROW_SPECIAL(lg2_of) {
  TwoWords fraction;
#pragma GCC unroll 2
  for (const int r : both) {
    good.of[r] &= is_normal(as_words(x.of[r]));
    fraction.of[r] = as_words(x.of[r]) & fraction_mask;
  }
  Lg2::Sums sums = Lg2::sum(t.lg2, fraction, TwoWords{});
#pragma GCC unroll 2
  for (const int r : both) {
    const WordLanes w = as_words(x.of[r]);
    const WideLanes field = widen_words((w >> 23) & 255u);
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) {
      LongLanes& total = sums.of[r].part[p];
      total = (total << 1) + 1u + ((field.part[p] - 127u) << 39);
      const LongLanes sign = as<LongLanes>(as<QuantaLanes>(total) < 0);
      const LongLanes size = ((total ^ sign) - sign) & ~uint64_t{7};
      // The fraction of 2^52, and less that.
      const DoubleLanes value = (as<DoubleLanes>(size | 0x4330000000000000u) - 0x1p52) * 0x1p-39;
      total = (as<LongLanes>(value) >> 29) - (uint64_t{1023 - 127} << 23);
    }
    const WordLanes sign = as<WordLanes>((w >> 23) < 127u) & 0x80000000u;
    x.of[r] = as_float((low_words(sums.of[r]) | sign) & ~equal(w, 0x3F800000u));
  }
  return x;
}

// x where |x| is below the float with that word; elsewhere zero, and not good.
[[gnu::always_inline]] inline void keep_below(uint32_t word, TwoFloats& x, TwoWords& good) noexcept {
#pragma GCC unroll 2
  for (const int r : both) {
    good.of[r] &= is_smaller(as_words(x.of[r]), word);
    x.of[r] = chosen(good.of[r], x.of[r], FloatLanes{});
  }
}

// |x| < 87, where no power leaves the range.
NARROW_SPECIAL(exp_of) {
  TwoFloats rest, power;
  keep_below(0x42AE0000u, x, good);
#pragma GCC unroll 2
  for (const int r : both) {
    const FloatLanes v = x.of[r];
    const FloatLanes share = fma_of(v, word(0x3BBB989Du), splat_float(0.5f));
    // floor(252 share): the product may have been rounded up to an integer.
    FloatLanes floor = floats_of(truncated(share * 252.0f));
    floor += floats_of(as<IntLanes>(negative_mask(as_words(fma_of(share, splat_float(252.0f), -floor)))));
    const FloatLanes n = floor - 126.0f;
    rest.of[r] = fma_of(v, word(0x32A57060u), fma_of(v, word(0x3FB8AA3Bu), -n));
    power.of[r] = as_float((as<WordLanes>(truncated(n)) + 127u) << 23);
  }
  rest = ex2_of(t, rest, good);
#pragma GCC unroll 2
  for (const int r : both) rest.of[r] *= power.of[r];
  return rest;
}

NARROW_SPECIAL(log_of) {
#pragma GCC unroll 2
  for (const int r : both) {
    const WordLanes w = as_words(x.of[r]);
    good.of[r] &= is_normal(w);
    const WordLanes i = (w - 0x3F2AAAABu) & 0xFF800000u;
    const FloatLanes f = as_float(w - i) - 1.0f;
    const FloatLanes e = floats_of(as<IntLanes>(i)) * 0x1p-23f;
    const FloatLanes p = horner(f, LogTerms{});
    x.of[r] = fma_of(e, word(0x3F317218u), fma_of(p * f, f, f));
  }
  return x;
}

inline FloatLanes with_sign(FloatLanes magnitude, FloatLanes x) noexcept {
  return as_float(as_words(magnitude) | (as_words(x) & 0x80000000u));
}

// |x| below where the result is one.
NARROW_SPECIAL(tanh_of) {
  TwoFloats e;
  keep_below(0x41102CB4u, x, good);
#pragma GCC unroll 2
  for (const int r : both) {
    e.of[r] = as_float(magnitude(as_words(x.of[r]))) * word(0x4038AA3Bu);
  }
  e = ex2_of(t, e, good);
#pragma GCC unroll 2
  for (const int r : both) e.of[r] += 1.0f;
  e = rcp_of(t, e, good);
#pragma GCC unroll 2
  for (const int r : both) {
    const FloatLanes v = x.of[r], s = v * v;
    const FloatLanes p = horner(s, TanhTerms{});
    const FloatLanes large = fma_of(e.of[r], splat_float(-2.0f), splat_float(1.0f));
    x.of[r] =
        chosen(is_smaller(as_words(v), 0x3F19999Au), fma_of(fma_of(p, s, FloatLanes{}), v, v), with_sign(large, v));
  }
  return x;
}

// |x| < 4, where the exponential is a normal number.
NARROW_SPECIAL(erf_of) {
  TwoFloats power;
  keep_below(0x40800000u, x, good);
#pragma GCC unroll 2
  for (const int r : both) {
    const FloatLanes a = as_float(magnitude(as_words(x.of[r])));
    const FloatLanes p = horner(a, FarErfTerms{});
    power.of[r] = fma_of(p, -a, -a);
  }
  power = ex2_of(t, power, good);
#pragma GCC unroll 2
  for (const int r : both) {
    const FloatLanes v = x.of[r];
    const FloatLanes p = horner(v * v, NearErfTerms{});
    x.of[r] = chosen(is_smaller(as_words(v), 0x3F8060FEu), fma_of(p, v, v), with_sign(1.0f - power.of[r], v));
  }
  return x;
}

#undef NARROW_SPECIAL

template <TwoFloats (*function)(const SpecialTables&, TwoFloats, TwoWords&) noexcept>
size_t over_array(const SpecialTables& tables, const float* in, size_t count, float* out) noexcept {
  constexpr size_t step = 2 * lane_count;
  size_t i = 0;
  for (; i + step <= count; i += step) {
    TwoWords good{{~WordLanes{}, ~WordLanes{}}};
    const TwoFloats x{{as_float(load(in + i)), as_float(load(in + i + lane_count))}};
    const TwoFloats y = function(tables, x, good);
    if (any(~(good.of[0] & good.of[1]))) break;
    store(out + i, y.of[0]), store(out + i + lane_count, y.of[1]);
  }
  return i;
}

}  // namespace

extern const SpecialKernels special_kernels;
constexpr SpecialKernels special_kernels{over_array<ex2_of>,   over_array<lg2_of>,  over_array<rcp_of>,
                                         over_array<rsqrt_of>, over_array<sqrt_of>, over_array<exp_of>,
                                         over_array<log_of>,   over_array<tanh_of>, over_array<erf_of>};

}  // namespace narrow::detail::inline NARROW_LANES
