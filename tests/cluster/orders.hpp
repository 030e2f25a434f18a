// The orders of all-reduce written out once more, element by element, and arrays to be added: for plain formats here,
// for block formats by rounding a whole piece.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "narrow/base/random.hpp"
#include "narrow/cluster/reduce.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/scale/quantise.hpp"

namespace test {

using Arrays = std::vector<std::vector<float>>;
using narrow::cluster::Algorithm;

constexpr Algorithm fixed_orders[] = {Algorithm::ring, Algorithm::tree, Algorithm::recursive_doubling,
                                      Algorithm::fp32_once, Algorithm::linear};

// special: every 13th element is an Inf, a NaN or a zero on some rank.
inline Arrays make_ranks(std::size_t ranks, std::size_t n, bool special = false) {
  Arrays all(ranks, std::vector<float>(n));
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t bits = narrow::random_bits(r, i);
      all[r][i] = static_cast<float>(static_cast<std::int64_t>(bits >> 40) - (1 << 23)) * 0x1p-20f;
      constexpr float inf = std::numeric_limits<float>::infinity();
      if (special && i % 13 == 0)
        all[r][i] = bits % 4 == 0 ? inf : bits % 4 == 1 ? -inf : bits % 4 == 2 ? std::nanf("77") : -0.0f;
    }
  return all;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

using Array = std::vector<float>;
using Round = std::function<Array(const Array&)>;

inline Round rounding_of(const narrow::cluster::Wire& wire) {
  return [wire](const Array& x) {
    Array y(x.size());
    if (wire.blocks && !x.empty()) y = narrow::dequantise(narrow::quantise(x, 1, x.size(), *wire.blocks));
    else
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = narrow::round_to(x[i], wire.format, wire.cast);
    for (float& v : y)
      if (v != v) v = std::numeric_limits<float>::quiet_NaN();
    return y;
  };
}

inline Array plus(Array a, const Array& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = a[i] + b[i];
  return a;
}

// One piece of all ranks, rounded already, by the picture of each algorithm. own[r]: that of rank r.
inline Array sum_of_piece(Algorithm algorithm, const Arrays& own, std::size_t piece, const Round& round) {
  const std::size_t n = own.size();
  if (algorithm == Algorithm::ring) {
    Array sum = own[(piece + 1) % n];
    for (std::size_t r = piece + 2; r <= piece + n; ++r) sum = round(plus(sum, own[r % n]));
    return sum;
  }
  if (algorithm == Algorithm::fp32_once) {
    Array sum = own[piece];
    for (std::size_t r = piece + 1; r < piece + n; ++r) sum = plus(sum, own[r % n]);
    return round(sum);
  }
  if (algorithm == Algorithm::linear) {
    Array sum = own[0];
    for (std::size_t r = 1; r < n; ++r) sum = round(plus(sum, own[r]));
    return sum;
  }
  Arrays row = own;
  if (algorithm == Algorithm::recursive_doubling) {
    std::size_t power = 1;
    while (power * 2 <= n) power *= 2;
    row.clear();
    for (std::size_t r = 0; r < n; ++r)
      if (r < 2 * (n - power)) row.push_back(round(plus(own[r], own[r + 1]))), ++r;
      else row.push_back(own[r]);
  }
  while (row.size() > 1) {  // neighbours; the last may be alone
    Arrays next;
    for (std::size_t k = 0; k < row.size(); k += 2)
      next.push_back(k + 1 < row.size() ? round(plus(row[k], row[k + 1])) : row[k]);
    row = next;
  }
  return row[0];
}

inline Array expected_sum(const Arrays& ranks, const narrow::cluster::ReduceRequest& request) {
  const std::size_t n = ranks.size(), size = ranks[0].size();
  if (n == 1) return ranks[0];
  const Round round = rounding_of(request.wire);
  const bool cut = request.algorithm == Algorithm::ring || request.algorithm == Algorithm::fp32_once;
  const std::size_t pieces = cut ? n : 1;
  Array all;
  for (std::size_t c = 0; c < pieces; ++c) {
    Arrays own;
    for (const Array& rank : ranks) {
      Array part(rank.begin() + static_cast<std::ptrdiff_t>(c * size / pieces),
                 rank.begin() + static_cast<std::ptrdiff_t>((c + 1) * size / pieces));
      if (request.mean)
        for (float& x : part) x = x / static_cast<float>(n);
      own.push_back(round(part));
    }
    const Array sum = sum_of_piece(request.algorithm, own, c, round);
    all.insert(all.end(), sum.begin(), sum.end());
  }
  return all;
}

}  // namespace test
