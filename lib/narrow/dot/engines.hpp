// The fast ways to compute the chains of a few rows and sixteen columns, one struct a kind of arithmetic. All give the bits
// of dot(); where an engine cannot be sure it says so, and the caller asks dot().
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "narrow/dot/kernels.hpp"
#include "narrow/dot/packed.hpp"

namespace narrow::detail {

// What an engine fills: sums[chain][row][column], and unsure[row][column] where dot() must decide. `start` is the first
// value of the first chain (C), or nullptr for zeros.
template <class Sum>
struct EngineResult {
  Sum* sums;
  std::uint8_t* unsure;
  const Sum* start;
};

// Tensor cores that fuse: see fused_lanes.cpp. Long chains are taken in pieces, so that what is packed of B stays in the
// cache while all rows use it.
template <class Real, class Exponent>
struct FusedEngine {
  using Sum = float;
  static constexpr std::size_t max_rows = 32, piece = 512;
  const DotModel& model;
  LaneConstants constants;
  const Packed<Real, Exponent>&a, &b;
  const Schedule& schedule;

  void operator()(std::size_t row, std::size_t rows, std::size_t panel, const EngineResult<float>& out) const {
    bool unsure[max_rows];
    for (std::size_t r = 0; r < rows; ++r) {
      unsure[r] = a.special[row + r] != 0;
      for (std::size_t j = 0; out.start != nullptr && j < lane_columns; ++j)
        unsure[r] = unsure[r] || !std::isfinite(out.start[r * lane_columns + j]);
    }
    // A piece is whole instructions: their K is a power of two, 64 at most.
    for (std::size_t s = 0; s < schedule.segments.size(); ++s) {
      const Segment chain = schedule.segments[s];
      float lanes[max_rows][lane_columns] = {};
      if (s == 0 && out.start != nullptr) std::memcpy(lanes, out.start, rows * lane_columns * sizeof(float));
      for (std::size_t begin = chain.begin; begin < chain.end; begin += piece) {
        const std::size_t line = row * a.positions + begin, column = (panel * b.positions + begin) * lane_columns;
        fused_kernel(Real{}, Exponent{})(model, constants,
                                         {a.values.data() + line, a.exponents.data() + line, a.positions,
                                          b.values.data() + column, b.exponents.data() + column},
                                         std::min(piece, chain.end - begin), rows, lanes, unsure);
      }
      std::memcpy(out.sums + s * rows * lane_columns, lanes, rows * lane_columns * sizeof(float));
    }
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t j = 0; j < lane_columns; ++j)
        out.unsure[r * lane_columns + j] = unsure[r] || b.special[panel * lane_columns + j] != 0 ? 1 : 0;
  }
};

// FP32 and FP64 in the machine's own arithmetic, which is IEEE's. NaN has more than one pattern there: dot() decides.
template <class Real, DotRule Rule>
struct NativeEngine {
  using Sum = Real;
  static constexpr std::size_t max_rows = 16;
  const Packed<Real, std::int16_t>&a, &b;
  const Schedule& schedule;

  // The balanced tree of software_sum.hpp over products [begin, end), sixteen columns at once.
  void tree(const Real* x, const Real* y, std::size_t begin, std::size_t end, Real (&sum)[lane_columns]) const {
    if (end - begin == 1) {
      for (std::size_t j = 0; j < lane_columns; ++j) sum[j] = x[begin] * y[begin * lane_columns + j];
      return;
    }
    const std::size_t middle = begin + std::bit_ceil(end - begin) / 2;
    Real right[lane_columns];
    tree(x, y, begin, middle, sum);
    tree(x, y, middle, end, right);
    for (std::size_t j = 0; j < lane_columns; ++j) sum[j] += right[j];
  }

  void chain(const Real* x, std::size_t rows, const Real* y, std::size_t products, Real (*acc)[lane_columns]) const {
    const ChainKernel<Real> kernel = Rule == DotRule::fma_chain ? fma_kernel(Real{}) : multiply_add_kernel(Real{});
    kernel(x, a.positions, rows, y, products, acc);
  }

  void one_row(const Real* x, const Real* y, std::size_t products, Real (&acc)[lane_columns]) const {
    if constexpr (Rule == DotRule::pairwise) {
      if (products == 0) return;
      Real sum[lane_columns];
      tree(x, y, 0, products, sum);
      for (std::size_t j = 0; j < lane_columns; ++j) acc[j] = sum[j] + acc[j];
    } else {
      Real lost[lane_columns] = {};
      for (std::size_t k = 0; k < products; ++k)
        for (std::size_t j = 0; j < lane_columns; ++j) {
          const Real term = x[k] * y[k * lane_columns + j] - lost[j], next = acc[j] + term;
          lost[j] = (next - acc[j]) - term;
          acc[j] = next;
        }
    }
  }

