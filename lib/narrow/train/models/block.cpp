#include "narrow/train/models/block.hpp"

#include "narrow/train/models/start.hpp"

namespace narrow::train {

template <class T>
Block<T>::Block(Store<T>& store, const std::string& name, const ModelShape& shape, Mask mask)
    : norm1_(store, name + ".norm1", shape.width, shape.rms_norm ? NormKind::rms : NormKind::layer),
      attention_(store, name + ".attention", shape, mask),
      residual1_(store, name + ".residual1"),
      norm2_(store, name + ".norm2", shape.width, shape.rms_norm ? NormKind::rms : NormKind::layer),
      up_(store, name + ".mlp.up", shape.width, 4 * shape.width, {normal_start()}),
      gelu_(store, name + ".mlp.gelu"),
      down_(store, name + ".mlp.down", 4 * shape.width, shape.width, {residual_start(shape.layers)}),
      residual2_(store, name + ".residual2") {}

template <class T>
void Block<T>::forward(const Tensor<T>& x, std::size_t sequences, Tensor<T>& y) {
  norm1_.forward(x, normed1_);
  attention_.forward(normed1_, sequences, attended_);
  residual1_.forward(x, attended_, middle_);
  norm2_.forward(middle_, normed2_);
  up_.forward(normed2_, raised_);
  gelu_.forward(raised_, bent_);
  down_.forward(bent_, lowered_);
  residual2_.forward(middle_, lowered_, y);
}

template <class T>
void Block<T>::backward(Tensor<T>& dy) {
  residual2_.begin_backward(dy);
  down_.backward(dy, &inner_);
  gelu_.backward(inner_, inner_);
  up_.backward(inner_, &branch_);
  norm2_.backward(branch_, inner_);
  residual2_.end_backward(dy, inner_);
  residual1_.begin_backward(dy);
  attention_.backward(dy, branch_);
  norm1_.backward(branch_, inner_);
  residual1_.end_backward(dy, inner_);
}

template <class T>
std::uint64_t Block<T>::multiply_adds(std::size_t sequences, std::size_t length) const {
  const std::size_t rows = sequences * length;
  return attention_.multiply_adds(sequences, length) + up_.multiply_adds(rows) + down_.multiply_adds(rows);
}

template class Block<float>;
template class Block<double>;

}  // namespace narrow::train
