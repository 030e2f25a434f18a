// Soft cap of attention scores: y = cap tanh(x / cap), slope 1 - tanh^2.
#pragma once

#include "narrow/train/operations/elementwise.hpp"
#include "narrow/train/operations/math.hpp"

namespace narrow::train {

template <class T>
class SoftCap : Elementwise<T> {
 public:
  SoftCap(Store<T>& store, const std::string& name, double cap)
      : Elementwise<T>(store, name, Operation::soft_cap), cap_(static_cast<T>(cap)) {}

  void forward(const Tensor<T>& x, Tensor<T>& y) {
    this->map(x, y, [cap = cap_](const auto& r, auto v) {
      using V = decltype(v);
      const V t = r(train::tanh(V(r(v / cap))));
      return ValueAndSlope<V>{r(t * cap), r(T{1} - r(t * t))};
    });
  }
  void backward(const Tensor<T>& dy, Tensor<T>& dx) { this->map_back(dy, dx); }

 private:
  T cap_;
};

}  // namespace narrow::train
