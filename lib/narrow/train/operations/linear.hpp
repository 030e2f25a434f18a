// A linear layer: y = x W^T + b, W as [outputs, inputs].
//   dx = dy W      dW = dy^T x      db = sum of the rows of dy, first to last
#pragma once

#include "narrow/train/operations/bias.hpp"

namespace narrow::train {

template <class T>
class Linear {
 public:
  struct Options {
    Start weight;
    bool has_bias = true;
    Operation operation = Operation::linear;
  };
  Linear(Store<T>& store, const std::string& name, std::size_t inputs, std::size_t outputs, const Options& options);

  // x must stay as it is until backward is done.
  void forward(const Tensor<T>& x, Tensor<T>& y);
  // dx == nullptr: nobody asks for it (the first layer).
  void backward(const Tensor<T>& dy, Tensor<T>* dx);

  std::uint64_t multiply_adds(std::size_t rows, bool has_dx = true) const {
    return (has_dx ? 3 : 2) * rows * inputs_ * outputs_;
  }

 private:
  Store<T>& store_;
  const OperationPolicy& policy_;
  std::size_t inputs_, outputs_;
  Parameter<T>& weight_;
  Roles<T> roles_;
  Quantiser<T>&weights_, &weight_gradients_;
  std::optional<Bias<T>> bias_;
};

}  // namespace narrow::train
