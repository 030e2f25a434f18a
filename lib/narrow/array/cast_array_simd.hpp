// The loop over a part of an array: full blocks in lanes, blocks with Inf or NaN and the tail one by one.
#pragma once

#include <array>
#include <span>
#include <type_traits>

#include "narrow/array/cast_lanes_simd.hpp"
#include "narrow/base/random.hpp"

namespace narrow::detail {

// Vectors that share one look for specials and keep the pipes busy while each waits for its additions: as many as the
// registers hold, fewer for the longer kernels.
constexpr int vectors_for(Way way, Rounding rounding, Finish finish) noexcept {
  return rounding == Rounding::stochastic || (finish == Finish::full && way != Way::power) ? 4 : 8;
}

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
template <std::size_t N>
void fill_random(std::array<std::uint32_t, N>& words, const CastJob& job, std::size_t index) noexcept {
  const int shift = 32 - job.cast.random_bits;
  for (std::size_t k = 0; k < N; ++k) {
    std::uint64_t bits = random_bits(job.seed, job.first + index + k);
    // The products need scalar registers: without this the compiler moves every word to vectors and back between them.
    asm("" : "+r"(bits));
    words[k] = static_cast<std::uint32_t>(bits) << shift;
  }
}

// Inf and NaN (and subnormals rounded to powers of two at random) are left to the scalar functions.
template <Way W, Rounding R, int Vectors>
bool has_special_lane(const WordLanes (&x)[Vectors]) noexcept {
  WordLanes top = magnitude(x[0]);
  for (int k = 1; k < Vectors; ++k) top = larger(top, magnitude(x[k]));
  if (any_above(top, 0x7F7FFFFF)) return true;
  if constexpr (W != Way::power || R != Rounding::stochastic) return false;
  WordLanes least = splat(~0u);  // one less than a, so that zero is the largest word of all
  for (int k = 0; k < Vectors; ++k) least = lesser_unsigned(least, magnitude(x[k]) - 1);
  return any_above(~least, ~0x007FFFFFu);
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
  constexpr int block_vectors = vectors_for(W, R, F);
  constexpr std::size_t block_size = block_vectors * lane_count;
  const RoundPlan plan = job.plan;  // a copy: stores through out cannot change it
  RandomLanes random{};
  std::array<std::uint32_t, block_size> random_words{};
  std::size_t i = begin;
  for (; i + block_size <= end; i += block_size) {
    WordLanes x[block_vectors];
    for (int k = 0; k < block_vectors; ++k) x[k] = load(in + i + k * lane_count);
    if (has_special_lane<W, R, block_vectors>(x)) [[unlikely]] {
      for (std::size_t k = i; k < i + block_size; ++k) out[k] = cast_one<Out>(in[k], job, k);
      continue;
    }
    if constexpr (W == Way::half) {
      for (int k = 0; k < block_vectors; ++k) {
        const HalfLanes half = to_half(F == Finish::clamped ? clamp(x[k], plan.clamp_word, plan.clamp_word) : x[k]);
        if constexpr (value) store(out + i + k * lane_count, from_half(half));
        else store(out + i + k * lane_count, half);
      }
      continue;
    }
    if constexpr (R == Rounding::stochastic) fill_random(random_words, job, i);
    WordLanes result[block_vectors];
    for (int k = 0; k < block_vectors; ++k) {
      if constexpr (R == Rounding::stochastic)
        std::memcpy(&random.top, random_words.data() + k * lane_count, sizeof random.top);
      result[k] = cast_lanes<value, W, R, F>(x[k], plan, random);
    }
    for (int k = 0; k < block_vectors; k += 4) {
      if constexpr (!value && sign_is_stored(F))
        store_signed<F == Finish::unsigned_zero>(out + i + k * lane_count, result + k, x + k, plan.sign_shift, plan.sign_word);
      else store_narrow(out + i + k * lane_count, result + k);
    }
  }
  for (; i < end; ++i) out[i] = cast_one<Out>(in[i], job, i);
}

}  // namespace narrow::detail
