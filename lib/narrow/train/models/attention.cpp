#include "narrow/train/models/attention.hpp"

#include <cmath>

#include "narrow/train/models/start.hpp"

namespace narrow::train {

template <class T>
Attention<T>::Attention(Store<T>& store, const std::string& name, const ModelShape& shape, Mask mask)
    : store_(store),
      heads_{0, 0, shape.heads, shape.width / shape.heads},
      query_(store, name + ".query", shape.width, shape.width, {normal_start()}),
      key_(store, name + ".key", shape.width, shape.width, {normal_start()}),
      value_(store, name + ".value", shape.width, shape.width, {normal_start()}),
      output_(store, name + ".output", shape.width, shape.width, {residual_start(shape.layers)}),
      scores_(store, name + ".scores", mask),
      scale_(store, name + ".scale", 1 / std::sqrt(static_cast<double>(heads_.head_width))),
      softmax_(store, name + ".softmax", mask),
      context_(store, name + ".context"),
      input_gradients_(store.quantiser(name + ".input", Operation::linear, Role::input_gradients)) {
  if (shape.qk_norm) {
    query_norm_.emplace(store, name + ".query_norm", heads_.head_width);
    key_norm_.emplace(store, name + ".key_norm", heads_.head_width);
  }
  if (shape.soft_cap > 0) soft_cap_.emplace(store, name + ".soft_cap", shape.soft_cap);
}

template <class T>
std::uint64_t Attention<T>::multiply_adds(std::size_t sequences, std::size_t length) const {
  Heads heads = heads_;
  heads.sequences = sequences, heads.length = length;
  constexpr std::uint64_t products = 6;  // S, dQ, dK, O, dP, dV
  return 4 * query_.multiply_adds(sequences * length) + products * heads.multiply_adds();
}

template <class T>
void Attention<T>::forward(const Tensor<T>& x, std::size_t sequences, Tensor<T>& y) {
  heads_.sequences = sequences, heads_.length = x.rows() / sequences;
  query_.forward(x, q_), key_.forward(x, k_), value_.forward(x, v_);
  if (query_norm_) {
    query_norm_->norm.forward(q_, query_norm_->value), key_norm_->norm.forward(k_, key_norm_->value);
    query_norm_->value.shape = q_.shape, key_norm_->value.shape = k_.shape;
  }
  scores_.forward(heads_, query_norm_ ? query_norm_->value : q_, key_norm_ ? key_norm_->value : k_, p_);
  scale_.forward(p_);
  if (soft_cap_) soft_cap_->forward(p_, p_);
  softmax_.forward(p_, heads_.length);
  context_.forward(heads_, p_, v_, o_);
  output_.forward(o_, y);
}

template <class T>
void Attention<T>::backward(const Tensor<T>& dy, Tensor<T>& dx) {
  output_.backward(dy, &do_);
  context_.backward(do_, dp_, dv_);
  softmax_.backward(p_, dp_, heads_.length);
  if (soft_cap_) soft_cap_->backward(dp_, dp_);
  scale_.backward(dp_);
  if (query_norm_) {
    scores_.backward(dp_, query_norm_->gradient, key_norm_->gradient);
    query_norm_->norm.backward(query_norm_->gradient, dq_), key_norm_->norm.backward(key_norm_->gradient, dk_);
    dq_.shape = q_.shape, dk_.shape = k_.shape;
  } else {
    scores_.backward(dp_, dq_, dk_);
  }
  query_.backward(dq_, &dx_query_), key_.backward(dk_, &dx_key_), value_.backward(dv_, &dx_value_);
  add_input_gradients(dx);
}

// The input went three ways: dx = (from the queries + from the keys) + from the values.
template <class T>
void Attention<T>::add_input_gradients(Tensor<T>& dx) {
  dx.resize(dx_query_.shape);
  each_element<T>(dx.size(), store_.policy[Operation::linear].arithmetic, store_.step.threads,
                  [&](const auto& r, std::size_t i, auto kind) {
                    using V = decltype(kind);
                    const V two = r(take(dx_query_.data.data() + i, kind) + take(dx_key_.data.data() + i, kind));
                    put(dx.data.data() + i, r(two + take(dx_value_.data.data() + i, kind)));
                  });
  input_gradients_.round(dx.span(), store_.step);
}

template class Attention<float>;
template class Attention<double>;

}  // namespace narrow::train
