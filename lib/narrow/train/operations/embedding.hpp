// Tables of learned rows. Token embedding: y_i = W[token_i], dW[t] = sum of the dy_i with token t, first to last.
// Position embedding: y_i = x_i + W[i mod length], dW[p] = sum over the sequences, dx = dy.
#pragma once

#include "narrow/train/operations/store.hpp"

namespace narrow::train {

template <class T>
class TokenEmbedding {
 public:
  TokenEmbedding(Store<T>& store, const std::string& name, std::size_t rows, std::size_t width, const Start& start);
  void forward(const std::vector<std::int32_t>& tokens, Tensor<T>& y);  // a token beyond the table: Error
  void backward(const Tensor<T>& dy);

 private:
  Store<T>& store_;
  const OperationPolicy& policy_;
  Parameter<T>& table_;
  Quantiser<T>&weights_, &gradients_, &output_, &weight_gradients_;
  std::vector<std::int32_t> tokens_;
};

template <class T>
class PositionEmbedding {
 public:
  PositionEmbedding(Store<T>& store, const std::string& name, std::size_t rows, std::size_t width, const Start& start);
  void forward(const Tensor<T>& x, std::size_t length, Tensor<T>& y);
  void backward(Tensor<T>& dy);  // stays as it is, rounded

 private:
  Store<T>& store_;
  const OperationPolicy& policy_;
  Parameter<T>& table_;
  Roles<T> roles_;
  Quantiser<T>&weights_, &weight_gradients_;
  std::size_t length_ = 1;
};

}  // namespace narrow::train
