// Sums over the rows of a matrix, first row to last, column by column: the gradients of biases and gains.
#pragma once

#include "narrow/train/operations/arithmetic.hpp"
#include "narrow/train/operations/parts.hpp"

namespace narrow::train {

// out[j] = sum over i of term(i * cols + j), each term and each sum through r.
template <class T, class R, class Term>
void column_sums(std::size_t rows, std::size_t cols, const R& r, T* out, int threads, const Term& term) {
  constexpr std::size_t cache_line = 16;  // columns; fewer would make threads share lines
  parallel_parts(cols, std::max(cache_line, rows_a_part(rows)), threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t j = begin; j < end; ++j) out[j] = 0;
    for (std::size_t i = 0; i < rows; ++i)
      for_elements<T>(end - begin, r, [&](std::size_t j, auto kind) {
        put(out + begin + j, r(take(out + begin + j, kind) + term(i * cols + begin + j, kind)));
      });
  });
}

}  // namespace narrow::train
