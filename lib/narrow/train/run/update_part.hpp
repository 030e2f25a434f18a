// A piece of one parameter in the middle of an optimiser's step, and how its new values are kept.
#pragma once

#include "narrow/tensor/seed_at.hpp"
#include "narrow/train/operations/round_in_place.hpp"

namespace narrow::train {

struct UpdatePart {
  std::span<float> value;
  std::span<const float> gradient;
  std::span<float> first, second, compensation;  // empty where the optimiser or the policy has none
  bool decays;
  std::uint64_t tensor_seed;  // of this parameter in this step
  std::size_t begin;          // index of the first element in the parameter

  // Every rounding of a step has random bits of its own; they belong to the element, not to the piece.
  std::uint64_t seed(std::uint64_t rounding) const { return seed_at(random_bits(tensor_seed, rounding), begin); }
};

inline constexpr std::size_t update_part_size = 4096;  // the scratch of a part stays in the nearest cache

// value += update, kept in the parameters' format.
//   plain   p' = P(p + u)            an update below half an ulp of p is lost
//   Kahan   y = u + c;  p' = P(p + y);  c' = P(y - (p' - p))      what was lost comes with the next update
inline void keep_update(UpdatePart& part, std::span<float> update, const TrainingPolicy& policy) {
  const std::size_t n = part.value.size();
  if (!policy.kahan) {
    for (std::size_t i = 0; i < n; ++i) part.value[i] += update[i];
    return round_in_place(part.value, policy.parameters, part.seed(0));
  }
  float before[update_part_size];
  for (std::size_t i = 0; i < n; ++i) {
    before[i] = part.value[i];
    update[i] += part.compensation[i];
    part.value[i] += update[i];
  }
  round_in_place(part.value, policy.parameters, part.seed(0));
  for (std::size_t i = 0; i < n; ++i) part.compensation[i] = update[i] - (part.value[i] - before[i]);
  round_in_place(part.compensation, policy.parameters, part.seed(1));
}

}  // namespace narrow::train
