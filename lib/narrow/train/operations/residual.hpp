// The residual sum: y = x + f.  Backward: dy goes into the branch as it is; dx = dy + what comes back from the branch.
#pragma once

#include "narrow/train/operations/elementwise.hpp"

namespace narrow::train {

template <class T>
class Residual {
 public:
  Residual(Store<T>& store, const std::string& name)
      : store_(store),
        policy_(store.policy[Operation::residual]),
        roles_(store, name, Operation::residual),
        branch_(store.quantiser(name + ".branch", Operation::residual, Role::activations)) {}

  void forward(const Tensor<T>& x, const Tensor<T>& f, Tensor<T>& y) {
    roles_.activations.keep(x.span(), 1, x.size(), store_.step);
    branch_.keep(f.span(), 1, f.size(), store_.step);
    y.resize(x.shape);
    add(roles_.activations.kept(), branch_.kept(), y);
    roles_.output.round(y.span(), store_.step);
  }
  // Before the branch: dy in the format of gradients.
  void begin_backward(Tensor<T>& dy) { roles_.gradients.round(dy.span(), store_.step); }
  // After it: dy becomes dx.
  void end_backward(Tensor<T>& dy, const Tensor<T>& from_branch) {
    add(dy.span(), from_branch.span(), dy);
    roles_.input_gradients.round(dy.span(), store_.step);
  }

 private:
  void add(std::span<const T> a, std::span<const T> b, Tensor<T>& y) {
    each_element<T>(a.size(), policy_.arithmetic, store_.step.threads, [&](const auto& r, std::size_t i, auto kind) {
      put(y.data.data() + i, r(take(a.data() + i, kind) + take(b.data() + i, kind)));
    });
  }

  Store<T>& store_;
  const OperationPolicy& policy_;
  Roles<T> roles_;
  Quantiser<T>& branch_;
};

}  // namespace narrow::train
