// A multi-layer perceptron for classification: linear layers with ReLU between them.
#pragma once

#include "narrow/train/models/model.hpp"
#include "narrow/train/operations/cross_entropy.hpp"
#include "narrow/train/operations/linear.hpp"
#include "narrow/train/operations/relu.hpp"

namespace narrow::train {

template <class T>
class Mlp : public StoredModel<T> {
 public:
  Mlp(const ModelShape& shape, const Policy& policy, std::uint64_t seed);
  T forward(const Batch& batch) override;
  void backward(T loss_scale) override;
  const Tensor<T>& logits() const override { return sums_.back(); }
  std::uint64_t multiply_adds(std::size_t batch_size) const override;

 private:
  std::size_t inputs_;
  std::deque<Linear<T>> layers_;
  std::deque<Relu<T>> relus_;
  CrossEntropy<T> loss_;
  Tensor<T> input_, gradient_, next_;
  std::vector<Tensor<T>> sums_, bent_;  // of each layer, and after its ReLU
};

}  // namespace narrow::train
