// The loop over a part of an array: full blocks in lanes, blocks with Inf or NaN and the tail one by one.
#pragma once

#include <array>
#include <span>
#include <type_traits>

#include "narrow/array/cast_lanes_simd.hpp"
#include "narrow/base/random.hpp"

namespace narrow::detail {

// Four vectors keep four vector pipes busy while each waits for its additions.
inline constexpr int block_vectors = 4;
inline constexpr std::size_t block_size = block_vectors * lane_count;

// Where the scalar function finds everything it needs for element i of the whole array.
struct CastJob {
  Format format;
  Cast cast;
  std::uint64_t seed;
  RoundPlan plan;
  std::size_t first = 0;  // index in the whole array of what the pointers call element 0
};

inline std::uint64_t element_random(const CastJob& job, std::size_t index) noexcept {
  return job.cast.rounding == Rounding::stochastic ? random_bits(job.seed, job.first + index) : 0;
}

// The random words of a block, the bits that count moved to the top.
inline void fill_random(std::array<std::uint32_t, block_size>& words, const CastJob& job, std::size_t index) noexcept {
  const int shift = 32 - job.cast.random_bits;
  for (std::size_t k = 0; k < block_size; ++k)
    words[k] = static_cast<std::uint32_t>(random_bits(job.seed, job.first + index + k)) << shift;
}

// Inf and NaN (and for powers of two the subnormals) are left to the scalar functions.
template <Way W>
bool has_special_lane(const WordLanes (&x)[block_vectors]) noexcept {
  const WordLanes top = larger(larger(magnitude(x[0]), magnitude(x[1])), larger(magnitude(x[2]), magnitude(x[3])));
  WordLanes special = above(top, splat(0x7F7FFFFF));
  if constexpr (W == Way::power)
    for (const WordLanes word : x) {
      const WordLanes a = magnitude(word);
      special |= above(splat(0x00800000), a) & above(a, WordLanes{});
    }
  return any(special);
}

// Out is float (values) or the type of the codes. in and out may be the same memory: a block is read before it is written.
template <class Out>
Out cast_one(float x, const CastJob& job, std::size_t index) noexcept {
  if constexpr (std::is_same_v<Out, float>) return round_to(x, job.format, job.cast, element_random(job, index));
  else return static_cast<Out>(encode(x, job.format, job.cast, element_random(job, index)));
}

template <class Out, Way W, Rounding R, Finish F>
void cast_part(const float* in, Out* out, std::size_t begin, std::size_t end, const CastJob& job) noexcept {
  constexpr bool value = std::is_same_v<Out, float>;
  const RoundPlan plan = job.plan;  // a copy: stores through out cannot change it
  RandomLanes random{WordLanes{}, ~0u << ((32 - job.cast.random_bits) & 31)};
  std::array<std::uint32_t, block_size> random_words{};
  std::size_t i = begin;
  for (; i + block_size <= end; i += block_size) {
    WordLanes x[block_vectors];
    for (int k = 0; k < block_vectors; ++k) x[k] = load(in + i + k * lane_count);
    if (has_special_lane<W>(x)) [[unlikely]] {
      for (std::size_t k = i; k < i + block_size; ++k) out[k] = cast_one<Out>(in[k], job, k);
      continue;
    }
    if constexpr (W == Way::half) {
      for (int k = 0; k < block_vectors; ++k) {
        const HalfLanes half = to_half(x[k]);
        if constexpr (value) store(out + i + k * lane_count, from_half(half));
        else store(out + i + k * lane_count, half);
      }
      continue;
    }
    if constexpr (R == Rounding::stochastic) fill_random(random_words, job, i);
    for (int k = 0; k < block_vectors; ++k) {
      if constexpr (R == Rounding::stochastic)
        std::memcpy(&random.top, random_words.data() + k * lane_count, sizeof random.top);
      x[k] = cast_lanes<value, W, R, F>(x[k], plan, random);
    }
    store_narrow(out + i, x);
  }
  for (; i < end; ++i) out[i] = cast_one<Out>(in[i], job, i);
}

}  // namespace narrow::detail
