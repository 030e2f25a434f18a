// Who watches a training step: called with every tensor of every operation, before and after its rounding, in the order
// in which they are computed. Histograms, underflow counts and the search for the first NaN are observers.
#pragma once

#include <span>
#include <string_view>

#include "narrow/train/policy/policy.hpp"

namespace narrow {
struct Quantised;
}

namespace narrow::train {

// Which tensor it is: "blocks.0.mlp.up" and role weights, say. The name lives as long as the model.
struct Site {
  std::string_view tensor;
  Operation operation;
  Role role;
  const Precision& precision;
  float decode = 1;                   // scaled per tensor: a value is an element of the format times this
  const Quantised* blocks = nullptr;  // scaled in blocks: where the scales stand, in the order of the values
};

class Observer {
 public:
  virtual ~Observer() = default;
  // The same span twice where nothing is rounded. A scaled operand comes back unscaled.
  virtual void saw(const Site& site, std::span<const float> before, std::span<const float> after) = 0;
  virtual void saw(const Site&, std::span<const double>, std::span<const double>) {}
};

}  // namespace narrow::train
