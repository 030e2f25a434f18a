#include "narrow/train/data/dataset.hpp"

namespace narrow::train {

namespace {

// Rows [begin, end) of `size` rows; nothing of an array that the kind of batch does not have.
template <class T>
std::vector<T> rows(const std::vector<T>& all, std::size_t size, std::size_t begin, std::size_t end) {
  const std::size_t each = all.size() / size;
  return {all.begin() + static_cast<std::ptrdiff_t>(begin * each),
          all.begin() + static_cast<std::ptrdiff_t>(end * each)};
}

}  // namespace

Batch rows_of(const Batch& batch, std::size_t begin, std::size_t end) {
  const std::size_t n = batch.size;
  return {end - begin, rows(batch.tokens, n, begin, end), rows(batch.inputs, n, begin, end),
          rows(batch.targets, n, begin, end)};
}

}  // namespace narrow::train
