// ReLU: y = x where x > 0, else 0 (NaN stays NaN); the slope at 0 is 0.
#pragma once

#include "narrow/train/operations/elementwise.hpp"

namespace narrow::train {

template <class T>
class Relu : Elementwise<T> {
 public:
  Relu(Store<T>& store, const std::string& name) : Elementwise<T>(store, name, Operation::activation) {}

  void forward(const Tensor<T>& x, Tensor<T>& y) {
    this->map(x, y, [](const auto&, auto v) {
      using V = decltype(v);
      const V zero = V{}, one = zero + T{1};
      return ValueAndSlope<V>{v <= zero ? zero : v, v <= zero ? zero : one};
    });
  }
  void backward(const Tensor<T>& dy, Tensor<T>& dx) { this->map_back(dy, dx); }
};

}  // namespace narrow::train
