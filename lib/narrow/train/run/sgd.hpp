// SGD with momentum on a piece of one parameter, in the order of torch.optim.SGD's single-tensor path.
#pragma once

#include "narrow/train/run/update_part.hpp"

namespace narrow::train {

struct SgdStep {
  float rate, decay, momentum;
  bool is_first;
};

// P, S, U: stored in the format of the parameters, the state, the update.
//   g = U(g + decay * p)
//   b = S(g) in the first step, then b = S(b * momentum);  b = S(b + g)
//   p = P(p - rate * b)
inline void sgd(UpdatePart part, const SgdStep& s, const TrainingPolicy& policy) {
  const std::size_t n = part.value.size();
  float gradient[update_part_size], update[update_part_size];
  for (std::size_t i = 0; i < n; ++i)
    gradient[i] = part.decays ? part.gradient[i] + s.decay * part.value[i] : part.gradient[i];
  round_in_place({gradient, n}, policy.update, part.seed(2));
  if (s.is_first) {
    for (std::size_t i = 0; i < n; ++i) part.first[i] = gradient[i];
  } else {
    for (float& b : part.first) b *= s.momentum;
    round_in_place(part.first, policy.optimiser_state, part.seed(3));
    for (std::size_t i = 0; i < n; ++i) part.first[i] += gradient[i];
  }
  round_in_place(part.first, policy.optimiser_state, part.seed(4));
  for (std::size_t i = 0; i < n; ++i) update[i] = -s.rate * part.first[i];
  keep_update(part, {update, n}, policy);
}

}  // namespace narrow::train
