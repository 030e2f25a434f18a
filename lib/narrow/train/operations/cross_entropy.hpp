// Mean cross entropy of rows of logits:  l = log(sum of e^(x_j - max)) - (x_target - max),  loss = sum of l / rows.
//   dx_j = (p_j - [j is the target]) * loss_scale / rows
#pragma once

#include "narrow/train/operations/store.hpp"

namespace narrow::train {

template <class T>
class CrossEntropy {
 public:
  CrossEntropy(Store<T>& store, const std::string& name);
  // A target below 0 or beyond the logits: Error.
  T forward(const Tensor<T>& logits, const std::vector<std::int32_t>& targets);
  void backward(T loss_scale, Tensor<T>& dx);

 private:
  Store<T>& store_;
  const OperationPolicy& policy_;
  Roles<T> roles_;
  std::vector<std::int32_t> targets_;
  Tensor<T> exps_;  // e^(x - max)
  std::vector<T> sums_, losses_;
};

}  // namespace narrow::train
