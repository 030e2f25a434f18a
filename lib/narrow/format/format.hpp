// What a code means: a number format as a small value. Every limit is derived; how values are rounded is not here.
//
//   constexpr Format half{5, 10, 15};
//   static_assert(half.width() == 16 && half.max_exponent() == 15);
#pragma once

#include "narrow/base/bits.hpp"

namespace narrow {

using Code = std::uint64_t;  // a code of any format, in the low bits

// What the codes at the top (or the code of negative zero) stand for instead of finite values.
enum class Specials : std::uint8_t {
  inf_and_nan,           // as IEEE 754: exponent all ones is Inf (mantissa 0) or NaN
  nan_only,              // all ones but the sign is NaN; the other top codes are finite
  nan_is_negative_zero,  // the code of -0 is the only NaN; no Inf ("fnuz")
  none,                  // every code is finite
  extended               // Inf above the finite codes and one NaN: the code of -0, or all ones without a sign (P3109)
};

//   s eeee mmm     value of exponent field e > 0:  (-1)^s * 2^(e - bias) * 1.mmm
//                  exponent field 0 (has_zero):    (-1)^s * 2^(1 - bias) * 0.mmm
// Two deviations cover the rest. has_zero = false (e8m0): field 0 is one more binade, there is no zero and no
// subnormal. exponent_bits = 0 (int8, uint8): the code is an integer times the quantum, in twos_complement or unsigned.
struct Format {
  int exponent_bits = 0;
  int mantissa_bits = 0;  // stored bits, without the implicit one
  int bias = 0;
  Specials specials = Specials::inf_and_nan;
  bool has_sign = true;
  bool has_zero = true;
  bool twos_complement = false;

  friend constexpr bool operator==(const Format&, const Format&) = default;

  constexpr int width() const noexcept { return (has_sign ? 1 : 0) + exponent_bits + mantissa_bits; }
  constexpr int significand_bits() const noexcept { return mantissa_bits + 1; }
  constexpr Code code_mask() const noexcept { return low_mask(width()); }
  constexpr Code magnitude_mask() const noexcept { return low_mask(exponent_bits + mantissa_bits); }
  constexpr Code mantissa_mask() const noexcept { return low_mask(mantissa_bits); }
  constexpr Code sign_mask() const noexcept { return has_sign ? 1ull << (width() - 1) : 0; }

  constexpr bool is_integer() const noexcept { return exponent_bits == 0; }
  constexpr bool has_infinity() const noexcept {
    return specials == Specials::inf_and_nan || specials == Specials::extended;
  }
  constexpr bool has_nan() const noexcept { return specials != Specials::none; }
  constexpr bool has_negative_zero() const noexcept {
    return has_sign && has_zero && !twos_complement && !has_nan_at_negative_zero();
  }
  constexpr bool has_nan_at_negative_zero() const noexcept {
    return specials == Specials::nan_is_negative_zero || (specials == Specials::extended && has_sign);
  }
  constexpr bool has_subnormals() const noexcept {
    return has_zero && exponent_bits > 0 && mantissa_bits > 0;
  }

  // Whether a tie between powers of two goes to the even code, as in P3109's formats without a stored mantissa. In the
  // others without one (e8m0, e3m0f) the last bit is the implicit one.
  constexpr bool ties_to_even_code() const noexcept { return mantissa_bits == 0 && has_zero && has_nan(); }

  // Exponent of the smallest normal value; subnormals (and integers) share its quantum 2^(min_exponent - mantissa_bits).
  constexpr int min_exponent() const noexcept { return has_zero ? 1 - bias : -bias; }
  constexpr int min_quantum_exponent() const noexcept { return min_exponent() - mantissa_bits; }

  // Finite magnitudes are the codes 0 .. max_magnitude, in the order of their values.
  constexpr Code max_magnitude(bool negative = false) const noexcept {
    switch (specials) {
      case Specials::inf_and_nan: return (low_mask(exponent_bits) << mantissa_bits) - 1;
      case Specials::nan_only: return magnitude_mask() - 1;
      case Specials::extended: return magnitude_mask() - (has_sign ? 1 : 2);
      case Specials::nan_is_negative_zero:
      case Specials::none: break;
    }
    return magnitude_mask() + (twos_complement && negative ? 1 : 0);
  }
  // floor(log2) of the largest finite value.
  constexpr int max_exponent() const noexcept {
    const Code field = max_magnitude() >> mantissa_bits;
    if (is_integer()) return bit_length(max_magnitude()) - 1 + min_quantum_exponent();
    return static_cast<int>(field) - bias;
  }

