#include "narrow/train/operations/embedding.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/train/operations/elementwise.hpp"

namespace narrow::train {

namespace {

// table[index(i)] += dy_i for every row i in turn; threads take columns, so that the order of a sum is that of the
// rows.
template <class T, class Index>
void add_rows(const T* dy, std::size_t rows, Tensor<T>& table, const Precision& arithmetic, int threads,
              const Index& index) {
  constexpr std::size_t cache_line = 16;
  const std::size_t width = table.cols();
  std::fill(table.data.begin(), table.data.end(), T{0});
  with_arithmetic<T>(arithmetic, [&](const auto& r) {
    parallel_parts(width, std::max(cache_line, rows_a_part(rows)), threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = 0; i < rows; ++i) {
        T* to = table.row(index(i)) + begin;
        const T* from = dy + i * width + begin;
        for_elements<T>(end - begin, r,
                        [&](std::size_t j, auto kind) { put(to + j, r(take(to + j, kind) + take(from + j, kind))); });
      }
    });
  });
}

}  // namespace

template <class T>
TokenEmbedding<T>::TokenEmbedding(Store<T>& store, const std::string& name, std::size_t rows, std::size_t width,
                                  const Start& start)
    : store_(store),
      policy_(store.policy[Operation::embedding]),
      table_(store.parameter(name, {rows, width}, start)),
      weights_(store.quantiser(name, Operation::embedding, Role::weights)),
      gradients_(store.quantiser(name, Operation::embedding, Role::gradients)),
      output_(store.quantiser(name, Operation::embedding, Role::output)),
      weight_gradients_(store.quantiser(name, Operation::embedding, Role::weight_gradients)) {}

template <class T>
void TokenEmbedding<T>::forward(const std::vector<std::int32_t>& tokens, Tensor<T>& y) {
  const std::size_t rows = table_.value.rows(), width = table_.value.cols();
  for (const std::int32_t t : tokens)
    if (t < 0 || static_cast<std::size_t>(t) >= rows)
      throw Error("batch: token " + std::to_string(t) + " is none of a vocabulary of " + std::to_string(rows));
  tokens_ = tokens;
  y.resize({tokens.size(), width});
  weights_.keep(table_.value.span(), rows, width, store_.step);
  const T* table = weights_.kept().data();
  for (std::size_t i = 0; i < tokens.size(); ++i)
    std::copy_n(table + static_cast<std::size_t>(tokens[i]) * width, width, y.row(i));
  output_.round(y.span(), store_.step);
}

template <class T>
void TokenEmbedding<T>::backward(const Tensor<T>& dy) {
  gradients_.keep(dy.span(), dy.rows(), dy.cols(), store_.step);
  add_rows(gradients_.kept().data(), tokens_.size(), table_.gradient, policy_.arithmetic, store_.step.threads,
           [this](std::size_t i) { return static_cast<std::size_t>(tokens_[i]); });
  weight_gradients_.round(table_.gradient.span(), store_.step);
}

template <class T>
PositionEmbedding<T>::PositionEmbedding(Store<T>& store, const std::string& name, std::size_t rows, std::size_t width,
                                        const Start& start)
    : store_(store),
      policy_(store.policy[Operation::embedding]),
      table_(store.parameter(name, {rows, width}, start)),
      roles_(store, name, Operation::embedding),
      weights_(store.quantiser(name, Operation::embedding, Role::weights)),
      weight_gradients_(store.quantiser(name, Operation::embedding, Role::weight_gradients)) {}

template <class T>
void PositionEmbedding<T>::forward(const Tensor<T>& x, std::size_t length, Tensor<T>& y) {
  length_ = length;
  const std::size_t width = table_.value.cols();
  y.resize(x.shape);
  roles_.activations.keep(x.span(), x.rows(), width, store_.step);
  weights_.keep(table_.value.span(), table_.value.rows(), width, store_.step);
  const T *from = roles_.activations.kept().data(), *table = weights_.kept().data();
  with_arithmetic<T>(policy_.arithmetic, [&](const auto& r) {
    parallel_parts(x.rows(), rows_a_part(width), store_.step.threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        for_elements<T>(width, r, [&](std::size_t j, auto kind) {
          put(y.row(i) + j, r(take(from + i * width + j, kind) + take(table + i % length * width + j, kind)));
        });
    });
  });
  roles_.output.round(y.span(), store_.step);
}

template <class T>
void PositionEmbedding<T>::backward(Tensor<T>& dy) {
  roles_.gradients.round(dy.span(), store_.step);
  add_rows(dy.data.data(), dy.rows(), table_.gradient, policy_.arithmetic, store_.step.threads,
           [this](std::size_t i) { return i % length_; });
  weight_gradients_.round(table_.gradient.span(), store_.step);
  roles_.input_gradients.round(dy.span(), store_.step);
}

template class TokenEmbedding<float>;
template class TokenEmbedding<double>;
template class PositionEmbedding<float>;
template class PositionEmbedding<double>;

}  // namespace narrow::train
