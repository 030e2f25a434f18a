// AdamW on a piece of one parameter, in the order of torch.optim.AdamW's single-tensor path.
#pragma once

#include <cmath>

#include "narrow/train/run/update_part.hpp"

namespace narrow::train {

// The scalars of one step. torch computes them in double and hands them to FP32 arithmetic.
struct AdamwStep {
  float keep;   // 1 - learning rate * decay
  float lose;   // learning rate * decay, where a compensation keeps what the product would lose
  float take1;  // 1 - beta1
  float beta2, take2;
  float correction2;  // sqrt(1 - beta2^t)
  float epsilon;
  float size;  // learning rate / (1 - beta1^t)
};

// P, S, U: stored in the format of the parameters, the state, the update.
//   p = P(p * keep)
//   m = S(m + (g - m) * take1)
//   v = S(v * beta2);  v = S(v + take2 * g * g)
//   d = U(sqrt v);  d = U(d / correction2);  d = U(d + epsilon)
//   p = P(p - size * m / d)
inline void adamw(UpdatePart part, const AdamwStep& s, const TrainingPolicy& policy) {
  const std::size_t n = part.value.size();
  float lost[update_part_size] = {}, denominator[update_part_size], update[update_part_size];
  if (part.decays && policy.kahan)
    for (std::size_t i = 0; i < n; ++i) lost[i] = s.lose * part.value[i];
  if (part.decays && !policy.kahan) {
    for (float& p : part.value) p *= s.keep;
    round_in_place(part.value, policy.parameters, part.seed(2));
  }
  for (std::size_t i = 0; i < n; ++i) part.first[i] += (part.gradient[i] - part.first[i]) * s.take1;
  round_in_place(part.first, policy.optimiser_state, part.seed(3));
  for (float& v : part.second) v *= s.beta2;
  round_in_place(part.second, policy.optimiser_state, part.seed(4));
  for (std::size_t i = 0; i < n; ++i) part.second[i] += s.take2 * part.gradient[i] * part.gradient[i];
  round_in_place(part.second, policy.optimiser_state, part.seed(5));

  const std::span<float> d(denominator, n);
  for (std::size_t i = 0; i < n; ++i) d[i] = std::sqrt(part.second[i]);
  round_in_place(d, policy.update, part.seed(6));
  for (float& x : d) x /= s.correction2;
  round_in_place(d, policy.update, part.seed(7));
  for (float& x : d) x += s.epsilon;
  round_in_place(d, policy.update, part.seed(8));
  for (std::size_t i = 0; i < n; ++i) update[i] = -s.size * part.first[i] / d[i] - lost[i];
  keep_update(part, {update, n}, policy);
}

}  // namespace narrow::train
