// A small GPT that predicts the next byte: token and position embeddings, blocks, a last norm, an untied head.
#pragma once

#include "narrow/train/models/block.hpp"
#include "narrow/train/models/model.hpp"
#include "narrow/train/operations/cross_entropy.hpp"
#include "narrow/train/operations/embedding.hpp"

namespace narrow::train {

template <class T>
class Transformer : public StoredModel<T> {
 public:
  Transformer(const ModelShape& shape, const Policy& policy, std::uint64_t seed);
  T forward(const Batch& batch) override;
  void backward(T loss_scale) override;
  const Tensor<T>& logits() const override { return logits_; }
  std::uint64_t multiply_adds(std::size_t batch_size) const override;

 private:
  ModelShape shape_;
  TokenEmbedding<T> tokens_;
  PositionEmbedding<T> positions_;
  std::deque<Block<T>> blocks_;
  Norm<T> final_norm_;
  Linear<T> head_;
  CrossEntropy<T> loss_;

  Tensor<T> embedded_, normed_, logits_, d_logits_, d_normed_, stream_;
  std::vector<Tensor<T>> states_;  // before each block, and after the last
};

}  // namespace narrow::train
