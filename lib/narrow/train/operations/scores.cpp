#include "narrow/train/operations/scores.hpp"

#include <algorithm>

#include "narrow/train/operations/product.hpp"

namespace narrow::train {

template <class T>
Scores<T>::Scores(Store<T>& store, const std::string& name, Mask mask)
    : store_(store),
      policy_(store.policy[Operation::scores]),
      mask_(mask),
      queries_(store.quantiser(name + ".queries", Operation::scores, Role::activations)),
      keys_(store.quantiser(name + ".keys", Operation::scores, Role::activations)),
      gradients_(store.quantiser(name, Operation::scores, Role::gradients)),
      output_(store.quantiser(name, Operation::scores, Role::output)),
      query_gradients_(store.quantiser(name + ".queries", Operation::scores, Role::input_gradients)),
      key_gradients_(store.quantiser(name + ".keys", Operation::scores, Role::input_gradients)) {}

template <class T>
void Scores<T>::forward(const Heads& heads, const Tensor<T>& q, const Tensor<T>& k, Tensor<T>& s) {
  heads_ = heads;
  s.resize({heads.sequences, heads.heads, heads.length, heads.length});
  queries_.keep(q.span(), q.rows(), q.cols(), store_.step);
  keys_.keep(k.span(), k.rows(), k.cols(), store_.step);
  heads.each(store_.step.threads, [&](std::size_t n) {
    const Matrix<T> square = heads.square_of(s.data.data(), n);
    product(policy_.forward, queries_.part_of(heads.rows_of(queries_.kept().data(), n)),
            keys_.part_of(heads.rows_of(keys_.kept().data(), n)), square, 1);
    for (std::size_t i = 0; i < heads.length; ++i)
      std::fill(&square(i, 0) + visible(mask_, i, heads.length), &square(i, 0) + heads.length, T{0});
  });
  output_.round(s.span(), store_.step);
}

template <class T>
void Scores<T>::backward(const Tensor<T>& ds, Tensor<T>& dq, Tensor<T>& dk) {
  const Heads& heads = heads_;
  dq.resize({heads.sequences * heads.length, heads.width()});
  dk.resize(dq.shape);
  gradients_.keep(ds.span(), ds.rows(), ds.cols(), store_.step);
  heads.each(store_.step.threads, [&](std::size_t n) {
    const Matrix<const T> square = heads.square_of(gradients_.kept().data(), n);
    product(policy_.dgrad, gradients_.part_of(square),
            keys_.part_of(heads.rows_of(keys_.kept().data(), n).transposed()), heads.rows_of(dq.data.data(), n), 1);
    product(policy_.wgrad, gradients_.part_of(square.transposed()),
            queries_.part_of(heads.rows_of(queries_.kept().data(), n).transposed()), heads.rows_of(dk.data.data(), n),
            1);
  });
  query_gradients_.round(dq.span(), store_.step);
  key_gradients_.round(dk.span(), store_.step);
}

template class Scores<float>;
template class Scores<double>;

}  // namespace narrow::train
