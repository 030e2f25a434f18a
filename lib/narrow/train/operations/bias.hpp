// A row that is added to all rows of an output. Its gradient is the sum of the rows of dy, first to last.
#pragma once

#include "narrow/train/operations/store.hpp"

namespace narrow::train {

template <class T>
class Bias {
 public:
  Bias(Store<T>& store, const std::string& name, std::size_t width, Operation operation);
  void add_to(Tensor<T>& y);
  // gradients: the operand that keeps dy.
  void backward(const Tensor<T>& dy, const Quantiser<T>& gradients);

 private:
  Store<T>& store_;
  const OperationPolicy& policy_;
  std::size_t width_;
  Parameter<T>& bias_;
  Quantiser<T>&values_, &sums_;
};

}  // namespace narrow::train
