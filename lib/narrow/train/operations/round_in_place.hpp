// Values on their way into memory of a narrow format: what torch does at the end of every operation on narrow tensors.
#pragma once

#include <span>

#include "narrow/array/array.hpp"
#include "narrow/train/policy/policy.hpp"

namespace narrow::train {

// Formats outside products have no scale.
inline void round_in_place(std::span<float> values, const Precision& precision, std::uint64_t seed = 0,
                           int threads = 1) {
  if (!is_exact(precision)) round_array(values, values, precision.format, precision.cast, seed, threads);
}

}  // namespace narrow::train
