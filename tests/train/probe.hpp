// Made tensors, and an operation's gradients against central differences through a scalar of its output.
#pragma once

#include <doctest/doctest.h>

#include "narrow/base/random.hpp"
#include "narrow/train/operations/store.hpp"
#include "train/central_difference.hpp"

namespace narrow::train::trial {

inline Tensor<double> random_tensor(std::vector<std::size_t> shape, std::uint64_t seed) {
  Tensor<double> t;
  t.resize(std::move(shape));
  for (std::size_t i = 0; i < t.size(); ++i)
    t.data[i] = 3 * (static_cast<double>(random_bits(seed, i) >> 11) * 0x1p-53 - 0.5);
  return t;
}

// A scalar of a tensor whose gradient is the weights.
struct Probe {
  Tensor<double> weights;
  explicit Probe(std::vector<std::size_t> shape) : weights(random_tensor(std::move(shape), 99)) {}
  double operator()(const Tensor<double>& y) const {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y.data[i] * weights.data[i];
    return sum;
  }
};

// f: computes y from x and the parameters. Checks dx and the gradients of all parameters of the store.
template <class F>
void check_all(Store<double>& store, Tensor<double>& x, const Tensor<double>& dx, const F& f) {
  CHECK(worst_difference(x.span(), dx.span(), f) < gradient_tolerance);
  for (Parameter<double>* p : store.parameters()) {
    CAPTURE(p->name);
    const std::vector<double> gradient = p->gradient.data;
    CHECK(worst_difference(p->value.span(), gradient, f) < gradient_tolerance);
  }
}

inline void shake(Store<double>& store) {
  std::uint64_t n = 0;
  for (Parameter<double>* p : store.parameters())
    for (double& v : p->value.data) v += static_cast<double>(random_bits(7, n++) >> 11) * 0x1p-53 - 0.5;
}

}  // namespace narrow::train::trial
