// A small convolutional model for grey images: convolutions of 3 x 3 without bias, each with batch norm and ReLU, the
// second and later ones with stride 2; then a linear layer from all places and channels to the classes.
#pragma once

#include "narrow/train/models/model.hpp"
#include "narrow/train/operations/batch_norm.hpp"
#include "narrow/train/operations/convolution.hpp"
#include "narrow/train/operations/cross_entropy.hpp"
#include "narrow/train/operations/linear.hpp"
#include "narrow/train/operations/relu.hpp"

namespace narrow::train {

template <class T>
class Cnn : public StoredModel<T> {
 public:
  Cnn(const ModelShape& shape, const Policy& policy, std::uint64_t seed);
  T forward(const Batch& batch) override;
  void backward(T loss_scale) override;
  const Tensor<T>& logits() const override { return logits_; }
  std::uint64_t multiply_adds(std::size_t batch_size) const override;

 private:
  struct Layer {
    Convolution<T> convolution;
    BatchNorm<T> norm;
    Relu<T> relu;
    std::size_t side;  // of its input
    Tensor<T> sums, normed, bent;
  };
  static Sliding sliding(std::size_t layer) { return {3, layer == 0 ? std::size_t{1} : std::size_t{2}, 1}; }

  std::size_t side_;
  std::deque<Layer> layers_;
  std::optional<Linear<T>> head_;
  CrossEntropy<T> loss_;
  Tensor<T> input_, logits_, d_logits_, gradient_, next_;
};

}  // namespace narrow::train
