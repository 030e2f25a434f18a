// Inputs of dot products that hurt: families of matrices, made so that every row times every column belongs to the
// family. A single dot product is a 1 x K times K x 1.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "narrow/dot/model.hpp"
#include "support/inputs.hpp"

namespace test {

using narrow::Code;
using narrow::DotModel;
using narrow::Format;

// Random numbers of our own, a sequence.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(mix(seed)) {}
  std::uint64_t bits() { return mix(state_++); }
  int below(int n) { return n <= 1 ? 0 : static_cast<int>(bits() % static_cast<std::uint64_t>(n)); }
  int between(int low, int high) { return high <= low ? low : low + below(high - low + 1); }
  bool one_in(int n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

enum class Family {
  any_bits,      // NaN and Inf as often as their codes
  finite,        // any finite code
  near_one,      // exponents -2 to 1
  window,        // exponents around the alignment limit: terms that are kept, cut and lost beside each other
  cancellation,  // pairs of products that cancel, some but for an ulp
  subnormal,     // one factor below the normal range, the other anything
  zeros,         // zeros whose partners are huge beside small products
  overflow,      // at the end of the range of the operands, of the products and of the accumulator
  ties,          // powers of two, so that sums lie on or next to the middle of two results
  chained,       // results of the same size as the addend: every step of a chain rounds
  tiny,          // sums around the floor of the largest exponent, next to the smallest results
  carry          // all mantissas full and of one sign: the largest sums that an adder must hold
};
inline constexpr Family families[] = {Family::any_bits,     Family::finite,    Family::near_one, Family::window,
                                      Family::cancellation, Family::subnormal, Family::zeros,    Family::overflow,
                                      Family::ties,         Family::chained,   Family::tiny,     Family::carry};
inline const char* name(Family f) {
  static constexpr const char* names[] = {"any bits", "finite",   "near one", "window",  "cancellation", "subnormal",
                                          "zeros",    "overflow", "ties",     "chained", "tiny",         "carry"};
  return names[static_cast<int>(f)];
}

// a: rows x k, row after row; b: k x cols, column after column; c: rows x cols, row after row.
struct Problem {
  std::size_t rows = 1, cols = 1, k = 0;
  std::vector<Code> a, b, c, scale_a, scale_b;

  std::span<const Code> row(std::size_t i) const { return std::span(a).subspan(i * k, k); }
  std::span<const Code> col(std::size_t j) const { return std::span(b).subspan(j * k, k); }
  std::size_t blocks(const DotModel& m) const {
    const auto block = static_cast<std::size_t>(std::max(m.scale_block, 1));
    return (k + block - 1) / block;
  }
  std::span<const Code> row_scales(const DotModel& m, std::size_t i) const {
    return m.is_block_scaled() ? std::span(scale_a).subspan(i * blocks(m), blocks(m)) : std::span<const Code>{};
  }
  std::span<const Code> col_scales(const DotModel& m, std::size_t j) const {
    return m.is_block_scaled() ? std::span(scale_b).subspan(j * blocks(m), blocks(m)) : std::span<const Code>{};
  }
};

inline int max_exponent(const Format& f) {
  return static_cast<int>(oracle::largest_magnitude(f, false) >> f.mantissa_bits) - f.bias;
}

// +-2^exponent * 1.mantissa, moved into the range of the format; below it a subnormal, at least the smallest.
inline Code code_of(const Format& f, bool negative, int exponent, Code mantissa) {
  const Code one = Code{1} << f.mantissa_bits;
  const int low = oracle::min_exponent(f);
  exponent = std::min(exponent, max_exponent(f));
  Code magnitude = 0;
  if (exponent >= low) {
    magnitude = static_cast<Code>(exponent + f.bias) << f.mantissa_bits | (mantissa & (one - 1));
  } else {
    const int down = low - exponent;
    magnitude = std::max<Code>(down > 60 ? 0 : (one | (mantissa & (one - 1))) >> down, 1);
  }
  magnitude = std::min(magnitude, oracle::largest_magnitude(f, false));
  return magnitude | (negative ? oracle::sign_bit(f) : 0);
}
// 2^exponent, clamped to the range.
inline Code power_code(const Format& f, bool negative, int exponent) {
  const int low = oracle::min_exponent(f) - f.mantissa_bits;
  if (exponent < oracle::min_exponent(f))
    return (Code{1} << std::max(0, exponent - low)) | (negative ? oracle::sign_bit(f) : 0);
  return code_of(f, negative, exponent, 0);
}
inline Code negated(Code code, const Format& f) {
  return (code & oracle::below_sign(f)) == 0 ? code : code ^ oracle::sign_bit(f);
}

inline Code any_code(Dice& dice, const Format& f) { return dice.bits() >> (64 - oracle::width(f)); }
inline Code finite_code(Dice& dice, const Format& f) {
  const Code magnitude = dice.bits() % (oracle::largest_magnitude(f, false) + 1);
  const bool negative = dice.one_in(2) && (magnitude != 0 || oracle::has_negative_zero(f));
  return magnitude | (negative ? oracle::sign_bit(f) : 0);
}
inline Code zero_code(Dice& dice, const Format& f) {
  return oracle::has_negative_zero(f) && dice.one_in(2) ? oracle::sign_bit(f) : 0;
}
// A mantissa with a random number of zeros at the end.
inline Code some_mantissa(Dice& dice, const Format& f) {
  return dice.bits() & oracle::ones(f.mantissa_bits) & ~oracle::ones(dice.between(0, f.mantissa_bits));
}
inline Code in_binades(Dice& dice, const Format& f, int low, int high) {
  return code_of(f, dice.one_in(2), dice.between(low, high), some_mantissa(dice, f));
}

// What a family needs to know of a row.
struct Range {
  Format a, b, acc, result;
  int kept;   // fraction bits that a term keeps below the largest
  int floor;  // of the largest exponent
  int scale;  // what the two scales of a block add to exponents in the family `tiny`
  explicit Range(const DotModel& m)
      : a(m.a.format),
        b(m.b.format),
        acc(m.accumulator.format),
        result(m.result),
        kept(m.fraction_bits > 0 ? m.fraction_bits : m.result.mantissa_bits + 1),
        floor(m.fraction_bits > 0 ? m.exponent_floor : oracle::min_exponent(acc)),
        scale(m.is_block_scaled() && !m.scale.has_sign ? m.exponent_floor / 2 * 2 : 0) {}
};

// The exponents of one k: where its a and its b are drawn from. The same for all rows and columns.
struct Place {
  int ea = 0, eb = 0, width = 0;
  bool zero_a = false, zero_b = false;
  int like = -1;  // repeats this k: the same a, b with the other sign
};

// An exponent that both formats can share so that ea + eb = e as nearly as they allow.
inline void share(Dice& dice, const Range& r, int e, Place& p) {
  const int low_a = oracle::min_exponent(r.a), high_a = max_exponent(r.a);
  const int low_b = oracle::min_exponent(r.b), high_b = max_exponent(r.b);
  const int low = std::max(low_a, e - high_b), high = std::min(high_a, e - low_b);
  p.ea = low <= high ? dice.between(low, high)
                     : (e < low_a + low_b ? std::max(e - low_b, low_a - r.a.mantissa_bits) : high_a);
  p.eb = std::clamp(e - p.ea, low_b - r.b.mantissa_bits, high_b);
}

inline std::vector<Place> places(Dice& dice, const Range& r, Family family, std::size_t k) {
  std::vector<Place> list(k);
  const int lowest = oracle::min_exponent(r.a) + oracle::min_exponent(r.b);
  const int highest = max_exponent(r.a) + max_exponent(r.b);
  const int acc_low = oracle::min_exponent(r.acc), acc_high = max_exponent(r.acc);
  const int smallest = acc_low - r.result.mantissa_bits;
  // Mostly in the middle, sometimes near the smallest results of the accumulator.
  int center = dice.between(std::max(lowest / 2, acc_low / 2), std::min(highest / 2, acc_high / 2));
  if (dice.one_in(3)) center = std::clamp(acc_low + dice.between(-12, 4), lowest, highest);
  const int spread = dice.between(0, r.kept + 8), reach = dice.one_in(3) ? 200 : 0;
  const int near[] = {0,
                      0,
                      -r.result.mantissa_bits,
                      -r.result.mantissa_bits - 1,
                      -r.result.mantissa_bits - 2,
                      -r.kept - 1,
                      -r.kept,
                      -r.kept + 1,
                      -1};
  for (std::size_t i = 0; i < k; ++i) {
    Place& p = list[i];
    switch (family) {
      case Family::near_one: p.ea = -2, p.eb = -2, p.width = 3; break;
      case Family::window: share(dice, r, center - dice.between(0, spread), p); break;
      case Family::cancellation:
        if (i % 2 == 1 && !dice.one_in(5)) p.like = static_cast<int>(i) - 1;
        else share(dice, r, center - dice.between(0, spread), p);
        break;
      case Family::subnormal:
        p.ea = oracle::min_exponent(r.a) - dice.between(0, r.a.mantissa_bits);
        p.eb = dice.one_in(2) ? oracle::min_exponent(r.b) - dice.between(0, r.b.mantissa_bits)
                              : dice.between(oracle::min_exponent(r.b), max_exponent(r.b));
        if (dice.one_in(2)) p.eb = acc_low - p.ea + dice.between(-10, 2);
        break;
      case Family::zeros:
        p.zero_a = dice.one_in(3);
        p.zero_b = !p.zero_a && dice.one_in(3);
        if (p.zero_a || p.zero_b) p.ea = max_exponent(r.a), p.eb = max_exponent(r.b);
        else share(dice, r, center - dice.between(0, 4), p);
        break;
      case Family::overflow:
        // Beyond the accumulator only in pairs that cancel; else single products that reach its end together.
        if (i % 2 == 1 && list[i - 1].ea + list[i - 1].eb >= acc_high - 2) p.like = static_cast<int>(i) - 1;
        else share(dice, r, std::min(highest, acc_high + reach) - dice.between(0, 6), p);
        break;
      case Family::ties: share(dice, r, center + near[dice.below(9)], p); break;
      case Family::chained: share(dice, r, center - dice.between(0, 2), p); break;
      case Family::carry:
        if (i == 0) share(dice, r, center, p);
        else p = list[0];
        break;
      case Family::tiny:
        // Multiples of the smallest result (or of half of it), now and then the last bit that the floor keeps.
        share(dice, r,
              (dice.one_in(8) ? r.floor - r.kept + dice.between(-2, 2) : smallest + dice.between(-1, 3)) - r.scale, p);
        break;
      default: break;
    }
  }
  return list;
}

inline Code operand(Dice& dice, const Format& f, Family family, bool zero, int e, int width) {
  if (family == Family::any_bits) return any_code(dice, f);
  if (family == Family::finite) return finite_code(dice, f);
  if (zero) return zero_code(dice, f);
  if (family == Family::ties || family == Family::tiny) {
    const bool one_more_bit = family == Family::ties && f.mantissa_bits > 0 && dice.one_in(6);
    const Code extra = one_more_bit ? Code{1} << dice.below(f.mantissa_bits) : 0;
    return extra == 0 ? power_code(f, dice.one_in(2), e) : code_of(f, dice.one_in(2), e, extra);
  }
  if (family == Family::carry) return code_of(f, false, e, oracle::ones(f.mantissa_bits) - (dice.one_in(8) ? 1 : 0));
  return in_binades(dice, f, e, e + width);
}

inline Code addend(Dice& dice, const Range& r, Family family, const std::vector<Place>& list) {
  const Format& f = r.acc;
  if (family == Family::any_bits) return any_code(dice, f);
  if (dice.one_in(family == Family::tiny ? 2 : 6)) return zero_code(dice, f);
  if (family == Family::finite) return finite_code(dice, f);
  int e = 0;  // the largest product's
  if (!list.empty()) {
    e = list[0].ea + list[0].eb;
    for (const Place& p : list)
      if (p.like < 0 && !p.zero_a && !p.zero_b) e = std::max(e, p.ea + p.eb);
  }
  switch (family) {
    case Family::tiny: return power_code(f, dice.one_in(2), oracle::min_exponent(f) - dice.between(0, f.mantissa_bits));
    case Family::subnormal: e = oracle::min_exponent(f) - dice.between(0, f.mantissa_bits); break;
    case Family::overflow: e = max_exponent(f) - dice.between(0, 1); break;
    case Family::ties: return power_code(f, dice.one_in(2), e - (dice.one_in(2) ? 0 : r.result.mantissa_bits + 1));
    case Family::chained: e += dice.between(-1, 3); break;
    case Family::carry: return code_of(f, dice.one_in(8), e + dice.below(2), oracle::ones(f.mantissa_bits));
    default: e += dice.between(-r.kept - 3, r.kept + 3); break;
  }
  return code_of(f, dice.one_in(2), e, dice.one_in(3) ? oracle::ones(f.mantissa_bits) : some_mantissa(dice, f));
}

// highest: the largest exponent of a product without scales.
inline Code scale_code(Dice& dice, const Format& f, Family family, int highest) {
  if (family == Family::any_bits) return dice.one_in(20) ? any_code(dice, f) : finite_code(dice, f);
  if (family == Family::finite) return finite_code(dice, f);
  if (family == Family::subnormal) return static_cast<Code>(dice.below(8));
  if (family == Family::overflow && f.has_sign)
    return oracle::largest_magnitude(f, false) - static_cast<Code>(dice.below(70));
  Code one = static_cast<Code>(f.bias) << f.mantissa_bits;
  if (family == Family::tiny && !f.has_sign) one -= 66;  // two of them: about the floor of FP32
  if (family == Family::overflow) one += static_cast<Code>((127 - highest) / 2);  // the products reach its end
  const int spread = family == Family::near_one || family == Family::tiny || family == Family::overflow ? 2 : 20;
  const Code sign = f.has_sign && dice.one_in(16) ? oracle::sign_bit(f) : 0;
  return (one + static_cast<Code>(spread) - static_cast<Code>(dice.below(2 * spread + 1))) | sign;
}

inline Problem integer_problem(const DotModel& m, Family family, Problem p, Dice& dice) {
  const bool extreme = family == Family::overflow || family == Family::ties;
  const auto byte = [&](bool is_signed) -> Code {
    const Code edges[] = {is_signed ? Code{0x80} : Code{0xFF}, is_signed ? Code{0x7F} : Code{0}};
    return extreme && !dice.one_in(4) ? edges[family == Family::ties ? dice.below(2) : 0] : dice.bits() & 0xFF;
  };
  for (Code& x : p.a) x = byte(m.a.format.has_sign);
  for (Code& x : p.b) x = byte(m.b.format.has_sign);
  for (Code& x : p.c) {
    x = dice.bits() & 0xFFFFFFFF;
    if (extreme) x = (dice.one_in(2) ? 0x7FFFFFFF - (x & 0xFFFFF) : 0x80000000 + (x & 0xFFFFF));
    if (family == Family::zeros) x = 0;
  }
  return p;
}

inline Problem make_problem(const DotModel& m, Family family, std::size_t rows, std::size_t cols, std::size_t k,
                            std::uint64_t seed) {
  Dice dice(seed);
  Problem p{rows, cols, k, std::vector<Code>(rows * k), std::vector<Code>(k * cols), std::vector<Code>(rows * cols),
            {},   {}};
  if (m.is_integer()) return integer_problem(m, family, std::move(p), dice);
  const Range r(m);
  const std::vector<Place> list = places(dice, r, family, k);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t x = 0; x < k; ++x) {
      const Place& at = list[x];
      Code& code = p.a[i * k + x];
      if (at.like < 0) {
        code = operand(dice, r.a, family, at.zero_a, at.ea, at.width);
      } else {
        code = p.a[i * k + x - 1];
        if (dice.one_in(4) && (code & oracle::below_sign(r.a)) > 1) --code;  // an ulp off
      }
    }
  for (std::size_t j = 0; j < cols; ++j)
    for (std::size_t x = 0; x < k; ++x) {
      const Place& at = list[x];
      p.b[j * k + x] =
          at.like < 0 ? operand(dice, r.b, family, at.zero_b, at.eb, at.width) : negated(p.b[j * k + x - 1], r.b);
    }
  // Outputs outnumber everything else: their addends come from a pool.
  std::vector<Code> pool(std::min<std::size_t>(rows * cols, 1021));
  for (Code& c : pool) c = addend(dice, r, family, list);
  for (std::size_t x = 0; x < p.c.size(); ++x) p.c[x] = pool[(x * 7 + x / pool.size()) % pool.size()];
  if (m.is_block_scaled()) {
    const int highest = max_exponent(r.a) + max_exponent(r.b);
    p.scale_a.resize(rows * p.blocks(m));
    p.scale_b.resize(cols * p.blocks(m));
    for (Code& s : p.scale_a) s = scale_code(dice, m.scale, family, highest);
    for (Code& s : p.scale_b) s = scale_code(dice, m.scale, family, highest);
  }
  return p;
}

// The rows of the table, one for each arithmetic.
inline std::vector<const DotModel*> distinct_models() {
  std::vector<const DotModel*> list;
  for (const DotModel& m : narrow::dot_models())
    if (std::none_of(list.begin(), list.end(), [&](const DotModel* x) { return narrow::same_arithmetic(*x, m); }))
      list.push_back(&m);
  return list;
}

}  // namespace test
