// What both ways to reduce agree on: pieces, the ranks beyond a power of two, what goes into the first rounding and
// what it leaves behind, and the streams of random bits.
#pragma once

#include <bit>
#include <cmath>

#include "narrow/base/error.hpp"
#include "narrow/cluster/reduce.hpp"
#include "narrow/tensor/seed_at.hpp"

namespace narrow::cluster {

constexpr std::size_t pieces_of(Algorithm a, std::size_t ranks) noexcept {
  return a == Algorithm::ring || a == Algorithm::fp32_once ? ranks : 1;
}

// Recursive doubling: 2^m places; the first `folded` of them are pairs of ranks, held by the odd one.
struct Places {
  explicit constexpr Places(std::size_t ranks) : count(std::bit_floor(ranks)), folded(ranks - count) {}
  constexpr std::size_t holder(std::size_t place) const { return place < folded ? 2 * place + 1 : place + folded; }

  std::size_t count, folded;
};

// Streams: one for the first rounding of each rank, one for each sum. `first`: the index of values[0] in the array.
inline std::uint64_t own_stream(const ReduceRequest& r, std::size_t rank, std::size_t first) {
  return seed_at(random_bits(~r.seed, rank), first);
}
inline std::uint64_t sum_stream(const ReduceRequest& r, std::uint64_t sum, std::size_t first) {
  return seed_at(random_bits(r.seed, sum), first);
}

inline void divide(std::span<float> values, std::size_t ranks, const ReduceRequest& r) {
  if (!r.mean) return;
  const auto count = static_cast<float>(ranks);
  for (float& x : values) x /= count;
}

inline void add(std::span<float> to, std::span<const float> from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

inline void keep_lost(std::span<float> lost, std::span<const float> before, std::span<const float> after) {
  for (std::size_t i = 0; i < lost.size(); ++i) {
    const float e = before[i] - after[i];
    lost[i] = std::isfinite(e) ? e : 0;
  }
}

}  // namespace narrow::cluster
