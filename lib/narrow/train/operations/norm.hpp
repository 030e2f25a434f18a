// Normalisation of rows of n elements.
//   LayerNorm  h = (x - mean) / sqrt(mean((x - mean)^2) + eps),  y = h g + b
//   RMSNorm    h = x / sqrt(mean(x^2) + eps),                    y = h g
// Backward, with e = dy g and the mean of e only for LayerNorm:
//   dx = (e - mean(e) - h mean(e h)) / sqrt(...)      dg = sum of dy h over rows      db = sum of dy
#pragma once

#include "narrow/train/operations/store.hpp"

namespace narrow::train {

enum class NormKind : std::uint8_t { layer, rms };

template <class T>
class Norm {
 public:
  Norm(Store<T>& store, const std::string& name, std::size_t width, NormKind kind);
  void forward(const Tensor<T>& x, Tensor<T>& y);
  void backward(const Tensor<T>& dy, Tensor<T>& dx);

  static constexpr double epsilon = 1e-5;

 private:
  Store<T>& store_;
  const OperationPolicy& policy_;
  std::size_t width_;
  Parameter<T>& gain_;
  Parameter<T>* bias_ = nullptr;
  Roles<T> roles_;
  Quantiser<T>&gains_, &gain_gradients_;
  Quantiser<T>*biases_ = nullptr, *bias_gradients_ = nullptr;
  Tensor<T> normalised_;    // h
  std::vector<T> inverse_;  // 1 / sqrt(...) of each row
};

}  // namespace narrow::train
