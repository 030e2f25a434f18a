// Lanes: short vectors of floats and integers that g++ and clang turn into NEON, SSE or AVX. Every operation is the
// IEEE or two's complement one of its element, so that lanes and scalars give the same bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace narrow::detail {

#if defined(__AVX2__)
inline constexpr int lane_count = 8;
#else
inline constexpr int lane_count = 4;
#endif

typedef float FloatLanes __attribute__((vector_size(4 * lane_count)));
typedef std::uint32_t WordLanes __attribute__((vector_size(4 * lane_count)));
typedef std::int32_t IntLanes __attribute__((vector_size(4 * lane_count)));

inline WordLanes splat(std::uint32_t x) noexcept { return WordLanes{} + x; }
inline FloatLanes as_float(WordLanes x) noexcept { return std::bit_cast<FloatLanes>(x); }
inline WordLanes as_words(FloatLanes x) noexcept { return std::bit_cast<WordLanes>(x); }

inline WordLanes load(const float* from) noexcept {
  WordLanes x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
template <class Vector, class T>
inline void store(T* to, Vector x) noexcept {
  std::memcpy(to, &x, sizeof x);
}

// Masks are all ones or all zeros in a lane. Magnitudes are below 2^31, so the signed comparison, which every machine
// has, orders them.
inline WordLanes above(WordLanes a, WordLanes b) noexcept {
  return std::bit_cast<WordLanes>(std::bit_cast<IntLanes>(a) > std::bit_cast<IntLanes>(b));
}
inline WordLanes above(FloatLanes a, FloatLanes b) noexcept { return std::bit_cast<WordLanes>(a > b); }
inline WordLanes differs(FloatLanes a, FloatLanes b) noexcept { return std::bit_cast<WordLanes>(a != b); }
inline WordLanes select(WordLanes mask, WordLanes yes, WordLanes no) noexcept { return (mask & yes) | (~mask & no); }
inline WordLanes larger(WordLanes a, WordLanes b) noexcept {
  const auto x = std::bit_cast<IntLanes>(a), y = std::bit_cast<IntLanes>(b);
  return std::bit_cast<WordLanes>(x > y ? x : y);
}
inline WordLanes smaller(WordLanes a, WordLanes b) noexcept {
  const auto x = std::bit_cast<IntLanes>(a), y = std::bit_cast<IntLanes>(b);
  return std::bit_cast<WordLanes>(x < y ? x : y);
}

}  // namespace narrow::detail
