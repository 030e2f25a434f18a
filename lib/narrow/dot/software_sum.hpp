// Dot products as software adds them, every operation rounded to nearest even in the accumulator's format.
#pragma once

#include <bit>
#include <span>
#include <vector>

#include "narrow/arith/arith.hpp"
#include "narrow/dot/model.hpp"

namespace narrow::detail {

// The product of codes of two formats, rounded once in a third.
constexpr Code product_in(Code a, const Format& fa, Code b, const Format& fb, const Format& f) noexcept {
  const Unpacked x = unpack(a, fa), y = unpack(b, fb);
  if (x.is_nan() || y.is_nan() || (x.is_inf() && y.is_zero()) || (x.is_zero() && y.is_inf())) return invalid(f, {});
  if (x.is_inf() || y.is_inf()) return infinity_to(x.negative != y.negative, f, {});
  return round_exact(exact_product(x, y), f, {});
}

// a * b + c with one rounding; c is a code of f.
constexpr Code fma_in(Code a, const Format& fa, Code b, const Format& fb, Code c, const Format& f) noexcept {
  const Unpacked x = unpack(a, fa), y = unpack(b, fb), z = unpack(c, f);
  if (x.is_nan() || y.is_nan() || z.is_nan() || (x.is_inf() && y.is_zero()) || (x.is_zero() && y.is_inf()))
    return invalid(f, {});
  const bool negative = x.negative != y.negative, product_is_inf = x.is_inf() || y.is_inf();
  if (product_is_inf && z.is_inf() && negative != z.negative) return invalid(f, {});
  if (product_is_inf || z.is_inf()) return infinity_to(product_is_inf ? negative : z.negative, f, {});
  return round_exact(exact_sum(exact_product(x, y), to_exact(z), zero_sum_is_negative(negative, z.negative, {})), f, {});
}

// A balanced tree: the first half of the terms (rounded up to a power of two) and the rest, each summed alike.
inline Code pairwise_sum(std::span<const Code> terms, const Format& f) {
  if (terms.size() <= 1) return terms.empty() ? f.zero_code() : terms[0];
  const std::size_t half = std::bit_ceil(terms.size()) / 2;
  return add(pairwise_sum(terms.first(half), f), pairwise_sum(terms.subspan(half), f), f);
}

// Kahan: the part of each product that a sum could not hold is kept and taken from the next one.
//   y = p - lost;  t = sum + y;  lost = (t - sum) - y
struct KahanSum {
  Code sum, lost;
  constexpr void add_product(Code p, const Format& f) noexcept {
    const Code y = sub(p, lost, f), t = add(sum, y, f);
    lost = sub(sub(t, sum, f), y, f);
    sum = t;
  }
};

}  // namespace narrow::detail
