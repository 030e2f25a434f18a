// The numbers of an optimiser, as recipes and command lines give them.
#pragma once

#include <cstdint>

namespace narrow::train {

enum class OptimiserKind : std::uint8_t { sgd, adamw };

struct OptimiserSettings {
  OptimiserKind kind = OptimiserKind::adamw;
  double learning_rate = 1e-3;
  double momentum = 0.9;                             // sgd
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // adamw
  double weight_decay = 0.01;                        // of parameters that decay
  double clip = 0;                                   // largest norm of all gradients together; 0: any
};
// Throws Error for numbers that no optimiser takes.
void check(const OptimiserSettings& settings);

}  // namespace narrow::train
