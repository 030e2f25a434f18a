#include "narrow/train/operations/softmax.hpp"

#include <algorithm>

#include "narrow/train/operations/arithmetic.hpp"
#include "narrow/train/operations/parts.hpp"
#include "narrow/train/operations/softmax_row.hpp"

namespace narrow::train {

template <class T>
Softmax<T>::Softmax(Store<T>& store, const std::string& name, Mask mask)
    : store_(store), policy_(store.policy[Operation::softmax]), roles_(store, name, Operation::softmax), mask_(mask) {}

template <class T>
void Softmax<T>::forward(Tensor<T>& x, std::size_t length) {
  roles_.activations.round(x.span(), store_.step);
  with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
    parallel_parts(
        x.size() / length, rows_a_part(length), store_.step.threads, [&](std::size_t begin, std::size_t end) {
          for (std::size_t row = begin; row < end; ++row) {
            T* p = x.data.data() + row * length;
            const std::size_t n = visible(mask_, row % length, length);
            const SoftmaxRow<T> s = exp_row(p, n, p, r);
            for_elements<T>(n, r, [&](std::size_t j, auto kind) { put(p + j, r(take(p + j, kind) / s.sum)); });
            std::fill(p + n, p + length, T{0});
          }
        });
  });
  roles_.output.round(x.span(), store_.step);
}

template <class T>
void Softmax<T>::backward(const Tensor<T>& p, Tensor<T>& dp, std::size_t length) {
  roles_.gradients.round(dp.span(), store_.step);
  with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
    parallel_parts(
        p.size() / length, rows_a_part(length), store_.step.threads, [&](std::size_t begin, std::size_t end) {
          for (std::size_t row = begin; row < end; ++row) {
            const T* y = p.data.data() + row * length;
            T* d = dp.data.data() + row * length;
            const std::size_t n = visible(mask_, row % length, length);
            const T mean =
                sum_of<T>(n, r, [&](std::size_t j, auto kind) { return r(take(y + j, kind) * take(d + j, kind)); });
            for_elements<T>(n, r, [&](std::size_t j, auto kind) {
              put(d + j, r(take(y + j, kind) * r(take(d + j, kind) - mean)));
            });
            std::fill(d + n, d + length, T{0});
          }
        });
  });
  roles_.input_gradients.round(dp.span(), store_.step);
}

template class Softmax<float>;
template class Softmax<double>;

}  // namespace narrow::train
