#include "narrow/train/run/gradients.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/base/random.hpp"
#include "narrow/scale/torch_scaler.hpp"
#include "narrow/train/operations/round_in_place.hpp"

namespace narrow::train {

namespace {

float rounded(double x, const Precision& precision, std::uint64_t seed) {
  float value = narrow::detail::to_float(x);
  round_in_place({&value, 1}, precision, seed);
  return value;
}

}  // namespace

std::vector<float> gather_gradients(const Parameters& parameters) {
  std::vector<float> all;
  for (const Parameter<float>* p : parameters) all.insert(all.end(), p->gradient.data.begin(), p->gradient.data.end());
  return all;
}

void scatter_gradients(const std::vector<float>& all, const Parameters& parameters) {
  auto at = all.begin();
  for (Parameter<float>* p : parameters) {
    std::copy_n(at, p->gradient.size(), p->gradient.data.begin());
    at += static_cast<std::ptrdiff_t>(p->gradient.size());
  }
}

void accumulate(std::vector<float>& sum, const Parameters& parameters, const Precision& precision, std::uint64_t seed,
                int threads) {
  if (sum.empty()) {
    sum = gather_gradients(parameters);
  } else {
    auto at = sum.begin();
    for (const Parameter<float>* p : parameters)
      for (const float g : p->gradient.data) *at++ += g;
  }
  round_in_place(sum, precision, seed, threads);
}

bool unscale(const Parameters& parameters, float scale) {
  const float inverse = inverse_scale(scale);
  bool found_inf = false;
  for (Parameter<float>* p : parameters)
    for (float& g : p->gradient.data) {
      const Unscaled result = narrow::unscale(g, inverse);
      found_inf |= result.found_inf;
      g = result.value;
    }
  return found_inf;
}

// Sums in double, one element after the other: squares of floats neither overflow nor vanish there.
float gradient_norm(const Parameters& parameters, const Precision& precision, std::uint64_t seed) {
  const std::size_t count = parameters.size();
  double total = 0;
  for (std::size_t k = 0; k < count; ++k) {
    double sum = 0;
    for (const float g : parameters[k]->gradient.data) sum += static_cast<double>(g) * static_cast<double>(g);
    const auto norm = static_cast<double>(rounded(std::sqrt(sum), precision, random_bits(seed, k)));
    total += norm * norm;
  }
  return rounded(std::sqrt(total), precision, random_bits(seed, count));
}

float clip(const Parameters& parameters, float norm, double largest, const Precision& precision, std::uint64_t seed,
           int threads) {
  const std::size_t count = parameters.size();
  const float denominator = rounded(static_cast<double>(norm + 1e-6f), precision, random_bits(seed, count));
  const auto ratio = static_cast<double>(static_cast<float>(largest) / denominator);
  float factor = rounded(ratio, precision, random_bits(seed, count + 1));
  if (factor > 1) factor = 1;  // a NaN stays
  for (std::size_t k = 0; k < count; ++k) {
    for (float& g : parameters[k]->gradient.data) g *= factor;
    round_in_place(parameters[k]->gradient.span(), precision, random_bits(seed, k), threads);
  }
  return factor;
}

}  // namespace narrow::train
