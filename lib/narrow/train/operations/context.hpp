// What attention reads, for every head: O = P V.
//   dP = dO V^T      dV = P^T dO
#pragma once

#include "narrow/train/operations/heads.hpp"
#include "narrow/train/operations/store.hpp"

namespace narrow::train {

template <class T>
class Context {
 public:
  Context(Store<T>& store, const std::string& name);
  // p and v must stay until backward.
  void forward(const Heads& heads, const Tensor<T>& p, const Tensor<T>& v, Tensor<T>& o);
  void backward(const Tensor<T>& d_o, Tensor<T>& dp, Tensor<T>& dv);

 private:
  Store<T>& store_;
  const OperationPolicy& policy_;
  Heads heads_;
  Quantiser<T>&shares_, &values_, &gradients_, &output_, &share_gradients_, &value_gradients_;
};

}  // namespace narrow::train
