#include "narrow/train/models/cnn.hpp"

#include <cmath>

#include "narrow/base/error.hpp"

namespace narrow::train {

// PyTorch's start of convolutions and linears: uniform within 1 / sqrt(terms of a sum).
template <class T>
Cnn<T>::Cnn(const ModelShape& shape, const Policy& policy, std::uint64_t seed)
    : StoredModel<T>(policy, seed), side_(shape.image), loss_(this->store_, "loss") {
  const auto start = [](std::size_t terms) { return Start::uniform(1 / std::sqrt(static_cast<double>(terms))); };
  Store<T>& store = this->store_;
  std::size_t channels = 1, side = shape.image;
  for (std::size_t i = 0; i < shape.hidden.size(); ++i) {
    const std::string number = std::to_string(i);
    const Sliding s = sliding(i);
    layers_.push_back({{store,
                        "convolutions." + number,
                        channels,
                        shape.hidden[i],
                        {{s, s}, start(s.kernel * s.kernel * channels), false}},
                       {store, "norms." + number, shape.hidden[i]},
                       {store, "relus." + number},
                       side,
                       {},
                       {},
                       {}});
    channels = shape.hidden[i], side = s.windows(side);
  }
  const std::size_t features = side * side * channels;
  head_.emplace(store, "head", features, shape.classes,
                typename Linear<T>::Options{start(features), true, Operation::logits});
}

template <class T>
T Cnn<T>::forward(const Batch& batch) {
  if (batch.size == 0 || batch.inputs.size() != batch.size * side_ * side_)
    throw Error("batch: " + std::to_string(batch.inputs.size()) + " pixels are not " + std::to_string(batch.size) +
                " images of " + std::to_string(side_) + "x" + std::to_string(side_));
  input_.resize({batch.size, side_, side_, 1});
  std::copy(batch.inputs.begin(), batch.inputs.end(), input_.data.begin());
  const Tensor<T>* x = &input_;
  for (Layer& layer : layers_) {
    layer.convolution.forward(*x, layer.sums);
    layer.norm.forward(layer.sums, layer.normed);
    layer.relu.forward(layer.normed, layer.bent);
    x = &layer.bent;
  }
  head_->forward(*x, logits_);
  return loss_.forward(logits_, batch.targets);
}

template <class T>
void Cnn<T>::backward(T loss_scale) {
  loss_.backward(loss_scale, d_logits_);
  head_->backward(d_logits_, &gradient_);
  gradient_.shape = layers_.back().bent.shape;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    layers_[i].relu.backward(gradient_, gradient_);
    layers_[i].norm.backward(gradient_, next_);
    layers_[i].convolution.backward(next_, i == 0 ? nullptr : &gradient_);
  }
}

template <class T>
std::uint64_t Cnn<T>::multiply_adds(std::size_t batch_size) const {
  std::uint64_t sum = head_->multiply_adds(batch_size);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::size_t places = layers_[i].side, windows = sliding(i).windows(places);
    sum += layers_[i].convolution.multiply_adds(batch_size, places * places, windows * windows, i > 0);
  }
  return sum;
}

template class Cnn<float>;
template class Cnn<double>;

}  // namespace narrow::train
