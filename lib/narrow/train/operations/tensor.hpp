// Dense arrays of a model: values with a shape, row by row, and the parameters that are trained.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace narrow::train {

template <class T>
struct Tensor {
  std::vector<std::size_t> shape;
  std::vector<T> data;

  std::size_t size() const noexcept { return data.size(); }
  // A matrix: the last dimension are the columns.
  std::size_t cols() const noexcept { return shape.empty() ? 1 : shape.back(); }
  std::size_t rows() const noexcept { return cols() == 0 ? 0 : data.size() / cols(); }
  T* row(std::size_t i) noexcept { return data.data() + i * cols(); }
  const T* row(std::size_t i) const noexcept { return data.data() + i * cols(); }
  std::span<T> span() noexcept { return data; }
  std::span<const T> span() const noexcept { return data; }

  // Another shape; what was there is lost, its memory is used again.
  void resize(std::vector<std::size_t> to) {
    shape = std::move(to);
    std::size_t n = 1;
    for (const std::size_t d : shape) n *= d;
    data.resize(n);
  }
};

template <class T>
struct Parameter {
  std::string name;
  Tensor<T> value, gradient;
  bool decays = true;  // matrices decay, vectors do not
};

}  // namespace narrow::train
