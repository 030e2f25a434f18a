#include "narrow/train/run/optimiser.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/base/parallel.hpp"
#include "narrow/base/random.hpp"
#include "narrow/train/run/adamw.hpp"
#include "narrow/train/run/sgd.hpp"

namespace narrow::train {

namespace {

// By multiplication: pow() is libm's, and its last bit differs between machines.
double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

AdamwStep adamw_step(const OptimiserSettings& s, std::uint64_t t) {
  const double correction1 = 1 - power(s.beta1, t), correction2 = 1 - power(s.beta2, t);
  const double decay = s.learning_rate * s.weight_decay;
  return {static_cast<float>(1 - decay),   static_cast<float>(decay),
          static_cast<float>(1 - s.beta1), static_cast<float>(s.beta2),
          static_cast<float>(1 - s.beta2), static_cast<float>(std::sqrt(correction2)),
          static_cast<float>(s.epsilon),   static_cast<float>(s.learning_rate / correction1)};
}

// Sums of squares of one part.
UpdateNorms squares(std::span<const float> before, std::span<const float> after) {
  UpdateNorms sums;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double p = static_cast<double>(before[i]), change = static_cast<double>(after[i]) - p;
    sums.update += change * change;
    sums.parameters += p * p;
  }
  return sums;
}

std::span<float> part_of(std::vector<float>& whole, std::size_t begin, std::size_t n) {
  return whole.empty() ? std::span<float>() : std::span(whole).subspan(begin, n);
}

}  // namespace

Optimiser::Optimiser(const OptimiserSettings& settings, const TrainingPolicy& policy)
    : settings_(settings), policy_(policy) {
  check(settings);
}

void Optimiser::begin(const std::vector<Parameter<float>*>& parameters) {
  moments_.clear();
  // Nearest, also where updates are stochastic: all recipes of a format start at the same point.
  Precision nearest = policy_.parameters;
  nearest.cast.rounding = Rounding::nearest_even;
  for (Parameter<float>* p : parameters) {
    round_in_place(p->value.span(), nearest);
    const std::size_t n = p->value.size();
    moments_.push_back({std::vector<float>(n), std::vector<float>(settings_.kind == OptimiserKind::adamw ? n : 0),
                        std::vector<float>(policy_.kahan ? n : 0)});
  }
}

UpdateNorms Optimiser::step(const std::vector<Parameter<float>*>& parameters, std::uint64_t seed, int threads) {
  ++steps_;
  const AdamwStep adam = adamw_step(settings_, steps_);
  const SgdStep plain{static_cast<float>(settings_.learning_rate), static_cast<float>(settings_.weight_decay),
                      static_cast<float>(settings_.momentum), steps_ == 1};
  UpdateNorms sums;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    Parameter<float>& p = *parameters[k];
    Moments& m = moments_[k];
    std::vector<UpdateNorms> parts((p.value.size() + update_part_size - 1) / update_part_size);
    parallel_parts(p.value.size(), update_part_size, threads, [&](std::size_t begin, std::size_t end) {
      const std::size_t n = end - begin;
      float before[update_part_size];
      std::copy_n(p.value.data.begin() + static_cast<std::ptrdiff_t>(begin), n, before);
      const UpdatePart part{p.value.span().subspan(begin, n),
                            p.gradient.span().subspan(begin, n),
                            part_of(m.first, begin, n),
                            part_of(m.second, begin, n),
                            part_of(m.compensation, begin, n),
                            p.decays,
                            random_bits(seed, k),
                            begin};
      if (settings_.kind == OptimiserKind::adamw) adamw(part, adam, policy_);
      else sgd(part, plain, policy_);
      parts[begin / update_part_size] = squares({before, n}, part.value);
    });
    for (const UpdateNorms& part : parts) sums.update += part.update, sums.parameters += part.parameters;
  }
  return {std::sqrt(sums.update), std::sqrt(sums.parameters)};
}

}  // namespace narrow::train