  void operator()(std::size_t row, std::size_t rows, std::size_t panel, const EngineResult<Real>& out) const {
    std::fill_n(out.unsure, rows * lane_columns, std::uint8_t{0});
    for (std::size_t s = 0; s < schedule.segments.size(); ++s) {
      const Segment part = schedule.segments[s];
      const Real* x = a.values.data() + row * a.positions + part.begin;
      Real acc[max_rows][lane_columns] = {};
      if (s == 0 && out.start != nullptr) std::memcpy(acc, out.start, rows * sizeof acc[0]);
      const Real* y = b.values.data() + (panel * b.positions + part.begin) * lane_columns;
      const std::size_t products = part.end - part.begin;
      if constexpr (Rule == DotRule::fma_chain || Rule == DotRule::multiply_add) {
        chain(x, rows, y, products, acc);
      } else {
        for (std::size_t r = 0; r < rows; ++r) one_row(x + r * a.positions, y, products, acc[r]);
      }
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t j = 0; j < lane_columns; ++j) {
          out.sums[(s * rows + r) * lane_columns + j] = acc[r][j];
          if (acc[r][j] != acc[r][j]) out.unsure[r * lane_columns + j] = 1;
        }
    }
  }
};

// Every operation rounded to a narrow format: see chain_lanes.cpp. Right while a float holds every product of two factors
// exactly (the caller looks at widths and exponents) and a sum of two values of the format can be rounded twice without
// harm: 24 >= 2 p + 2.
struct RoundedEngine {
  using Sum = float;
  static constexpr std::size_t max_rows = 8;
  const Packed<float, std::int16_t>&a, &b;
  const Schedule& schedule;
  RoundedLanes lanes;

  void chains(std::size_t row, std::size_t rows, std::size_t panel, const EngineResult<float>& out) const {
    for (std::size_t s = 0; s < schedule.segments.size(); ++s) {
      const Segment part = schedule.segments[s];
      float acc[max_rows][lane_columns] = {};
      std::int32_t seen[max_rows][lane_columns];
      if (s == 0 && out.start != nullptr) std::memcpy(acc, out.start, rows * sizeof acc[0]);
      dot_kernels().rounded(lanes, a.values.data() + row * a.positions + part.begin, a.positions, rows,
                            b.values.data() + (panel * b.positions + part.begin) * lane_columns, part.end - part.begin, acc, seen);
      std::memcpy(out.sums + s * rows * lane_columns, acc, rows * sizeof acc[0]);
      for (std::size_t i = 0; i < rows * lane_columns; ++i)
        if (seen[i / lane_columns][i % lane_columns] > lanes.largest_word) out.unsure[i] = 1;
    }
  }

  void operator()(std::size_t row, std::size_t rows, std::size_t panel, const EngineResult<float>& out) const {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t j = 0; j < lane_columns; ++j) {
        const float start = out.start != nullptr ? out.start[r * lane_columns + j] : 0;
        const bool odd_start = !std::isfinite(start) || (start == 0 && std::signbit(start));
        out.unsure[r * lane_columns + j] =
            a.special[row + r] != 0 || b.special[panel * lane_columns + j] != 0 || odd_start ? 1 : 0;
      }
    chains(row, rows, panel, out);
  }
};

// Exact integers modulo 2^32.
struct IntegerEngine {
  using Sum = std::int32_t;
  static constexpr std::size_t max_rows = 4;
  const Packed<std::int32_t, std::int16_t>&a, &b;
  const Schedule& schedule;

  void operator()(std::size_t row, std::size_t rows, std::size_t panel, const EngineResult<std::int32_t>& out) const {
    std::fill_n(out.unsure, rows * lane_columns, std::uint8_t{0});
    for (std::size_t s = 0; s < schedule.segments.size(); ++s)
      for (std::size_t r = 0; r < rows; ++r) {
        std::uint32_t acc[lane_columns] = {};
        if (s == 0 && out.start != nullptr)
          for (std::size_t j = 0; j < lane_columns; ++j) acc[j] = static_cast<std::uint32_t>(out.start[r * lane_columns + j]);
        for (std::size_t k = schedule.segments[s].begin; k < schedule.segments[s].end; ++k) {
          const auto x = static_cast<std::uint32_t>(a.values[(row + r) * a.positions + k]);
          const std::int32_t* y = b.values.data() + (panel * b.positions + k) * lane_columns;
          for (std::size_t j = 0; j < lane_columns; ++j) acc[j] += x * static_cast<std::uint32_t>(y[j]);
        }
        for (std::size_t j = 0; j < lane_columns; ++j)
          out.sums[(s * rows + r) * lane_columns + j] = static_cast<std::int32_t>(acc[j]);
      }
  }
};

}  // namespace narrow::detail
