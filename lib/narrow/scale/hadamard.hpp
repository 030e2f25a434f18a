// The random Hadamard transform of 16 numbers: H S / 4, H the Hadamard matrix and S fixed random signs. Orthogonal, so
// that two operands turned alike along their sum keep their product; an outlier becomes 16 numbers of a quarter its
// size.
//
//   float run[16] = {8};
//   turn_by_hadamard(run);  // every element is 2 or -2
#pragma once

#include <cstddef>

#include "narrow/base/random.hpp"

namespace narrow {

inline constexpr std::size_t hadamard_size = 16;

template <class T>
constexpr void turn_by_hadamard(T* v) noexcept {
  constexpr std::uint64_t signs = random_bits(0, 0);
  for (std::size_t i = 0; i < hadamard_size; ++i) v[i] = (signs >> i & 1) != 0 ? -v[i] : v[i];
  for (std::size_t half = 1; half < hadamard_size; half *= 2)
    for (std::size_t i = 0; i < hadamard_size; ++i)
      if ((i & half) == 0) {
        const T a = v[i], b = v[i + half];
        v[i] = a + b, v[i + half] = a - b;
      }
  for (std::size_t i = 0; i < hadamard_size; ++i) v[i] *= T{0.25};
}

}  // namespace narrow
