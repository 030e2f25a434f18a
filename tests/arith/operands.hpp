// Codes that are hard for arithmetic: cancellations, ties, seams, and results at both ends of the range.
#pragma once

#include <algorithm>

#include "support/inputs.hpp"

namespace test {

// A stream of random words.
struct Draw {
  std::uint64_t state;
  std::uint64_t next() { return state = mix(state); }
  std::uint64_t below(std::uint64_t n) { return (next() >> 8) % n; }
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<std::uint64_t>(high - low + 1))); }
};

inline int top_field(const narrow::Format& f) {
  return static_cast<int>(oracle::largest_magnitude(f, false) >> f.mantissa_bits);
}

// Integers have one field of bits only: any code stands for any request.
inline oracle::Code make_code(bool negative, int field, std::uint64_t mantissa, const narrow::Format& f) {
  const auto in_range = static_cast<oracle::Code>(std::clamp(field, 0, top_field(f)));
  const oracle::Code magnitude = in_range << f.mantissa_bits | (mantissa & oracle::ones(f.mantissa_bits));
  return negative ? magnitude | oracle::sign_bit(f) : magnitude;
}

inline int field_of(oracle::Code code, const narrow::Format& f) {
  return static_cast<int>((code & oracle::below_sign(f)) >> f.mantissa_bits);
}

// A mantissa with few ones, few zeros, one long run, or anything.
inline std::uint64_t mantissa(Draw& draw, const narrow::Format& f) {
  const std::uint64_t all = oracle::ones(f.mantissa_bits), r = draw.next();
  if (f.mantissa_bits == 0) return 0;
  const int place = draw.between(0, f.mantissa_bits - 1);
  switch (draw.below(5)) {
    case 0: return std::uint64_t{1} << place;
    case 1: return all ^ (std::uint64_t{1} << place);
    case 2: return oracle::ones(place);
    case 3: return r & all & ~oracle::ones(place);
    default: return r & all;
  }
}

// Zeros, the ends of the subnormals and of the normals, one, the specials, and their neighbours.
inline oracle::Code seam(Draw& draw, const narrow::Format& f) {
  const oracle::Code one = oracle::Code{1} << f.mantissa_bits, largest = oracle::largest_magnitude(f, false);
  const oracle::Code places[] = {0,       one,
                                 2 * one, static_cast<oracle::Code>(std::max(f.bias, 0)) << f.mantissa_bits,
                                 largest, oracle::below_sign(f)};
  const oracle::Code near = places[draw.below(6)] + draw.below(5) - 2;
  return (near & oracle::below_sign(f)) | (draw.below(2) != 0 ? oracle::sign_bit(f) : 0);
}

inline oracle::Code anything(Draw& draw, const narrow::Format& f) {
  return draw.next() & oracle::ones(oracle::width(f));
}

struct Pair {
  oracle::Code a, b;
};

inline Pair hard_pair(std::uint64_t index, const narrow::Format& f) {
  Draw draw{mix(index)};
  const bool s = draw.below(2) != 0, t = draw.below(2) != 0;
  const int m = f.mantissa_bits, any = draw.between(0, top_field(f)), near_one = draw.between(f.bias - 2, f.bias + 2);
  const int few = draw.between(-3, 3);
  switch (index % 8) {
    case 0: return {anything(draw, f), anything(draw, f)};
    case 1: {  // a few units apart, often of unlike signs
      const oracle::Code a = anything(draw, f);
      return {a, ((a + draw.below(5) - 2) & oracle::below_sign(f)) | (t ? oracle::sign_bit(f) : 0)};
    }
    case 2: return {seam(draw, f), seam(draw, f)};
    case 3:  // the smaller one lies around the last bit of the larger: ties and near ties of sums
      return {make_code(s, any, mantissa(draw, f), f), make_code(t, any - m - 1 + few, mantissa(draw, f), f)};
    case 4: return {make_code(s, near_one, mantissa(draw, f), f), make_code(t, near_one + few, mantissa(draw, f), f)};
    case 5:  // the product lies around the smallest values
      return {make_code(s, any, mantissa(draw, f), f),
              make_code(t, f.bias + oracle::min_exponent(f) - (any - f.bias) + few - draw.between(0, m),
                        mantissa(draw, f), f)};
    case 6:  // the product lies around the largest value
      return {make_code(s, any, mantissa(draw, f), f),
              make_code(t, top_field(f) - (any - f.bias) + few, mantissa(draw, f), f)};
    default: return {seam(draw, f), make_code(t, any, mantissa(draw, f), f)};
  }
}

struct Triple {
  oracle::Code a, b, c;
};

// The product's exponent is known from the fields, so the third operand can be put where it hurts.
inline Triple hard_triple(std::uint64_t index, const narrow::Format& f) {
  Draw draw{mix(~index)};
  const Pair p = hard_pair(draw.next(), f);
  const int m = f.mantissa_bits, field = field_of(p.a, f) + field_of(p.b, f) - f.bias;
  const bool t = draw.below(2) != 0;
  switch (index % 5) {
    case 0: return {p.a, p.b, anything(draw, f)};
    case 1: return {p.a, p.b, make_code(t, field + draw.between(-2, 2), mantissa(draw, f), f)};             // cancels
    case 2: return {p.a, p.b, make_code(t, field - m + draw.between(-3, 3), mantissa(draw, f), f)};         // ties
    case 3: return {p.a, p.b, make_code(t, field + draw.between(m - 2, 2 * m + 6), mantissa(draw, f), f)};  // absorbs
    default: return {p.a, p.b, seam(draw, f)};                                                              // tiny
  }
}

}  // namespace test
