#include "narrow/train/operations/quantiser.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/array/array.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/random.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/hadamard.hpp"
#include "narrow/train/operations/parts.hpp"

namespace narrow::train {

namespace {

// FNV-1a: a name becomes a number that no order of construction changes.
std::uint64_t hash_of(std::string_view text, std::uint64_t hash = 0xCBF29CE484222325ull) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return hash;
}

// The rules of scale/ work on FP32.
std::span<const float> as_floats(std::span<const float> x, std::vector<float>&) { return x; }
std::span<const float> as_floats(std::span<const double> x, std::vector<float>& scratch) {
  scratch.resize(x.size());
  std::transform(x.begin(), x.end(), scratch.begin(), [](double v) { return narrow::detail::to_float(v); });
  return scratch;
}

template <class T>
std::vector<T> transposed(std::span<const T> x, std::size_t rows, std::size_t cols, int threads) {
  std::vector<T> out(x.size());
  parallel_parts(cols, std::max<std::size_t>(16, rows_a_part(rows)), threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = begin; j < end; ++j) out[j * rows + i] = x[i * cols + j];
  });
  return out;
}

// The runs of 16 along K; a last one that is shorter stays.
template <class T>
void turn_runs(std::span<T> x, std::size_t k, int threads) {
  parallel_parts(k == 0 ? 0 : x.size() / k, rows_a_part(k), threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      for (std::size_t at = 0; at + hadamard_size <= k; at += hadamard_size) turn_by_hadamard(x.data() + row * k + at);
  });
}

}  // namespace

template <class T>
Quantiser<T>::Quantiser(std::string tensor, Operation operation, Role role, const Policy& policy)
    : tensor_(std::move(tensor)),
      operation_(operation),
      role_(role),
      precision_(policy[operation].role(role)),
      delayed_(policy.delayed),
      id_(hash_of(name_of(role), hash_of(tensor_))) {
  delayed_.fp8_max = largest(precision_.format);
}

template <class T>
std::uint64_t Quantiser<T>::seed(const Step& step) const noexcept {
  return mix_bits(random_bits(step.seed, step.number) ^ id_);
}

template <class T>
void Quantiser<T>::announce(std::span<const T> before, std::span<const T> after, const Step& step,
                            const Quantised* blocks) const {
  step.observer->saw({tensor_, operation_, role_, precision_, decode_, blocks}, before, after);
}

template <class T>
void Quantiser<T>::round(std::span<T> values, const Step& step) {
  const bool watched = step.observer != nullptr;
  if (is_exact(precision_)) {
    if (watched) announce(values, values, step);
    return;
  }
  if (watched) before_.assign(values.begin(), values.end());
  round_array(values, values, precision_.format, precision_.cast, seed(step), step.threads);
  if (watched) announce(before_, values, step);
}

template <class T>
void Quantiser<T>::keep(std::span<const T> values, std::size_t rows, std::size_t cols, const Step& step) {
  rows_ = rows, cols_ = cols, decode_ = 1;
  if (is_block(precision_.scaling) || is_exact(precision_)) {
    kept_ = values.data();
    if (step.observer != nullptr && is_exact(precision_)) announce(values, values, step);
    return;
  }
  rounded_.resize(values.size());
  if (precision_.scaling != Scaling::none) {
    scale_tensor(values, step);
  } else {
    round_array(values, std::span<T>(rounded_), precision_.format, precision_.cast, seed(step), step.threads);
  }
  kept_ = rounded_.data();
  if (step.observer == nullptr) return;
  before_.resize(rounded_.size());
  std::transform(rounded_.begin(), rounded_.end(), before_.begin(),
                 [this](T x) { return x * static_cast<T>(decode_); });
  announce(values, before_, step);
}

