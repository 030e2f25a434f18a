// Multi-head attention: four linear layers around scores, scale, soft cap, softmax and context, each an operation of
// its own.
#pragma once

#include <optional>

#include "narrow/train/models/model.hpp"
#include "narrow/train/operations/context.hpp"
#include "narrow/train/operations/linear.hpp"
#include "narrow/train/operations/norm.hpp"
#include "narrow/train/operations/scale_scores.hpp"
#include "narrow/train/operations/scores.hpp"
#include "narrow/train/operations/soft_cap.hpp"

namespace narrow::train {

template <class T>
class Attention {
 public:
  Attention(Store<T>& store, const std::string& name, const ModelShape& shape, Mask mask);
  // x: [sequences * length, width]; it must stay until backward.
  void forward(const Tensor<T>& x, std::size_t sequences, Tensor<T>& y);
  void backward(const Tensor<T>& dy, Tensor<T>& dx);
  std::uint64_t multiply_adds(std::size_t sequences, std::size_t length) const;

 private:
  // What queries and keys go through between their linear layer and the scores.
  struct Normed {
    Normed(Store<T>& store, const std::string& name, std::size_t width) : norm(store, name, width, NormKind::rms) {}
    Norm<T> norm;
    Tensor<T> value, gradient;
  };
  void add_input_gradients(Tensor<T>& dx);

  Store<T>& store_;
  Heads heads_;
  Linear<T> query_, key_, value_, output_;
  std::optional<Normed> query_norm_, key_norm_;
  Scores<T> scores_;
  ScaleScores<T> scale_;
  std::optional<SoftCap<T>> soft_cap_;
  Softmax<T> softmax_;
  Context<T> context_;
  Quantiser<T>& input_gradients_;

  Tensor<T> q_, k_, v_, p_, o_;
  Tensor<T> dq_, dk_, dv_, dp_, do_, dx_query_, dx_key_, dx_value_;
};

}  // namespace narrow::train
