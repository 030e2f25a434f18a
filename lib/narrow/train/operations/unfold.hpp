// The windows of a tensor as rows of a matrix, so that a convolution is a product. In one dimension
//   forward   window o, tap t reads place  o * stride + t - padding                      of x
//   backward  place  i, tap t reads window (i + padding - t) / stride, where that is one,  of dy
// and nothing (a zero) beyond the ends. Any dimension is one of three; those that are missing have one place and one
// tap.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "narrow/train/operations/parts.hpp"

namespace narrow::train {

struct Sliding {
  std::size_t kernel = 1, stride = 1, padding = 0;
  // Windows of a dimension of so many places; 0 where the kernel does not fit.
  std::size_t windows(std::size_t places) const noexcept {
    return places + 2 * padding < kernel ? 0 : (places + 2 * padding - kernel) / stride + 1;
  }
};

struct Reading {
  static constexpr std::size_t nothing = ~std::size_t{0};
  std::size_t rows = 1, taps = 1, places = 1;
  std::vector<std::size_t> from = {0};  // row * taps + tap: a place of the tensor, or nothing
};
using Readings = std::array<Reading, 3>;

inline Reading read_windows(const Sliding& s, std::size_t places) {
  Reading r{s.windows(places), s.kernel, places, {}};
  for (std::size_t o = 0; o < r.rows; ++o)
    for (std::size_t t = 0; t < r.taps; ++t) {
      const std::size_t at = o * s.stride + t;
      r.from.push_back(at >= s.padding && at - s.padding < places ? at - s.padding : Reading::nothing);
    }
  return r;
}

inline Reading read_back(const Sliding& s, std::size_t places) {
  Reading r{places, s.kernel, s.windows(places), {}};
  for (std::size_t i = 0; i < r.rows; ++i)
    for (std::size_t t = 0; t < r.taps; ++t) {
      const std::size_t at = i + s.padding, o = at < t ? 0 : (at - t) / s.stride;
      r.from.push_back(at >= t && (at - t) % s.stride == 0 && o < r.places ? o : Reading::nothing);
    }
  return r;
}

// x: [batch, places..., channels]; to: [batch * rows..., taps... * channels], channels running fastest.
template <class T>
void unfold(const T* x, std::size_t batch, const Readings& d, std::size_t channels, T* to, int threads) {
  const std::size_t rows = d[0].rows * d[1].rows * d[2].rows, width = d[0].taps * d[1].taps * d[2].taps * channels;
  parallel_parts(batch * rows, rows_a_part(width), threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t n = row / rows, i = row % rows;
      const std::size_t* from[3] = {d[0].from.data() + i / (d[1].rows * d[2].rows) * d[0].taps,
                                    d[1].from.data() + i / d[2].rows % d[1].rows * d[1].taps,
                                    d[2].from.data() + i % d[2].rows * d[2].taps};
      T* out = to + row * width;
      for (std::size_t a = 0; a < d[0].taps; ++a)
        for (std::size_t b = 0; b < d[1].taps; ++b)
          for (std::size_t c = 0; c < d[2].taps; ++c, out += channels) {
            const std::size_t p = from[0][a], q = from[1][b], s = from[2][c];
            if (p == Reading::nothing || q == Reading::nothing || s == Reading::nothing) {
              std::fill_n(out, channels, T{});
              continue;
            }
            const std::size_t place = ((n * d[0].places + p) * d[1].places + q) * d[2].places + s;
            std::copy_n(x + place * channels, channels, out);
          }
    }
  });
}

}  // namespace narrow::train
