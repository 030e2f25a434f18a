// Inputs for tensor-core instructions by number: a pure function of (seed, instruction, tile, place), so that the
// device makes them in billions and any machine makes the same ones again. Adversarial families, one a tile.
#pragma once

#include "narrow/base/random.hpp"
#include "narrow/format/decode.hpp"

namespace narrow {

enum class TileFamily : std::uint8_t {
  any_bits,  // NaN and Inf among them
  any_finite,
  near_one,      // exponents within three binades
  window,        // exponents within a random window at a random place
  tiny_results,  // products around the end of the accumulator's range
  few_bits,      // one or two mantissa bits: ties, exact cancellation
  huge_results,  // products around the largest value of the accumulator
  zeros,         // half of the operands are zero, beside any partner
  cancellation,  // neighbours in k cancel but for a unit in the last place
  one_huge,      // one operand of a line is far above the others
  large_addend,
  ties,      // few bits, and an addend whose last place is where the products are
  specials,  // Inf and NaN about once a line
  subnormals,
  carries,        // every mantissa bit set, one sign
  rare_specials,  // an Inf here and there, with zeros that make it NaN
  floor_ladder,   // one tile of its own: see ladder_tile
};
inline constexpr int tile_families = 16;  // of the tiles by number; the ladder is not among them

// How low the largest exponent can be: two products and a zero addend, the first at the end of the accumulator's range,
// the second 2^-1, 2^-2, .. 2^-64 of it from row to row. Only while the second is not cut does it move the rounding of
// the first, so the row where that ends tells the floor.
//   to nearest   2^(q - 1) + 2^-k: 2^q while 2^-k is kept, else a tie that goes to 0      q: quantum of the accumulator
//   toward zero  2^q       - 2^-k: 0 while 2^-k is kept, else 2^q
inline constexpr std::uint64_t ladder_tile = 1ull << 40;

// The rule for scale-d = 0 (wgmma): in the last of every eight rounds through the families, c counts as zero.
constexpr bool tile_drops_addend(std::uint64_t tile) noexcept { return tile / tile_families % 8 == 7; }

struct TileFormats {
  Format a, b, c;
};

struct TilePlan {
  std::uint64_t key = 0;
  TileFamily family = TileFamily::any_bits;
  int centre_a = 0, centre_b = 0, width = 0;  // exponents are centre - 0 .. width
  int addend_low = -30, addend_high = 8;      // exponent of c, from the sum of the centres
  int step_a = 0, step_b = 0;                 // ladder: exponents of the second product's factors in row 0
};

namespace detail {

// A value between low and high, both included.
constexpr int between(std::uint64_t random, int low, int high) noexcept {
  return low + static_cast<int>(random % static_cast<std::uint64_t>(high - low + 1));
}

constexpr int clamp_exponent(int exponent, const Format& f) noexcept {
  const int low = f.min_quantum_exponent(), high = f.max_exponent();
  return exponent < low ? low : exponent > high ? high : exponent;
}

// (-1)^negative * 1.mantissa * 2^exponent, cut where it is subnormal, the largest finite value where it is beyond.
constexpr Code code_near(const Format& f, bool negative, int exponent, Code mantissa) noexcept {
  if (f.is_integer()) return mantissa & f.code_mask();
  const Code significand = (mantissa & f.mantissa_mask()) | 1ull << f.mantissa_bits;
  Code magnitude = 0;
  if (exponent < f.min_exponent()) magnitude = shift_right(significand, f.min_exponent() - exponent);
  else magnitude = (static_cast<Code>(exponent - f.min_exponent()) << f.mantissa_bits) + significand;
  if (magnitude > f.max_magnitude()) magnitude = f.max_magnitude();
  return negative ? magnitude | f.sign_mask() : magnitude;
}

constexpr Code special_near(const Format& f, std::uint64_t random) noexcept {
  if (f.has_infinity())
    return f.infinity_code((random & 1) != 0) | ((random & 6) == 0 ? (random >> 8 & f.mantissa_mask()) | 1 : 0);
  return f.has_nan() ? f.nan_code((random & 1) != 0) : f.max_code((random & 1) != 0);
}

// FP16 accumulators round to nearest, the others toward zero.
constexpr TilePlan plan_ladder(const TileFormats& f) noexcept {
  TilePlan p;
  p.family = TileFamily::floor_ladder;
  const bool nearest = f.c.mantissa_bits == 10;
  const int first = f.c.min_quantum_exponent() - (nearest ? 1 : 0), lowest_b = f.b.min_quantum_exponent();
  p.centre_a = first / 2, p.centre_b = first - p.centre_a;
  p.step_b = lowest_b < first / 2 - 1 ? (lowest_b > -75 ? lowest_b : -75) : lowest_b;
  p.step_a = first - 1 - p.step_b;
  p.width = nearest ? 0 : 1;  // the second product is negative
  return p;
}

// Even k hold the first factor of every row, odd ones the second; B picks one of each, another pair in every column.
constexpr Code ladder_operand(const TilePlan& p, const Format& f, bool is_b, int line, int k, int products) noexcept {
  if (f.is_integer()) return 0;
  const bool second = (k & 1) != 0;
  if (!is_b) return code_near(f, second && p.width != 0, second ? p.step_a - line : p.centre_a, 0);
  const int pairs = products / 2, chosen = second ? line / pairs % pairs : line % pairs;
  return k / 2 == chosen ? code_near(f, false, second ? p.step_b : p.centre_b, 0) : f.zero_code((line & 4) != 0);
}

}  // namespace detail

// Whether products of these types reach the end of the accumulator's range: the ladder has two rungs at least.
constexpr bool ladder_reaches(const TileFormats& f) noexcept {
  if (f.c.is_integer()) return false;
  const TilePlan p = detail::plan_ladder(f);
  return p.centre_a >= f.a.min_quantum_exponent() && p.centre_b >= f.b.min_quantum_exponent() &&
         p.step_a - 1 >= f.a.min_quantum_exponent() && p.step_a <= f.a.max_exponent();
}

constexpr TilePlan plan_tile(const TileFormats& f, std::uint64_t seed, std::uint64_t instruction,
                             std::uint64_t tile) noexcept {
  using enum TileFamily;
  TilePlan p;
  p.key = mix_bits(random_bits(seed, instruction) + mix_bits(tile));
  if (tile == ladder_tile) return detail::plan_ladder(f);
  p.family = static_cast<TileFamily>(tile % tile_families);
  const std::uint64_t r = mix_bits(p.key);
  const auto random = [&](int shift, int low, int high) { return detail::between(r >> shift & 0xFFFF, low, high); };
  const int lowest = f.c.min_exponent(), highest = f.c.max_exponent();
  int target = 0;  // exponent of the products
  switch (p.family) {
    case near_one: p.width = 3; break;
    case window:
      target = random(0, f.a.min_exponent() + f.b.min_exponent(), f.a.max_exponent() + f.b.max_exponent()),
      p.width = random(16, 0, 33);
      break;
    case tiny_results: target = random(0, lowest - 34, lowest + 8), p.width = random(16, 0, 12); break;
    case few_bits: target = random(0, -6, 6), p.width = random(16, 0, 13); break;
    case huge_results: target = random(0, highest - 6, highest + 4), p.width = random(16, 0, 6); break;
    case cancellation: target = random(0, -20, 10), p.width = random(16, 0, 8); break;
    case one_huge: target = random(0, -20, 4), p.width = random(16, 0, 4); break;
    case large_addend: p.width = 6, p.addend_low = 0, p.addend_high = 34; break;
    case ties:
      target = random(0, -12, 0), p.width = random(16, 0, 3);
      p.addend_low = f.c.mantissa_bits - 2, p.addend_high = f.c.mantissa_bits + 4;
      break;
    case specials: p.width = 8; break;
    case rare_specials: p.width = 8; break;
    case subnormals: target = f.a.min_exponent() + f.b.min_exponent(), p.width = 4; break;
    case carries: target = random(0, lowest - 6, highest), p.addend_low = -2, p.addend_high = 4; break;
    default: break;
  }
  // The target is split unevenly, and what one range cannot take the other must.
  const int skew = random(32, -6, 6);
  p.centre_a = detail::clamp_exponent(target / 2 + skew, f.a);
  p.centre_b = detail::clamp_exponent(target - p.centre_a, f.b);
  if (p.family == subnormals)
    p.centre_a = f.a.min_exponent() + random(32, -1, 1), p.centre_b = f.b.min_exponent() + random(40, -1, 1);
  return p;
}

// The code of an operand: line is the row of A or the column of B; products: of one output.
constexpr Code tile_operand(const TilePlan& p, const Format& f, bool is_b, int line, int k, int products) noexcept {
  using enum TileFamily;
  if (p.family == floor_ladder) return detail::ladder_operand(p, f, is_b, line, k, products);
  const std::uint64_t lane = p.key + (is_b ? 0x5851F42D4C957F2Dull : 0);
  const bool second = p.family == cancellation && (k & 1) != 0;  // the partner of k - 1
  const std::uint64_t r =
      random_bits(lane, static_cast<std::uint64_t>(line) * 1024 + static_cast<std::uint64_t>(second ? k - 1 : k));
  if (p.family == any_bits || f.is_integer()) return r & f.code_mask();
  bool negative = (r >> 63) != 0;
  Code mantissa = f.mantissa_bits > 30 ? mix_bits(r) : r & f.mantissa_mask();
  int exponent = (is_b ? p.centre_b : p.centre_a) - detail::between(r >> 40 & 0xFFFF, 0, p.width);
  switch (p.family) {
    case any_finite:
    case zeros:
      if (p.family == zeros && (r >> 62 & 1) != 0) return f.zero_code(negative);
      exponent = detail::between(r >> 40 & 0xFFFF, f.min_exponent() - 1, f.max_exponent());
      break;
    case few_bits:
    case ties: mantissa = (r >> 58 & 1) != 0 ? 1ull << (mantissa % static_cast<Code>(f.mantissa_bits)) : 0; break;
    case one_huge:
      if (static_cast<int>(random_bits(lane, static_cast<std::uint64_t>(line) + 1'000'000) % 16) == k % 16)
        exponent += 4 + static_cast<int>(r >> 56 & 15);
      break;
    case specials:
      if ((r >> 56 & 15) == 0) return detail::special_near(f, r >> 20);
      break;
    case rare_specials:
      if ((r >> 54 & 255) == 0) return detail::special_near(f, r >> 20);
      if ((r >> 54 & 7) == 1) return f.zero_code(negative);
      break;
    case carries: mantissa = f.mantissa_mask(), negative = (p.key & 4) != 0 && is_b; break;
    default: break;
  }
  Code code = detail::code_near(f, negative, exponent, mantissa);
  if (second) {  // -a beside a and b beside b, one in four a unit off
    const std::uint64_t s = random_bits(lane, static_cast<std::uint64_t>(line) * 1024 + static_cast<std::uint64_t>(k));
    if (!is_b) code ^= f.sign_mask();
    if ((s & 3) == 0) code ^= 1;
    if (is_nan(code, f) || is_inf(code, f)) code ^= 1;
  }
  return code;
}

constexpr Code tile_addend(const TilePlan& p, const Format& f, int row, int column) noexcept {
  using enum TileFamily;
  if (p.family == floor_ladder) return f.zero_code((column & 1) != 0 && f.has_sign && !f.is_integer());
  const std::uint64_t r = random_bits(p.key + 0x14057B7EF767814Full,
                                      static_cast<std::uint64_t>(row) * 1024 + static_cast<std::uint64_t>(column));
  if (p.family == any_bits || f.is_integer()) return r & f.code_mask();
  bool negative = (r >> 63) != 0;
  if ((r >> 59 & 15) == 0) return f.zero_code(negative);
  Code mantissa = f.mantissa_bits > 30 ? mix_bits(r) : r & f.mantissa_mask();
  int exponent = p.centre_a + p.centre_b + detail::between(r >> 32 & 0xFFFF, p.addend_low, p.addend_high);
  if (p.family == any_finite || p.family == zeros)
    exponent = detail::between(r >> 32 & 0xFFFF, f.min_exponent() - 1, f.max_exponent());
  if (p.family == specials && (r >> 52 & 31) == 0) return detail::special_near(f, r >> 20);
  if (p.family == few_bits) mantissa = 1ull << (mantissa % static_cast<Code>(f.mantissa_bits));
  if (p.family == carries) mantissa = f.mantissa_mask(), negative = (p.key & 4) != 0;
  return detail::code_near(f, negative, exponent, mantissa);
}

}  // namespace narrow
