#include "narrow/train/models/transformer.hpp"

#include "narrow/base/error.hpp"
#include "narrow/train/models/start.hpp"

namespace narrow::train {

template <class T>
Transformer<T>::Transformer(const ModelShape& shape, const Policy& policy, std::uint64_t seed)
    : StoredModel<T>(policy, seed),
      shape_(shape),
      tokens_(this->store_, "token_embedding", shape.vocabulary, shape.width, normal_start()),
      positions_(this->store_, "position_embedding", shape.context, shape.width, normal_start()),
      blocks_([&] {
        std::deque<Block<T>> blocks;
        for (std::size_t i = 0; i < shape.layers; ++i)
          blocks.emplace_back(this->store_, "blocks." + std::to_string(i), shape, Mask::causal);
        return blocks;
      }()),
      final_norm_(this->store_, "final_norm", shape.width, shape.rms_norm ? NormKind::rms : NormKind::layer),
      head_(this->store_, "head", shape.width, shape.vocabulary, {normal_start(), false, Operation::logits}),
      loss_(this->store_, "loss"),
      states_(shape.layers + 1) {}

template <class T>
T Transformer<T>::forward(const Batch& batch) {
  const std::size_t length = batch.size == 0 ? 0 : batch.tokens.size() / batch.size;
  if (length == 0 || length * batch.size != batch.tokens.size() || length > shape_.context)
    throw Error("batch: " + std::to_string(batch.tokens.size()) + " tokens are not " + std::to_string(batch.size) +
                " sequences of 1 to " + std::to_string(shape_.context));
  tokens_.forward(batch.tokens, embedded_);
  positions_.forward(embedded_, length, states_[0]);
  for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i].forward(states_[i], batch.size, states_[i + 1]);
  final_norm_.forward(states_.back(), normed_);
  head_.forward(normed_, logits_);
  return loss_.forward(logits_, batch.targets);
}

template <class T>
void Transformer<T>::backward(T loss_scale) {
  loss_.backward(loss_scale, d_logits_);
  head_.backward(d_logits_, &d_normed_);
  final_norm_.backward(d_normed_, stream_);
  for (std::size_t i = blocks_.size(); i-- > 0;) blocks_[i].backward(stream_);
  positions_.backward(stream_);
  tokens_.backward(stream_);
}

template <class T>
std::uint64_t Transformer<T>::multiply_adds(std::size_t batch_size) const {
  std::uint64_t sum = head_.multiply_adds(batch_size * shape_.context);
  for (const Block<T>& block : blocks_) sum += block.multiply_adds(batch_size, shape_.context);
  return sum;
}

template class Transformer<float>;
template class Transformer<double>;

}  // namespace narrow::train
