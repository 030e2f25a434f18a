#include "narrow/train/operations/batch_norm.hpp"

#include "narrow/base/error.hpp"
#include "narrow/train/operations/column_sums.hpp"

namespace narrow::train {

namespace {

// body(at, channel, kind) for every element.
template <class T, class R, class Body>
void by_channel(std::size_t rows, std::size_t width, const R& r, int threads, const Body& body) {
  parallel_parts(rows, rows_a_part(width), threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for_elements<T>(width, r, [&](std::size_t j, auto kind) { body(i * width + j, j, kind); });
  });
}

}  // namespace

template <class T>
BatchNorm<T>::BatchNorm(Store<T>& store, const std::string& name, std::size_t width)
    : store_(store),
      policy_(store.policy[Operation::batch_norm]),
      name_(name),
      width_(width),
      gain_(store.parameter(name + ".weight", {width}, Start::constant(1))),
      bias_(store.parameter(name + ".bias", {width}, Start::constant(0))),
      running_mean_(store.memory(name + ".running_mean", width, 0)),
      running_variance_(store.memory(name + ".running_var", width, 1)),
      roles_(store, name, Operation::batch_norm),
      gains_(store.quantiser(name, Operation::batch_norm, Role::weights)),
      gain_gradients_(store.quantiser(name, Operation::batch_norm, Role::weight_gradients)),
      biases_(store.quantiser(name + ".bias", Operation::batch_norm, Role::weights)),
      bias_gradients_(store.quantiser(name + ".bias", Operation::batch_norm, Role::weight_gradients)),
      means_(store.buffer_quantiser(name + ".running_mean", Operation::batch_norm)),
      variances_(store.buffer_quantiser(name + ".running_var", Operation::batch_norm)),
      mean_(width),
      variance_(width),
      inverse_(width) {}

template <class T>
template <class R>
void BatchNorm<T>::subtract_mean(const T* x, std::size_t rows, const R& r) {
  by_channel<T>(rows, width_, r, store_.step.threads, [&](std::size_t at, std::size_t j, auto kind) {
    put(normalised_.data.data() + at, r(take(x + at, kind) - take(mean_.data() + j, kind)));
  });
}

// Mean and variance of the batch, the latter in two passes; the running ones follow.
template <class T>
template <class R>
void BatchNorm<T>::take_statistics(const T* x, std::size_t rows, const R& r) {
  const int threads = store_.step.threads;
  const T n = static_cast<T>(rows), kept = static_cast<T>(1 - momentum), taken = static_cast<T>(momentum);
  const T* d = normalised_.data.data();
  column_sums<T>(rows, width_, r, mean_.data(), threads, [&](std::size_t at, auto kind) { return take(x + at, kind); });
  for (T& m : mean_) m = r(m / n);
  subtract_mean(x, rows, r);
  column_sums<T>(rows, width_, r, variance_.data(), threads,
                 [&](std::size_t at, auto kind) { return r(take(d + at, kind) * take(d + at, kind)); });
  for (std::size_t j = 0; j < width_; ++j) {
    const T squares = variance_[j];
    variance_[j] = r(squares / n);
    // Kernels hold these in FP32 and cast them to the buffer.
    running_mean_[j] = kept * running_mean_[j] + taken * mean_[j];
    running_variance_[j] = kept * running_variance_[j] + taken * (squares / (n - 1));
  }
}

template <class T>
void BatchNorm<T>::forward(const Tensor<T>& input, Tensor<T>& y) {
  const Step& step = store_.step;
  const std::size_t rows = input.size() / width_;
  was_training_ = step.is_training;
  if (was_training_ && rows < 2)
    throw Error(name_ + ": one value a channel has no variance; batch norm needs 2 or more to train");
  y.resize(input.shape), normalised_.resize(input.shape);
  roles_.activations.keep(input.span(), rows, width_, step);
  gains_.keep(gain_.value.span(), 1, width_, step);
  biases_.keep(bias_.value.span(), 1, width_, step);
  const T *x = roles_.activations.kept().data(), *g = gains_.kept().data(), *b = biases_.kept().data();
  with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
    if (was_training_) {
      take_statistics(x, rows, r);
    } else {
      mean_ = running_mean_, variance_ = running_variance_;
      subtract_mean(x, rows, r);
    }
    for (std::size_t j = 0; j < width_; ++j)
      inverse_[j] = r(1 / r(std::sqrt(r(variance_[j] + static_cast<T>(epsilon)))));
    T* h = normalised_.data.data();
    by_channel<T>(rows, width_, r, step.threads, [&](std::size_t at, std::size_t j, auto kind) {
      const auto hat = r(take(h + at, kind) * take(inverse_.data() + j, kind));
      put(h + at, hat);
      put(y.data.data() + at, r(r(hat * take(g + j, kind)) + take(b + j, kind)));
    });
  });
  if (was_training_) means_.round(running_mean_, step), variances_.round(running_variance_, step);
  roles_.output.round(y.span(), step);
}

template <class T>
void BatchNorm<T>::backward(const Tensor<T>& gradient, Tensor<T>& dx) {
  const Step& step = store_.step;
  const std::size_t rows = gradient.size() / width_;
  dx.resize(gradient.shape);
  roles_.gradients.keep(gradient.span(), rows, width_, step);
  const T *g = gains_.kept().data(), *dy = roles_.gradients.kept().data(), *h = normalised_.data.data();
  const T n = static_cast<T>(rows);
  std::vector<T> factor(width_), mean(width_), slope(width_);
  with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
    column_sums<T>(rows, width_, r, gain_.gradient.data.data(), step.threads,
                   [&](std::size_t at, auto kind) { return r(take(dy + at, kind) * take(h + at, kind)); });
    column_sums<T>(rows, width_, r, bias_.gradient.data.data(), step.threads,
                   [&](std::size_t at, auto kind) { return take(dy + at, kind); });
    for (std::size_t j = 0; j < width_; ++j) {
      factor[j] = r(g[j] * inverse_[j]);
      mean[j] = was_training_ ? r(bias_.gradient.data[j] / n) : 0;
      slope[j] = was_training_ ? r(gain_.gradient.data[j] / n) : 0;
    }
    by_channel<T>(rows, width_, r, step.threads, [&](std::size_t at, std::size_t j, auto kind) {
      const auto rest = r(r(take(dy + at, kind) - take(mean.data() + j, kind)) -
                          r(take(h + at, kind) * take(slope.data() + j, kind)));
      put(dx.data.data() + at, r(take(factor.data() + j, kind) * rest));
    });
  });
  roles_.input_gradients.round(dx.span(), step);
  gain_gradients_.round(gain_.gradient.span(), step);
  bias_gradients_.round(bias_.gradient.span(), step);
}

template class BatchNorm<float>;
template class BatchNorm<double>;

}  // namespace narrow::train