  constexpr Code with_sign(Code magnitude, bool negative) const noexcept {
    if (!negative) return magnitude;
    return twos_complement ? (0 - magnitude) & code_mask() : magnitude | sign_mask();
  }
  constexpr Code zero_code(bool negative = false) const noexcept {
    return negative && has_negative_zero() ? sign_mask() : 0;
  }
  constexpr Code max_code(bool negative = false) const noexcept {
    if (negative && !has_sign) return 0;
    return with_sign(max_magnitude(negative), negative);
  }
  // Ask has_infinity() first.
  constexpr Code infinity_code(bool negative = false) const noexcept {
    return with_sign(max_magnitude() + 1, negative);
  }
  // The canonical NaN: every bit below the sign set (what NVIDIA hardware returns), or the code of -0 (fnuz, P3109).
  // Ask has_nan() first.
  constexpr Code nan_code(bool negative = false) const noexcept {
    if (has_nan_at_negative_zero()) return sign_mask();
    return with_sign(magnitude_mask(), negative && has_sign);
  }

  // Whether double holds every finite value, as decode promises.
  constexpr bool is_valid() const noexcept {
    if (exponent_bits < 0 || exponent_bits > 11 || mantissa_bits < 0 || mantissa_bits > 52) return false;
    // No such bias is left within double's range; the sums below cannot overflow with the others.
    if (bias < -4096 || bias > 4096) return false;
    if (width() < 2 || (twos_complement && !is_integer())) return false;
    if (is_integer() && (twos_complement != has_sign || !has_zero || specials != Specials::none)) return false;
    if (specials == Specials::inf_and_nan && mantissa_bits == 0) return false;
    if (specials == Specials::nan_is_negative_zero && !has_sign) return false;
    if (specials == Specials::extended && (!has_zero || width() < 3)) return false;
    return max_exponent() <= 1023 && min_quantum_exponent() >= -1074;
  }
};

// An IEEE-like format: bias 2^(e-1) - 1, Inf and NaN at the top.
constexpr Format ieee(int exponent_bits, int mantissa_bits) noexcept {
  return {exponent_bits, mantissa_bits, (1 << (exponent_bits - 1)) - 1, Specials::inf_and_nan};
}
// The same layout with other top codes, as the OCP formats have them.
constexpr Format finite(int exponent_bits, int mantissa_bits, Specials specials) noexcept {
  return {exponent_bits, mantissa_bits, (1 << (exponent_bits - 1)) - 1, specials};
}
// "fnuz": the only NaN is where -0 would be, and the bias is one more, as Graphcore and AMD have them.
constexpr Format negative_zero_is_nan(int exponent_bits, int mantissa_bits) noexcept {
  return {exponent_bits, mantissa_bits, 1 << (exponent_bits - 1), Specials::nan_is_negative_zero};
}

// Integers from -2^(bits-1) on, or from 0 on without a sign: the bias makes the quantum 2^(1 - bias - mantissa_bits) 1.
constexpr Format integer(int bits, bool has_sign) noexcept {
  const int below_sign = bits - (has_sign ? 1 : 0);
  return {0, below_sign, 1 - below_sign, Specials::none, has_sign, true, has_sign};
}
// IEEE P3109 (draft 4.0) of `bits` bits, of which precision - 1 store the significand; extended: with Inf.
constexpr Format p3109(int bits, int precision, bool has_sign, bool extended) noexcept {
  const int exponent_bits = bits - precision + (has_sign ? 0 : 1);
  const int bias = exponent_bits >= 1 && exponent_bits <= 11 ? 1 << (exponent_bits - 1) : 0;
  const Specials finite = has_sign ? Specials::nan_is_negative_zero : Specials::nan_only;
  return {exponent_bits, precision - 1, bias, extended ? Specials::extended : finite, has_sign};
}

}  // namespace narrow
