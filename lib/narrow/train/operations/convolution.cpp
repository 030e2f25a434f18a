#include "narrow/train/operations/convolution.hpp"

#include "narrow/base/error.hpp"
#include "narrow/train/operations/product.hpp"

namespace narrow::train {

namespace {

std::vector<std::size_t> weight_shape(std::size_t inputs, std::size_t outputs, const std::vector<Sliding>& dimensions) {
  if (dimensions.empty() || dimensions.size() > 3)
    throw Error("a convolution over " + std::to_string(dimensions.size()) + " dimensions; 1 to 3");
  std::vector<std::size_t> shape{outputs};
  for (const Sliding& s : dimensions) {
    if (s.kernel == 0 || s.stride == 0) throw Error("a convolution with a kernel or a stride of 0; at least 1");
    shape.push_back(s.kernel);
  }
  shape.push_back(inputs);
  return shape;
}

// Dimensions that are missing come first.
template <class Read>
Readings readings_of(const std::vector<Sliding>& dimensions, const std::vector<std::size_t>& shape, const Read& read) {
  Readings all;
  for (std::size_t d = 0; d < dimensions.size(); ++d)
    all[all.size() - dimensions.size() + d] = read(dimensions[d], shape[d + 1]);
  return all;
}

}  // namespace

template <class T>
Convolution<T>::Convolution(Store<T>& store, const std::string& name, std::size_t inputs, std::size_t outputs,
                            const Options& options)
    : store_(store),
      policy_(store.policy[Operation::convolution]),
      name_(name),
      inputs_(inputs),
      outputs_(outputs),
      taps_(1),
      dimensions_(options.dimensions),
      weight_(store.parameter(name + ".weight", weight_shape(inputs, outputs, dimensions_), options.weight)),
      roles_(store, name, Operation::convolution),
      weights_(store.quantiser(name, Operation::convolution, Role::weights)),
      weight_gradients_(store.quantiser(name, Operation::convolution, Role::weight_gradients)) {
  for (const Sliding& s : dimensions_) taps_ *= s.kernel;
  if (options.has_bias) bias_.emplace(store, name + ".bias", outputs, Operation::convolution);
}

// The windows (or places) of a tensor that the quantiser keeps, as the left operand of a product.
template <class T>
Factor<T> Convolution<T>::unfolded(Quantiser<T>& quantiser, const Tensor<T>& x, const Readings& readings,
                                   Tensor<T>& rows) {
  const bool in_blocks = is_block(quantiser.precision().scaling);
  std::size_t count = shape_[0], taps = x.cols();
  for (const Reading& r : readings) count *= r.rows, taps *= r.taps;
  rows.resize({count, taps});
  unfold(in_blocks ? x.data.data() : quantiser.kept().data(), shape_[0], readings, x.cols(), rows.data.data(),
         store_.step.threads);
  if (!in_blocks) return quantiser.part_of(matrix<const T>(rows.data.data(), count, taps));
  quantiser.keep(rows.span(), count, taps, store_.step);
  return quantiser.over_cols(store_.step);
}

template <class T>
void Convolution<T>::forward(const Tensor<T>& x, Tensor<T>& y) {
  bool fits = x.shape.size() == dimensions_.size() + 2 && x.cols() == inputs_;
  std::vector<std::size_t> shape = x.shape;
  for (std::size_t d = 0; fits && d < dimensions_.size(); ++d) {
    shape[d + 1] = dimensions_[d].windows(x.shape[d + 1]);
    fits = shape[d + 1] > 0;
  }
  if (!fits)
    throw Error(name_ + ": a convolution over " + std::to_string(dimensions_.size()) + " dimensions of " +
                std::to_string(inputs_) + " channels whose kernel is larger than x, or x has another shape");
  shape_ = x.shape;
  shape.back() = outputs_;
  y.resize(shape);
  const Step& step = store_.step;
  roles_.activations.keep(x.span(), x.rows(), inputs_, step);
  weights_.keep(weight_.value.span(), outputs_, taps_ * inputs_, step);
  const Factor<T> windows = unfolded(roles_.activations, x, readings_of(dimensions_, shape_, read_windows), windows_);
  product(policy_.forward, windows, weights_.over_cols(step), matrix(y.data.data(), y.rows(), outputs_), step.threads);
  if (bias_) bias_->add_to(y);
  roles_.output.round(y.span(), step);
}

// [outputs, taps, inputs] as [inputs, taps, outputs].
template <class T>
Factor<T> Convolution<T>::turned_weights() {
  const bool in_blocks = is_block(policy_.weights.scaling);
  const T* w = in_blocks ? weight_.value.data.data() : weights_.kept().data();
  turned_.resize({inputs_, taps_ * outputs_});
  for (std::size_t o = 0; o < outputs_; ++o)
    for (std::size_t t = 0; t < taps_; ++t)
      for (std::size_t i = 0; i < inputs_; ++i) turned_.row(i)[t * outputs_ + o] = w[(o * taps_ + t) * inputs_ + i];
  if (!in_blocks) return weights_.part_of(matrix<const T>(turned_.data.data(), inputs_, taps_ * outputs_));
  weights_.keep(turned_.span(), inputs_, taps_ * outputs_, store_.step);
  return weights_.over_cols(store_.step);
}

template <class T>
void Convolution<T>::backward(const Tensor<T>& dy, Tensor<T>* dx) {
  const Step& step = store_.step;
  roles_.gradients.keep(dy.span(), dy.size() / outputs_, outputs_, step);
  const Factor<T> windows =
      is_block(policy_.activations.scaling)
          ? roles_.activations.over_rows(step, policy_.wgrad.hadamard)
          : roles_.activations.part_of(
                matrix<const T>(windows_.data.data(), windows_.rows(), windows_.cols()).transposed());
  product(policy_.wgrad, roles_.gradients.over_rows(step, policy_.wgrad.hadamard), windows,
          matrix(weight_.gradient.data.data(), outputs_, taps_ * inputs_), step.threads);
  weight_gradients_.round(weight_.gradient.span(), step);
  if (bias_) bias_->backward(dy, roles_.gradients);
  if (dx == nullptr) return;
  dx->resize(shape_);
  const Factor<T> places = unfolded(roles_.gradients, dy, readings_of(dimensions_, shape_, read_back), places_);
  product(policy_.dgrad, places, turned_weights(), matrix(dx->data.data(), dx->rows(), inputs_), step.threads);
  roles_.input_gradients.round(dx->span(), step);
}

template class Convolution<float>;
template class Convolution<double>;

}  // namespace narrow::train
