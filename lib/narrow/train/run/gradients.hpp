// What happens to gradients between the backward pass and the optimiser: sums over micro-batches, unscaling, the norm
// of all of them together, clipping.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "narrow/train/operations/tensor.hpp"
#include "narrow/train/policy/policy.hpp"

namespace narrow::train {

using Parameters = std::vector<Parameter<float>*>;

// Whether the norm that is clipped is that of the gradients or that of the scaled ones, scale times as large: then a
// limit of 1 at a scale of 65536 leaves true gradients of norm 1/65536.
enum class ClipOrder : std::uint8_t { after_unscale, before_unscale };
inline constexpr std::array<std::string_view, 2> clip_order_names = {"after-unscale", "before-unscale"};

// Whether the loss of a micro-batch is divided by their number. sum: it is forgotten, and n of them give n times the
// gradient.
enum class AccumulateAs : std::uint8_t { mean, sum };
inline constexpr std::array<std::string_view, 2> accumulate_names = {"mean", "sum"};

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
