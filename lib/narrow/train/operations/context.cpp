#include "narrow/train/operations/context.hpp"

#include "narrow/train/operations/product.hpp"

namespace narrow::train {

template <class T>
Context<T>::Context(Store<T>& store, const std::string& name)
    : store_(store),
      policy_(store.policy[Operation::context]),
      shares_(store.quantiser(name + ".shares", Operation::context, Role::activations)),
      values_(store.quantiser(name + ".values", Operation::context, Role::activations)),
      gradients_(store.quantiser(name, Operation::context, Role::gradients)),
      output_(store.quantiser(name, Operation::context, Role::output)),
      share_gradients_(store.quantiser(name + ".shares", Operation::context, Role::input_gradients)),
      value_gradients_(store.quantiser(name + ".values", Operation::context, Role::input_gradients)) {}

template <class T>
void Context<T>::forward(const Heads& heads, const Tensor<T>& p, const Tensor<T>& v, Tensor<T>& o) {
  heads_ = heads;
  o.resize(v.shape);
  shares_.keep(p.span(), p.rows(), p.cols(), store_.step);
  values_.keep(v.span(), v.rows(), v.cols(), store_.step);
  heads.each(store_.step.threads, [&](std::size_t n) {
    product(policy_.forward, shares_.part_of(heads.square_of(shares_.kept().data(), n)),
            values_.part_of(heads.rows_of(values_.kept().data(), n).transposed()), heads.rows_of(o.data.data(), n), 1);
  });
  output_.round(o.span(), store_.step);
}

// dV comes out transposed, so that the gradient is the first operand here too.
template <class T>
void Context<T>::backward(const Tensor<T>& d_o, Tensor<T>& dp, Tensor<T>& dv) {
  const Heads& heads = heads_;
  dp.resize({heads.sequences, heads.heads, heads.length, heads.length});
  dv.resize(d_o.shape);
  gradients_.keep(d_o.span(), d_o.rows(), d_o.cols(), store_.step);
  heads.each(store_.step.threads, [&](std::size_t n) {
    const Matrix<const T> rows = heads.rows_of(gradients_.kept().data(), n);
    product(policy_.dgrad, gradients_.part_of(rows), values_.part_of(heads.rows_of(values_.kept().data(), n)),
            heads.square_of(dp.data.data(), n), 1);
    product(policy_.wgrad, gradients_.part_of(rows.transposed()),
            shares_.part_of(heads.square_of(shares_.kept().data(), n).transposed()),
            heads.rows_of(dv.data.data(), n).transposed(), 1);
  });
  share_gradients_.round(dp.span(), store_.step);
  value_gradients_.round(dv.span(), store_.step);
}

template class Context<float>;
template class Context<double>;

}  // namespace narrow::train
