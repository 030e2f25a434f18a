// GELU, the form with erf:  y = x P,  P = (1 + erf(x / sqrt 2)) / 2,  dy/dx = P + x e^(-x^2 / 2) / sqrt(2 pi).
#pragma once

#include "narrow/train/operations/elementwise.hpp"
#include "narrow/train/operations/math.hpp"

namespace narrow::train {

template <class T>
class Gelu : Elementwise<T> {
 public:
  Gelu(Store<T>& store, const std::string& name) : Elementwise<T>(store, name, Operation::activation) {}

  void forward(const Tensor<T>& x, Tensor<T>& y) {
    this->map(x, y, [](const auto& r, auto v) {
      constexpr T half = static_cast<T>(0.5), root_half = static_cast<T>(0x1.6a09e667f3bcdp-1);
      constexpr T bell_factor = static_cast<T>(0x1.9884533d43651p-2);  // 1 / sqrt(2 pi)
      using V = decltype(v);
      const Gauss<V> g = gauss(V(r(v * root_half)));
      const V below = r(half * r(r(g.erf) + T{1}));
      return ValueAndSlope<V>{r(v * below), r(below + r(v * r(r(g.bell) * bell_factor)))};
    });
  }
  void backward(const Tensor<T>& dy, Tensor<T>& dx) { this->map_back(dy, dx); }
};

}  // namespace narrow::train
