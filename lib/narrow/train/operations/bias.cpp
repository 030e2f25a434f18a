#include "narrow/train/operations/bias.hpp"

#include "narrow/train/operations/column_sums.hpp"

namespace narrow::train {

// A bias is added to the output and is of its format.
template <class T>
Bias<T>::Bias(Store<T>& store, const std::string& name, std::size_t width, Operation operation)
    : store_(store),
      policy_(store.policy[operation]),
      width_(width),
      bias_(store.parameter(name, {width}, Start::constant(0))),
      values_(store.quantiser(name, operation, Role::output)),
      sums_(store.quantiser(name, operation, Role::weight_gradients)) {}

template <class T>
void Bias<T>::add_to(Tensor<T>& y) {
  values_.keep(bias_.value.span(), 1, width_, store_.step);
  const T* b = values_.kept().data();
  with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
    parallel_parts(y.rows(), rows_a_part(width_), store_.step.threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        for_elements<T>(width_, r, [&](std::size_t j, auto kind) {
          put(y.row(i) + j, r(r(take(y.row(i) + j, kind)) + take(b + j, kind)));
        });
    });
  });
}

template <class T>
void Bias<T>::backward(const Tensor<T>& dy, const Quantiser<T>& gradients) {
  // Scaled operands are for products: the bias sees the gradient as it came.
  const bool scaled = policy_.gradients.scaling != Scaling::none;
  const T* g = scaled ? dy.data.data() : gradients.kept().data();
  with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
    column_sums<T>(dy.size() / width_, width_, r, bias_.gradient.data.data(), store_.step.threads,
                   [&](std::size_t at, auto kind) { return take(g + at, kind); });
  });
  sums_.round(bias_.gradient.span(), store_.step);
}

template class Bias<float>;
template class Bias<double>;

}  // namespace narrow::train
