// The loop of an operation that turns one tensor into another element by element, and its way back.
#pragma once

#include "narrow/train/operations/arithmetic.hpp"
#include "narrow/train/operations/parts.hpp"
#include "narrow/train/operations/store.hpp"

namespace narrow::train {

// body(r, i, kind) for every element, in parallel.
template <class T, class Body>
void each_element(std::size_t n, const Precision& arithmetic, int threads, const Body& body) {
  with_arithmetic<T>(arithmetic, [&](const auto& r) {
    parallel_parts(n, elements_a_part, threads, [&](std::size_t begin, std::size_t end) {
      for_elements<T>(end - begin, r, [&](std::size_t i, auto kind) { body(r, begin + i, kind); });
    });
  });
}

// An operation y = f(x) with dx = dy f'(x). slope_ holds f'(x) from forward to backward.
template <class T>
class Elementwise {
 public:
  Elementwise(Store<T>& store, const std::string& name, Operation operation)
      : store_(store), policy_(store.policy[operation]), roles_(store, name, operation) {}

 protected:
  // f(r, x) gives {y, slope}. y may be x.
  template <class F>
  void map(const Tensor<T>& input, Tensor<T>& y, const F& f) {
    roles_.activations.keep(input.span(), 1, input.size(), store_.step);
    if (&y != &input) y.resize(input.shape);
    slope_.resize(input.size());
    const T* x = roles_.activations.kept().data();
    each_element<T>(y.size(), policy_.arithmetic, store_.step.threads, [&](const auto& r, std::size_t i, auto kind) {
      const auto result = f(r, take(x + i, kind));
      put(y.data.data() + i, result.value);
      put(slope_.data() + i, result.slope);
    });
    roles_.output.round(y.span(), store_.step);
  }

  void map_back(const Tensor<T>& gradient, Tensor<T>& dx) {
    roles_.gradients.keep(gradient.span(), 1, gradient.size(), store_.step);
    if (&dx != &gradient) dx.resize(gradient.shape);
    const T* dy = roles_.gradients.kept().data();
    each_element<T>(dx.size(), policy_.arithmetic, store_.step.threads, [&](const auto& r, std::size_t i, auto kind) {
      put(dx.data.data() + i, r(take(dy + i, kind) * take(slope_.data() + i, kind)));
    });
    roles_.input_gradients.round(dx.span(), store_.step);
  }

  Store<T>& store_;
  const OperationPolicy& policy_;
  Roles<T> roles_;
  std::vector<T> slope_;
};

template <class V>
struct ValueAndSlope {
  V value, slope;
};

}  // namespace narrow::train
