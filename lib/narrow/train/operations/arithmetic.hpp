// What stands between two operations of a policy: nothing, or a rounding. Code that is written with r(...) around every
// operation serves both; where r is Plain it runs in lanes.
#pragma once

#include <cmath>

#include "narrow/round/round_to.hpp"
#include "narrow/simd/carrier_lanes.hpp"
#include "narrow/train/policy/policy.hpp"

namespace narrow::train {

struct Plain {
  template <class V>
  V operator()(V x) const noexcept {
    return x;
  }
};

template <class T>
struct RoundEach {
  Format format;
  Cast cast;
  T operator()(T x) const noexcept { return round_to(x, format, cast); }
};

// body(r) with the rounding that the policy asks for.
template <class T, class Body>
void with_arithmetic(const Precision& arithmetic, const Body& body) {
  if (is_exact(arithmetic)) body(Plain{});
  else body(RoundEach<T>{arithmetic.format, arithmetic.cast});
}

// body(i, kind) over [0, n): lanes where nothing is rounded on the way.
template <class T, class R, class Body>
void for_elements(std::size_t n, const R&, const Body& body) {
  if constexpr (std::is_same_v<R, Plain>) for_lanes<T>(n, body);
  else
    for (std::size_t i = 0; i < n; ++i) body(i, T{});
}

// Sums have one order: term i joins sum i mod 8, the eight are joined as a tree: (s0 + s4) + (s2 + s6), ...
// term(i, kind) gives the terms from i on, as many as kind holds.
template <class T, class R, class Term>
T sum_of(std::size_t n, const R& r, const Term& term) {
  constexpr std::size_t chains = 8;
  T sums[chains] = {};
  std::size_t i = 0;
  if constexpr (std::is_same_v<R, Plain>) {
    constexpr std::size_t vectors = chains / lanes_of<T>;
    LanesOf<T> lanes[vectors] = {};
    for (; i + chains <= n; i += chains)
      for (std::size_t v = 0; v < vectors; ++v) lanes[v] += term(i + v * lanes_of<T>, LanesOf<T>{});
    std::memcpy(sums, lanes, sizeof sums);
  }
  for (; i < n; ++i) sums[i % chains] = r(sums[i % chains] + term(i, T{}));
  for (std::size_t half = chains / 2; half > 0; half /= 2)
    for (std::size_t j = 0; j < half; ++j) sums[j] = r(sums[j] + sums[j + half]);
  return sums[0];
}

}  // namespace narrow::train
