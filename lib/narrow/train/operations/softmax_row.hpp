// What softmax and cross entropy share: e^(x - max) of one row and its sum.
#pragma once

#include "narrow/train/operations/arithmetic.hpp"
#include "narrow/train/operations/math.hpp"

namespace narrow::train {

template <class T>
struct SoftmaxRow {
  T max, sum;
};

// out may be x. A NaN in the row does not win the maximum; it makes the sum NaN.
template <class T, class R>
SoftmaxRow<T> exp_row(const T* x, std::size_t n, T* out, const R& r) {
  T max = n == 0 ? 0 : x[0];
  for (std::size_t j = 1; j < n; ++j) max = x[j] > max ? x[j] : max;
  const T sum = sum_of<T>(n, r, [&](std::size_t j, auto kind) {
    using V = decltype(kind);
    const V e = r(train::exp(V(r(take(x + j, kind) - max))));
    put(out + j, e);
    return e;
  });
  return {max, sum};
}

}  // namespace narrow::train
