#include "narrow/train/models/vision.hpp"

#include "narrow/base/error.hpp"
#include "narrow/train/models/start.hpp"

namespace narrow::train {

template <class T>
Vision<T>::Vision(const ModelShape& shape, const Policy& policy, std::uint64_t seed)
    : StoredModel<T>(policy, seed),
      shape_(shape),
      patches_(shape.image / shape.patch * (shape.image / shape.patch)),
      patch_embedding_(this->store_, "patch_embedding", shape.patch * shape.patch, shape.width, {normal_start()}),
      positions_(this->store_, "position_embedding", patches_, shape.width, normal_start()),
      blocks_([&] {
        std::deque<Block<T>> blocks;
        for (std::size_t i = 0; i < shape.layers; ++i)
          blocks.emplace_back(this->store_, "blocks." + std::to_string(i), shape, Mask::none);
        return blocks;
      }()),
      final_norm_(this->store_, "final_norm", shape.width, shape.rms_norm ? NormKind::rms : NormKind::layer),
      pool_(this->store_, "pool"),
      head_(this->store_, "head", shape.width, shape.classes, {normal_start(), false, Operation::logits}),
      loss_(this->store_, "loss"),
      states_(shape.layers + 1) {}

// Pixel (y, x) of an image is element (y mod patch, x mod patch) of patch (y / patch, x / patch).
template <class T>
void Vision<T>::cut_patches(const Batch& batch) {
  const std::size_t side = shape_.image, patch = shape_.patch, across = side / patch, pixels = side * side;
  if (batch.size == 0 || batch.inputs.size() != batch.size * pixels)
    throw Error("batch: " + std::to_string(batch.inputs.size()) + " pixels are not " + std::to_string(batch.size) +
                " images of " + std::to_string(side) + "x" + std::to_string(side));
  input_.resize({batch.size * patches_, patch * patch});
  for (std::size_t n = 0; n < batch.size; ++n)
    for (std::size_t y = 0; y < side; ++y)
      for (std::size_t x = 0; x < side; ++x) {
        const std::size_t row = n * patches_ + y / patch * across + x / patch;
        input_.row(row)[y % patch * patch + x % patch] = static_cast<T>(batch.inputs[n * pixels + y * side + x]);
      }
}

template <class T>
T Vision<T>::forward(const Batch& batch) {
  cut_patches(batch);
  patch_embedding_.forward(input_, embedded_);
  positions_.forward(embedded_, patches_, states_[0]);
  for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i].forward(states_[i], batch.size, states_[i + 1]);
  final_norm_.forward(states_.back(), normed_);
  pool_.forward(normed_, batch.size, pooled_);
  head_.forward(pooled_, logits_);
  return loss_.forward(logits_, batch.targets);
}

template <class T>
void Vision<T>::backward(T loss_scale) {
  loss_.backward(loss_scale, d_logits_);
  head_.backward(d_logits_, &d_pooled_);
  pool_.backward(d_pooled_, d_normed_);
  final_norm_.backward(d_normed_, stream_);
  for (std::size_t i = blocks_.size(); i-- > 0;) blocks_[i].backward(stream_);
  positions_.backward(stream_);
  patch_embedding_.backward(stream_, nullptr);
}

template <class T>
std::uint64_t Vision<T>::multiply_adds(std::size_t batch_size) const {
  std::uint64_t sum = head_.multiply_adds(batch_size) + patch_embedding_.multiply_adds(batch_size * patches_, false);
  for (const Block<T>& block : blocks_) sum += block.multiply_adds(batch_size, patches_);
  return sum;
}

template class Vision<float>;
template class Vision<double>;

}  // namespace narrow::train
