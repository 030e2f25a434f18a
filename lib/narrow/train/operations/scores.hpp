// Attention scores of every head: S = Q K^T, zero where the mask hides them.
//   dQ = dS K      dK = dS^T Q
#pragma once

#include "narrow/train/operations/heads.hpp"
#include "narrow/train/operations/softmax.hpp"

namespace narrow::train {

template <class T>
class Scores {
 public:
  Scores(Store<T>& store, const std::string& name, Mask mask);
  // q and k must stay until backward.
  void forward(const Heads& heads, const Tensor<T>& q, const Tensor<T>& k, Tensor<T>& s);
  void backward(const Tensor<T>& ds, Tensor<T>& dq, Tensor<T>& dk);

 private:
  Store<T>& store_;
  const OperationPolicy& policy_;
  Mask mask_;
  Heads heads_;
  Quantiser<T>&queries_, &keys_, &gradients_, &output_, &query_gradients_, &key_gradients_;
};

}  // namespace narrow::train
