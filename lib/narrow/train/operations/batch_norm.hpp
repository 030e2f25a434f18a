// Normalisation of every channel over all rows of a batch (images and their places), as PyTorch's BatchNorm:
//   training    mean, variance = mean((x - mean)^2) of this batch;
//               running <- 0.9 running + 0.1 batch, the variance with n - 1 in place of n
//   evaluation  the running mean and variance
//   h = (x - mean) / sqrt(variance + eps),  y = h g + b
// Backward in training, sums over the rows (in evaluation the two means are 0):
//   dx = g / sqrt(...) * (dy - mean(dy) - h mean(dy h))      dg = sum of dy h      db = sum of dy
// The running statistics are buffers (TrainingPolicy), and see every micro-batch in turn.
#pragma once

#include "narrow/train/operations/store.hpp"

namespace narrow::train {

template <class T>
class BatchNorm {
 public:
  BatchNorm(Store<T>& store, const std::string& name, std::size_t width);
  // x: [..., width]. Throws Error in training when there is one row, which has no variance.
  void forward(const Tensor<T>& x, Tensor<T>& y);
  void backward(const Tensor<T>& dy, Tensor<T>& dx);

  static constexpr double epsilon = 1e-5, momentum = 0.1;

 private:
  template <class R>
  void take_statistics(const T* x, std::size_t rows, const R& r);
  template <class R>
  void subtract_mean(const T* x, std::size_t rows, const R& r);

  Store<T>& store_;
  const OperationPolicy& policy_;
  std::string name_;
  std::size_t width_;
  Parameter<T>&gain_, &bias_;
  std::vector<T>&running_mean_, &running_variance_;
  Roles<T> roles_;
  Quantiser<T>&gains_, &gain_gradients_, &biases_, &bias_gradients_, &means_, &variances_;
  bool was_training_ = true;
  Tensor<T> normalised_;                      // x - mean, then h
  std::vector<T> mean_, variance_, inverse_;  // of each channel
};

}  // namespace narrow::train
