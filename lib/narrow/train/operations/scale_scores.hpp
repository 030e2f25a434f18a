// Scores times a constant: y = c x, dx = c dy, with c = 1 / sqrt(width of a head) in FP32.
#pragma once

#include "narrow/train/operations/elementwise.hpp"

namespace narrow::train {

template <class T>
class ScaleScores {
 public:
  ScaleScores(Store<T>& store, const std::string& name, double factor)
      : store_(store),
        policy_(store.policy[Operation::scale]),
        roles_(store, name, Operation::scale),
        factor_(static_cast<T>(factor)) {}

  // In place.
  void forward(Tensor<T>& x) { times(x, roles_.activations, roles_.output); }
  void backward(Tensor<T>& dy) { times(dy, roles_.gradients, roles_.input_gradients); }

 private:
  void times(Tensor<T>& x, Quantiser<T>& before, Quantiser<T>& after) {
    before.round(x.span(), store_.step);
    T* data = x.data.data();
    each_element<T>(x.size(), policy_.arithmetic, store_.step.threads,
                    [&](const auto& r, std::size_t i, auto kind) { put(data + i, r(take(data + i, kind) * factor_)); });
    after.round(x.span(), store_.step);
  }

  Store<T>& store_;
  const OperationPolicy& policy_;
  Roles<T> roles_;
  T factor_;
};

}  // namespace narrow::train
