#include "narrow/train/operations/linear.hpp"

#include "narrow/train/operations/product.hpp"

namespace narrow::train {

template <class T>
Linear<T>::Linear(Store<T>& store, const std::string& name, std::size_t inputs, std::size_t outputs,
                  const Options& options)
    : store_(store),
      policy_(store.policy[options.operation]),
      inputs_(inputs),
      outputs_(outputs),
      weight_(store.parameter(name + ".weight", {outputs, inputs}, options.weight)),
      roles_(store, name, options.operation),
      weights_(store.quantiser(name, options.operation, Role::weights)),
      weight_gradients_(store.quantiser(name, options.operation, Role::weight_gradients)) {
  if (options.has_bias) bias_.emplace(store, name + ".bias", outputs, options.operation);
}

template <class T>
void Linear<T>::forward(const Tensor<T>& x, Tensor<T>& y) {
  const std::size_t rows = x.size() / inputs_;
  y.resize({rows, outputs_});
  roles_.activations.keep(x.span(), rows, inputs_, store_.step);
  weights_.keep(weight_.value.span(), outputs_, inputs_, store_.step);
  product(policy_.forward, roles_.activations.over_cols(store_.step), weights_.over_cols(store_.step),
          matrix(y.data.data(), rows, outputs_), store_.step.threads);
  if (bias_) bias_->add_to(y);
  roles_.output.round(y.span(), store_.step);
}

template <class T>
void Linear<T>::backward(const Tensor<T>& dy, Tensor<T>* dx) {
  const Step& step = store_.step;
  const std::size_t rows = dy.size() / outputs_;
  roles_.gradients.keep(dy.span(), rows, outputs_, step);
  if (dx != nullptr) {
    dx->resize({rows, inputs_});
    product(policy_.dgrad, roles_.gradients.over_cols(step), weights_.over_rows(step),
            matrix(dx->data.data(), rows, inputs_), step.threads);
    roles_.input_gradients.round(dx->span(), step);
  }
  const bool hadamard = policy_.wgrad.hadamard;
  product(policy_.wgrad, roles_.gradients.over_rows(step, hadamard), roles_.activations.over_rows(step, hadamard),
          matrix(weight_.gradient.data.data(), outputs_, inputs_), step.threads);
  weight_gradients_.round(weight_.gradient.span(), step);
  if (bias_) bias_->backward(dy, roles_.gradients);
}

template class Linear<float>;
template class Linear<double>;

}  // namespace narrow::train
