// The mean over the positions of a sequence: y = (x_0 + x_1 + ...) / n, first to last; dx_i = dy / n.
#pragma once

#include "narrow/train/operations/elementwise.hpp"

namespace narrow::train {

template <class T>
class Pool {
 public:
  Pool(Store<T>& store, const std::string& name)
      : store_(store), policy_(store.policy[Operation::residual]), roles_(store, name, Operation::residual) {}

  void forward(const Tensor<T>& x, std::size_t sequences, Tensor<T>& y) {
    const std::size_t width = x.cols(), length = x.rows() / sequences;
    length_ = length;
    y.resize({sequences, width});
    roles_.activations.keep(x.span(), x.rows(), width, store_.step);
    const T* from = roles_.activations.kept().data();
    with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
      parallel_parts(sequences, rows_a_part(length * width), store_.step.threads,
                     [&](std::size_t begin, std::size_t end) {
                       for (std::size_t n = begin; n < end; ++n)
                         for_elements<T>(width, r, [&](std::size_t j, auto kind) {
                           using V = decltype(kind);
                           V sum{};
                           for (std::size_t i = 0; i < length; ++i)
                             sum = r(sum + take(from + (n * length + i) * width + j, kind));
                           put(y.row(n) + j, r(sum / static_cast<T>(length)));
                         });
                     });
    });
    roles_.output.round(y.span(), store_.step);
  }

  void backward(const Tensor<T>& dy, Tensor<T>& dx) {
    const std::size_t width = dy.cols();
    dx.resize({dy.rows() * length_, width});
    roles_.gradients.keep(dy.span(), dy.rows(), width, store_.step);
    const T* from = roles_.gradients.kept().data();
    with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
      for (std::size_t i = 0; i < dx.rows(); ++i)
        for_elements<T>(width, r, [&](std::size_t j, auto kind) {
          put(dx.row(i) + j, r(take(from + i / length_ * width + j, kind) / static_cast<T>(length_)));
        });
    });
    roles_.input_gradients.round(dx.span(), store_.step);
  }

 private:
  Store<T>& store_;
  const OperationPolicy& policy_;
  Roles<T> roles_;
  std::size_t length_ = 1;
};

}  // namespace narrow::train
