// The plain product against the loop that defines it, bit for bit: odd sizes, every layout, any number of threads.
#include "narrow/train/operations/multiply.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "narrow/base/random.hpp"
#include "support/inputs.hpp"

namespace narrow::train {

namespace {

// Values of many exponents, so that another order of the sum shows in the bits.
template <class T>
std::vector<T> values(std::size_t n, std::uint64_t seed) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t bits = random_bits(seed, i);
    x[i] = std::ldexp(static_cast<T>(static_cast<double>(bits >> 11) * 0x1p-52 - 1), static_cast<int>(bits % 9));
  }
  return x;
}

template <class T>
std::size_t count_different(std::size_t m, std::size_t n, std::size_t k, int layout, int threads) {
  const std::vector<T> a = values<T>(m * k, 1), b = values<T>(k * n, 2);
  const Matrix<const T> x = (layout & 1) != 0 ? matrix(a.data(), k, m).transposed() : matrix(a.data(), m, k);
  const Matrix<const T> y = (layout & 2) != 0 ? matrix(b.data(), n, k).transposed() : matrix(b.data(), k, n);
  std::vector<T> c(m * n, T{7});
  const Matrix<T> z = (layout & 4) != 0 ? matrix(c.data(), n, m).transposed() : matrix(c.data(), m, n);
  multiply(x, y, z, threads);
  std::size_t different = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      T sum = 0;
      for (std::size_t p = 0; p < k; ++p) {
        const T term = x(i, p) * y(p, j);
        sum = sum + term;
      }
      different += test::bits(sum) != test::bits(z(i, j)) ? 1 : 0;
    }
  return different;
}

}  // namespace

TEST_CASE_TEMPLATE("train: a product adds in ascending k whatever its size and layout and threads", T, float, double) {
  const std::size_t sizes[][3] = {{1, 1, 1},    {1, 5, 3},   {8, 8, 8},     {9, 17, 5}, {7, 33, 64},
                                  {64, 65, 66}, {65, 4, 13}, {130, 70, 31}, {3, 3, 0},  {200, 16, 129}};
  for (const auto& size : sizes)
    for (int layout = 0; layout < 8; ++layout)
      for (const int threads : {1, 2, 3}) {
        CAPTURE(size[0]);
        CAPTURE(size[1]);
        CAPTURE(size[2]);
        CAPTURE(layout);
        CAPTURE(threads);
        CHECK(count_different<T>(size[0], size[1], size[2], layout, threads) == 0);
      }
}

}  // namespace narrow::train
