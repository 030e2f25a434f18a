// Gradients that were not recorded: an amax per step made from the spread of a real tensor and a model of how it moves.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace narrow {

enum class GradientModel : std::uint8_t {
  growth,  // 2^16 times larger at the end than at the start
  decay,   // 2^16 times smaller
  spikes   // level, but one step in 200 is 2^4 to 2^12 times larger
};
GradientModel parse_gradient_model(std::string_view name);  // throws Error

// amax of step t: the level of the model at t times a factor drawn from `piece_amaxes` (the largest magnitudes of
// pieces of the tensor) relative to their largest. Zeros among them are not drawn. The same seed gives the same steps.
std::vector<float> model_amax(GradientModel model, std::span<const float> piece_amaxes, std::size_t steps,
                              std::uint64_t seed);

}  // namespace narrow
