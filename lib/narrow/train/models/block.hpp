// One layer of a transformer, normalised before each branch:  x <- x + attention(norm(x)),  x <- x + mlp(norm(x)).
#pragma once

#include "narrow/train/models/attention.hpp"
#include "narrow/train/operations/gelu.hpp"
#include "narrow/train/operations/residual.hpp"

namespace narrow::train {

template <class T>
class Block {
 public:
  Block(Store<T>& store, const std::string& name, const ModelShape& shape, Mask mask);
  void forward(const Tensor<T>& x, std::size_t sequences, Tensor<T>& y);
  void backward(Tensor<T>& dy);  // becomes dx
  std::uint64_t multiply_adds(std::size_t sequences, std::size_t length) const;

 private:
  Norm<T> norm1_;
  Attention<T> attention_;
  Residual<T> residual1_;
  Norm<T> norm2_;
  Linear<T> up_;
  Gelu<T> gelu_;
  Linear<T> down_;
  Residual<T> residual2_;

  Tensor<T> normed1_, attended_, middle_, normed2_, raised_, bent_, lowered_;
  Tensor<T> branch_, inner_;  // gradients on their way through a branch
};

}  // namespace narrow::train
