// A small vision transformer without convolution: patches of a grey image through a linear layer, positions, blocks
// that see everything, a last norm, the mean over the patches, a head.
#pragma once

#include "narrow/train/models/block.hpp"
#include "narrow/train/models/model.hpp"
#include "narrow/train/operations/cross_entropy.hpp"
#include "narrow/train/operations/embedding.hpp"
#include "narrow/train/operations/pool.hpp"

namespace narrow::train {

template <class T>
class Vision : public StoredModel<T> {
 public:
  Vision(const ModelShape& shape, const Policy& policy, std::uint64_t seed);
  T forward(const Batch& batch) override;
  void backward(T loss_scale) override;
  const Tensor<T>& logits() const override { return logits_; }
  std::uint64_t multiply_adds(std::size_t batch_size) const override;

 private:
  void cut_patches(const Batch& batch);

  ModelShape shape_;
  std::size_t patches_;  // of an image
  Linear<T> patch_embedding_;
  PositionEmbedding<T> positions_;
  std::deque<Block<T>> blocks_;
  Norm<T> final_norm_;
  Pool<T> pool_;
  Linear<T> head_;
  CrossEntropy<T> loss_;

  Tensor<T> input_, embedded_, normed_, pooled_, logits_, d_logits_, d_pooled_, d_normed_, stream_;
  std::vector<Tensor<T>> states_;
};

}  // namespace narrow::train
