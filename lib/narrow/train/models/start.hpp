// How the parameters of a transformer start, as in GPT-2.
#pragma once

#include <cmath>

#include "narrow/train/operations/store.hpp"

namespace narrow::train {

inline constexpr double start_deviation = 0.02;
inline Start normal_start() { return Start::normal(start_deviation); }
// Projections back into the residual stream: 2 layers of them add up, each starts smaller by the root of their number.
inline Start residual_start(std::size_t layers) {
  return Start::normal(start_deviation / std::sqrt(2 * static_cast<double>(layers)));
}

}  // namespace narrow::train