// element = cast(x * encode), saturating; the product is multiplied by decode = 1 / encode afterwards.
template <class T>
void Quantiser<T>::scale_tensor(std::span<const T> values, const Step& step) {
  const BlockFormat format = block_format_of(precision_);
  std::vector<float> scratch;
  const std::span<const float> floats = as_floats(values, scratch);
  const float amax = tensor_amax(floats, format, step.threads);
  if (amax > amax_) amax_ = amax;
  BlockScale s{1 / state_.scale, state_.scale};
  if (precision_.scaling == Scaling::tensor_current) s = BlockScaling(format, tensor_scale(amax, format))(amax);
  decode_ = s.stored;
  parallel_parts(values.size(), elements_a_part, step.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) rounded_[i] = static_cast<T>(scaled_element(floats[i], s.encode, format));
  });
  round_array(rounded_, std::span<T>(rounded_), format.element, element_cast(format), seed(step), step.threads);
}

template <class T>
Factor<T> Quantiser<T>::blocks_along(bool cols, bool hadamard, const Step& step) {
  const std::size_t which = cols ? 0 : 1, outer = cols ? rows_ : cols_, k = cols ? cols_ : rows_;
  std::vector<T> turned;
  std::vector<float> scratch;
  std::span<const T> values = kept();
  if (!cols) {
    turned = transposed(values, rows_, cols_, step.threads);
    if (hadamard) turn_runs<T>(turned, k, step.threads);
    values = turned;
  }
  const std::span<const float> floats = as_floats(values, scratch);
  const BlockFormat format = block_format_of(precision_);
  blocks_[which] = precision_.cast.rounding == Rounding::stochastic
                       ? quantise_stochastically(floats, outer, k, format, mix_bits(seed(step) + which), step.threads)
                       : quantise(floats, outer, k, format, step.threads);
  const std::vector<float> decoded = dequantise(blocks_[which], step.threads);
  block_values_[which].assign(decoded.begin(), decoded.end());
  if (step.observer != nullptr) announce(values, block_values_[which], step, &blocks_[which]);
  return {matrix<const T>(block_values_[which].data(), outer, k), 1, &precision_, &blocks_[which]};
}

template <class T>
Factor<T> Quantiser<T>::over_cols(const Step& step) {
  if (is_block(precision_.scaling)) return blocks_along(true, false, step);
  return part_of(matrix(kept_, rows_, cols_));
}

template <class T>
Factor<T> Quantiser<T>::over_rows(const Step& step, bool hadamard) {
  if (is_block(precision_.scaling)) return blocks_along(false, hadamard, step);
  return part_of(matrix(kept_, rows_, cols_).transposed());
}

template <class T>
void Quantiser<T>::end_step() {
  if (!has_state()) return;
  state_ = next(delayed_, std::move(state_), {.amax = amax_});
  amax_ = 0;
}

template <class T>
std::vector<float> Quantiser<T>::state() const {
  std::vector<float> values{state_.scale, state_.window_max, static_cast<float>(state_.oldest), amax_};
  values.insert(values.end(), state_.history.begin(), state_.history.end());
  return values;
}

template <class T>
void Quantiser<T>::restore(std::span<const float> values) {
  const auto longest = static_cast<std::size_t>(delayed_.history - 1);
  const bool fits = values.size() >= 4 && values.size() - 4 <= longest && values[0] > 0 && std::isfinite(values[0]) &&
                    values[2] >= 0 && values[2] <= static_cast<float>(longest) && values[2] == std::floor(values[2]);
  if (!fits)
    throw Error("state of " + tensor_ + ": no scale and history of at most " + std::to_string(longest) + " amaxes");
  state_ = {
      values[0], {values.begin() + 4, values.end()}, static_cast<std::size_t>(values[2]), values[1], ScaleEvent::none};
  if (state_.oldest != 0 && state_.oldest >= state_.history.size())
    throw Error("state of " + tensor_ + ": its history is too short");
  amax_ = values[3];
}

template class Quantiser<float>;
template class Quantiser<double>;

}  // namespace narrow::train
