#include "narrow/train/operations/norm.hpp"

#include "narrow/train/operations/column_sums.hpp"

namespace narrow::train {

template <class T>
Norm<T>::Norm(Store<T>& store, const std::string& name, std::size_t width, NormKind kind)
    : store_(store),
      policy_(store.policy[Operation::norm]),
      width_(width),
      gain_(store.parameter(name + ".weight", {width}, Start::constant(1))),
      roles_(store, name, Operation::norm),
      gains_(store.quantiser(name, Operation::norm, Role::weights)),
      gain_gradients_(store.quantiser(name, Operation::norm, Role::weight_gradients)) {
  if (kind == NormKind::rms) return;
  bias_ = &store.parameter(name + ".bias", {width}, Start::constant(0));
  biases_ = &store.quantiser(name + ".bias", Operation::norm, Role::weights);
  bias_gradients_ = &store.quantiser(name + ".bias", Operation::norm, Role::weight_gradients);
}

template <class T>
void Norm<T>::forward(const Tensor<T>& input, Tensor<T>& y) {
  const Step& step = store_.step;
  const std::size_t rows = input.size() / width_;
  y.resize({rows, width_}), normalised_.resize({rows, width_}), inverse_.resize(rows);
  roles_.activations.keep(input.span(), rows, width_, step);
  gains_.keep(gain_.value.span(), 1, width_, step);
  if (bias_ != nullptr) biases_->keep(bias_->value.span(), 1, width_, step);
  const T *g = gains_.kept().data(), *b = bias_ != nullptr ? biases_->kept().data() : nullptr;
  const T n = static_cast<T>(width_);
  with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
    parallel_parts(rows, rows_a_part(width_), step.threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const T* x = roles_.activations.kept().data() + i * width_;
        T* h = normalised_.row(i);
        T mean = 0;
        if (b != nullptr)
          mean = r(sum_of<T>(width_, r, [&](std::size_t j, auto kind) { return take(x + j, kind); }) / n);
        const T squares = sum_of<T>(width_, r, [&](std::size_t j, auto kind) {
          const auto d = r(take(x + j, kind) - mean);
          put(h + j, d);
          return r(d * d);
        });
        const T inverse = r(1 / r(std::sqrt(r(r(squares / n) + static_cast<T>(epsilon)))));
        inverse_[i] = inverse;
        for_elements<T>(width_, r, [&](std::size_t j, auto kind) {
          using V = decltype(kind);
          const V hat = r(take(h + j, kind) * inverse), scaled = r(hat * take(g + j, kind));
          put(h + j, hat);
          put(y.row(i) + j, b != nullptr ? r(scaled + take(b + j, kind)) : scaled);
        });
      }
    });
  });
  roles_.output.round(y.span(), step);
}

template <class T>
void Norm<T>::backward(const Tensor<T>& gradient, Tensor<T>& dx) {
  const Step& step = store_.step;
  const std::size_t rows = gradient.size() / width_;
  dx.resize({rows, width_});
  roles_.gradients.keep(gradient.span(), rows, width_, step);
  const T *g = gains_.kept().data(), *all_dy = roles_.gradients.kept().data(), *all_h = normalised_.data.data();
  const T n = static_cast<T>(width_);
  with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
    parallel_parts(rows, rows_a_part(width_), step.threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const T *dy = all_dy + i * width_, *h = all_h + i * width_;
        T* e = dx.row(i);
        for_elements<T>(width_, r,
                        [&](std::size_t j, auto kind) { put(e + j, r(take(dy + j, kind) * take(g + j, kind))); });
        T mean = 0;
        if (bias_ != nullptr)
          mean = r(sum_of<T>(width_, r, [&](std::size_t j, auto kind) { return take(e + j, kind); }) / n);
        const T products =
            sum_of<T>(width_, r, [&](std::size_t j, auto kind) { return r(take(e + j, kind) * take(h + j, kind)); });
        const T slope = r(products / n);
        for_elements<T>(width_, r, [&](std::size_t j, auto kind) {
          put(e + j, r(inverse_[i] * r(r(take(e + j, kind) - mean) - r(take(h + j, kind) * slope))));
        });
      }
    });
    column_sums<T>(rows, width_, r, gain_.gradient.data.data(), step.threads,
                   [&](std::size_t at, auto kind) { return r(take(all_dy + at, kind) * take(all_h + at, kind)); });
    if (bias_ != nullptr)
      column_sums<T>(rows, width_, r, bias_->gradient.data.data(), step.threads,
                     [&](std::size_t at, auto kind) { return take(all_dy + at, kind); });
  });
  roles_.input_gradients.round(dx.span(), step);
  gain_gradients_.round(gain_.gradient.span(), step);
  if (bias_ != nullptr) bias_gradients_->round(bias_->gradient.span(), step);
}

template class Norm<float>;
template class Norm<double>;

}  // namespace narrow::train
