// Short vectors of a carrier, which g++ and clang turn into NEON, SSE or AVX. Every operation is the IEEE one of its
// element, so code written for "a carrier or its lanes" gives the same bits for both, whatever the width.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace narrow::train {

#if defined(__AVX__)
inline constexpr std::size_t lane_bytes = 32;
#else
inline constexpr std::size_t lane_bytes = 16;
#endif

typedef float FloatLanes __attribute__((vector_size(lane_bytes)));
typedef double DoubleLanes __attribute__((vector_size(lane_bytes)));

// What a carrier or its lanes are made of, and the integers of the same size.
template <class V>
struct LaneTypes;
template <>
struct LaneTypes<float> {
  using Element = float;
  using Word = std::uint32_t;
  using Int = std::int32_t;
};
template <>
struct LaneTypes<double> {
  using Element = double;
  using Word = std::uint64_t;
  using Int = std::int64_t;
};
template <>
struct LaneTypes<FloatLanes> {
  using Element = float;
  typedef std::uint32_t Word __attribute__((vector_size(lane_bytes)));
  typedef std::int32_t Int __attribute__((vector_size(lane_bytes)));
};
template <>
struct LaneTypes<DoubleLanes> {
  using Element = double;
  typedef std::uint64_t Word __attribute__((vector_size(lane_bytes)));
  typedef std::int64_t Int __attribute__((vector_size(lane_bytes)));
};

template <class T>
using LanesOf = std::conditional_t<std::is_same_v<T, float>, FloatLanes, DoubleLanes>;
template <class T>
inline constexpr std::size_t lanes_of = lane_bytes / sizeof(T);

template <class T>
LanesOf<T> load(const T* from) noexcept {
  LanesOf<T> x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
template <class T>
void store(T* to, LanesOf<T> x) noexcept {
  std::memcpy(to, &x, sizeof x);
}

// The same for code that serves both: as many elements from there on as `kind` (a carrier or its lanes) holds.
template <class T, class V>
V take(const T* from, V kind) noexcept {
  std::memcpy(&kind, from, sizeof kind);
  return kind;
}
template <class T, class V>
void put(T* to, V x) noexcept {
  std::memcpy(to, &x, sizeof x);
}

// body(i, kind): lanes in steps of their width, then single elements for what is left.
template <class T, class Body>
void for_lanes(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + lanes_of<T> <= n; i += lanes_of<T>) body(i, LanesOf<T>{});
  for (; i < n; ++i) body(i, T{});
}

}  // namespace narrow::train
