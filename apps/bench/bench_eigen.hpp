// The yardstick of matrix products: Eigen's, its columns divided among our threads.
#pragma once

#include <Eigen/Core>

#include "narrow/base/parallel.hpp"

namespace app {

inline void eigen_product(const Eigen::MatrixXf& x, const Eigen::MatrixXf& y, Eigen::MatrixXf& z, int threads) {
  const auto cols = static_cast<std::size_t>(z.cols());
  const std::size_t each = (cols + static_cast<std::size_t>(threads) - 1) / static_cast<std::size_t>(threads);
  narrow::parallel_parts(cols, each, threads, [&](std::size_t begin, std::size_t end) {
    const auto first = static_cast<Eigen::Index>(begin), count = static_cast<Eigen::Index>(end - begin);
    z.middleCols(first, count).noalias() = x * y.middleCols(first, count);
  });
}

}  // namespace app
