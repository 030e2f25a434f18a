// Gradients of a scalar function by central differences in double: the opinion that needs no calculus.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace narrow::train::trial {

// (f(x + h) - f(x - h)) / 2h has an error of h^2 f''' / 6 + 2^-53 |f| / h: h = 2^-17 balances them near 1e-10 for
// values around 1.
inline constexpr double difference_step = 0x1p-17;
// What remains with functions whose third derivatives reach tens.
inline constexpr double gradient_tolerance = 1e-7;

// d f / d x[i], f read anew after each change of x.
template <class F>
double central_difference(double& x, const F& f) {
  const double start = x;
  x = start + difference_step;
  const double above = f();
  x = start - difference_step;
  const double below = f();
  x = start;
  return (above - below) / (2 * difference_step);
}

// Largest difference between a gradient and the differences, relative to the largest element (at least 1e-2).
template <class F>
double worst_difference(std::span<double> x, std::span<const double> gradient, const F& f, std::size_t stride = 1) {
  double worst = 0, largest = 1e-2;
  for (const double g : gradient) largest = std::max(largest, std::abs(g));
  for (std::size_t i = 0; i < x.size(); i += stride)
    worst = std::max(worst, std::abs(central_difference(x[i], f) - gradient[i]));
  return worst / largest;
}

}  // namespace narrow::train::trial
