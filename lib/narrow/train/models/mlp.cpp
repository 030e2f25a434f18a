#include "narrow/train/models/mlp.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/base/error.hpp"

namespace narrow::train {

template <class T>
Mlp<T>::Mlp(const ModelShape& shape, const Policy& policy, std::uint64_t seed)
    : StoredModel<T>(policy, seed),
      inputs_(shape.inputs),
      loss_(this->store_, "loss"),
      sums_(shape.hidden.size() + 1),
      bent_(shape.hidden.size()) {
  std::size_t width = shape.inputs;
  for (std::size_t i = 0; i <= shape.hidden.size(); ++i) {
    const std::string name = "layers." + std::to_string(i);
    const bool last = i == shape.hidden.size();
    const std::size_t next = last ? shape.classes : shape.hidden[i];
    layers_.emplace_back(this->store_, name, width, next,
                         typename Linear<T>::Options{Start::uniform(1 / std::sqrt(static_cast<double>(width))), true,
                                                     last ? Operation::logits : Operation::linear});
    if (!last) relus_.emplace_back(this->store_, name + ".relu");
    width = next;
  }
}

template <class T>
T Mlp<T>::forward(const Batch& batch) {
  if (batch.size == 0 || batch.inputs.size() != batch.size * inputs_)
    throw Error("batch: " + std::to_string(batch.inputs.size()) + " inputs are not " + std::to_string(batch.size) +
                " rows of " + std::to_string(inputs_));
  input_.resize({batch.size, inputs_});
  std::copy(batch.inputs.begin(), batch.inputs.end(), input_.data.begin());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].forward(i == 0 ? input_ : bent_[i - 1], sums_[i]);
    if (i < relus_.size()) relus_[i].forward(sums_[i], bent_[i]);
  }
  return loss_.forward(sums_.back(), batch.targets);
}

template <class T>
void Mlp<T>::backward(T loss_scale) {
  loss_.backward(loss_scale, gradient_);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    layers_[i].backward(gradient_, i == 0 ? nullptr : &next_);
    if (i > 0) relus_[i - 1].backward(next_, gradient_);
  }
}

template <class T>
std::uint64_t Mlp<T>::multiply_adds(std::size_t batch_size) const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) sum += layers_[i].multiply_adds(batch_size, i > 0);
  return sum;
}

template class Mlp<float>;
template class Mlp<double>;

}  // namespace narrow::train
