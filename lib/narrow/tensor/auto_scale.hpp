// The power of two by which data should be multiplied before a cast.
#pragma once

#include "narrow/tensor/tensor_statistics.hpp"

namespace narrow {

// Of the powers of two at which no finite value overflows (the loss scale of a step that overflows is of no use: the
// step is skipped), and of equally good ones the closest to 1:
enum class ScaleGoal : std::uint8_t {
  least_loss,  // the one at which the fewest values underflow to zero
  best_sqnr    // the one with the largest SQNR (to twelve digits)
};

struct AutoScale {
  double scale = 1;
  bool overflows = false;  // no normal float 2^k avoids it: this is the smallest
};

// For each cast, over all the tensors together. Stochastic casts overflow where they can; what they lose is counted as
// if they rounded to nearest, and so is the error of to_odd. What a double underflows is counted as of the float next
// to it.
std::vector<AutoScale> auto_scales(std::span<const Tensor> tensors, std::span<const FormatCast> casts,
                                   ScaleGoal goal = ScaleGoal::least_loss, const TensorPass& pass = {});

}  // namespace narrow
