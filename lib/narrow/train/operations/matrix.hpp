// A matrix somewhere in memory: rows and columns at any distance, so that a transposed matrix or one head of many is a
// matter of strides.
#pragma once

#include <cstddef>
#include <type_traits>

namespace narrow::train {

template <class T>
struct Matrix {
  T* data = nullptr;
  std::size_t rows = 0, cols = 0;
  std::size_t row_stride = 0, col_stride = 1;

  T& operator()(std::size_t i, std::size_t j) const noexcept { return data[i * row_stride + j * col_stride]; }
  Matrix transposed() const noexcept { return {data, cols, rows, col_stride, row_stride}; }
  operator Matrix<const T>() const noexcept requires(!std::is_const_v<T>) {
    return {data, rows, cols, row_stride, col_stride};
  }
};

// Rows that follow each other without a gap.
template <class T>
Matrix<T> matrix(T* data, std::size_t rows, std::size_t cols) noexcept {
  return {data, rows, cols, cols, 1};
}

}  // namespace narrow::train
