// What happens to gradients between the backward pass and the optimiser: sums over micro-batches, unscaling, the norm
// of all of them together, clipping.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "narrow/train/operations/tensor.hpp"
#include "narrow/train/policy/policy.hpp"
#include "narrow/train/policy/settings.hpp"

namespace narrow::train {

using Parameters = std::vector<Parameter<float>*>;

// The gradients of all parameters as one array, in their order, and back.
std::vector<float> gather_gradients(const Parameters& parameters);
void scatter_gradients(const std::vector<float>& all, const Parameters& parameters);

// sum = R(sum + gradients); the first micro-batch (an empty sum) is R(gradients).
void accumulate(std::vector<float>& sum, const Parameters& parameters, const Precision& precision, std::uint64_t seed,
                int threads = 0);

// Gradients times 1 / scale, as torch's GradScaler does it. Returns found_inf: whether one was Inf or NaN before.
bool unscale(const Parameters& parameters, float scale);

// The norm of the norms of the parameters, as torch.nn.utils.clip_grad_norm_ takes it; each is rounded to the format.
float gradient_norm(const Parameters& parameters, const Precision& precision, std::uint64_t seed);
// Gradients times min(1, largest / (norm + 1e-6)); factor and products are rounded to the format. As in torch a NaN
// norm makes every gradient NaN. Returns the factor.
float clip(const Parameters& parameters, float norm, double largest, const Precision& precision, std::uint64_t seed,
           int threads = 0);

}  // namespace narrow::train
