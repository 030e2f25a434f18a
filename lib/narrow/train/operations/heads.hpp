// Where the matrices of attention lie: queries, keys and values as [sequences, length, heads, head_width], squares of
// scores as [sequences, heads, length, length].
#pragma once

#include <cstdint>

#include "narrow/train/operations/matrix.hpp"
#include "narrow/train/operations/parts.hpp"

namespace narrow::train {

struct Heads {
  std::size_t sequences = 0, length = 0, heads = 0, head_width = 0;

  std::size_t width() const noexcept { return heads * head_width; }
  std::size_t count() const noexcept { return sequences * heads; }
  std::size_t square() const noexcept { return length * length; }
  std::uint64_t multiply_adds() const noexcept { return count() * square() * head_width; }

  // One head of one sequence: length x head_width.
  template <class T>
  Matrix<T> rows_of(T* base, std::size_t n) const noexcept {
    return {base + n / heads * length * width() + n % heads * head_width, length, head_width, width(), 1};
  }
  // Its scores: length x length.
  template <class T>
  Matrix<T> square_of(T* base, std::size_t n) const noexcept {
    return matrix(base + n * square(), length, length);
  }
  // body(n) for every head of every sequence, in parallel; small ones together.
  template <class Body>
  void each(int threads, const Body& body) const {
    parallel_parts(count(), lines_a_part(square() * head_width), threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t n = begin; n < end; ++n) body(n);
    });
  }
};

}  // namespace narrow::train
