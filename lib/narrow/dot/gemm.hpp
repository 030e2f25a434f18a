// A matrix product as a machine computes it: D = A B + C on codes, for any model and plan.
//
//   const DotModel& ampere = *find_dot_model("ampere.mma.f32.f16.f16.k16");
//   const std::vector<std::uint16_t> a(2 * 16, 0x3C00), b(16 * 2, 0x3C00);
//   std::vector<std::uint32_t> d(2 * 2);
//   gemm(ampere, parse_plan("chain"), MatrixView<const std::uint16_t>{a.data(), 2, 16},
//        MatrixView<const std::uint16_t>{b.data(), 16, 2}, MatrixView<const std::uint32_t>{},
//        MatrixView<std::uint32_t>{d.data(), 2, 2});
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "narrow/dot/dot.hpp"
#include "narrow/dot/plan.hpp"
#include "narrow/format/format.hpp"

namespace narrow {

// A matrix of codes that somebody else owns.
enum class Layout : std::uint8_t { row_major, column_major };

// U: uint8_t, 16, 32, 64 (const where it is only read) holding codes. stride: elements from one row (or column) to the
// next; 0 means that they follow without a gap.
template <class U>
struct MatrixView {
  U* data = nullptr;
  std::size_t rows = 0, cols = 0, stride = 0;
  Layout layout = Layout::row_major;

  constexpr std::size_t pitch() const noexcept {
    return stride != 0 ? stride : layout == Layout::row_major ? cols : rows;
  }
  constexpr std::size_t index(std::size_t i, std::size_t j) const noexcept {
    return layout == Layout::row_major ? i * pitch() + j : j * pitch() + i;
  }
  constexpr U& operator()(std::size_t i, std::size_t j) const noexcept { return data[index(i, j)]; }
};

// The same for codes of any width, to read.
struct CodeMatrix {
  const void* data = nullptr;
  int code_bytes = 0;
  std::size_t rows = 0, cols = 0, pitch = 0;
  Layout layout = Layout::row_major;

  Code operator()(std::size_t i, std::size_t j) const noexcept {
    const std::size_t at = layout == Layout::row_major ? i * pitch + j : j * pitch + i;
    switch (code_bytes) {
      case 1: return static_cast<const std::uint8_t*>(data)[at];
      case 2: return static_cast<const std::uint16_t*>(data)[at];
      case 4: return static_cast<const std::uint32_t*>(data)[at];
      default: return static_cast<const std::uint64_t*>(data)[at];
    }
  }
};

// A view of one width as one of any.
template <class U>
CodeMatrix code_matrix(const MatrixView<U>& view) noexcept {
  static_assert(std::is_unsigned_v<std::remove_const_t<U>>, "codes are unsigned integers");
  return {view.data, sizeof(U), view.rows, view.cols, view.pitch(), view.layout};
}

// FP32 scales of an operand (A: m x k, B: k x n): one value for each block of `outer` rows of A (columns of B) times
// `inner` of K, K running fastest. outer = 0: all rows; inner = 0: all of K.
//   per tensor: {s, 0, 0}     per row: {s, 1, 0}     1x128: {s, 1, 128}     128x128: {s, 128, 128}
struct OperandScales {
  std::span<const float> values = {};
  std::size_t outer = 0, inner = 0;
};

// What an epilogue makes of a sum in FP32: a row of epilogue_functions() (special/operation.hpp), or a function of your own.
struct EpilogueFunction {
  std::string_view name;  // "gelu"
  float (*of)(float) = nullptr;
};

// What a product has beside its operands.
struct GemmOptions {
  float alpha = 1, beta = 1;             // D = f(alpha * (A B) + beta * C)
  std::optional<Format> output = {};     // D's format; the accumulator's when not given
  std::optional<Format> c_format = {};   // C's format; the accumulator's when not given
  Cast output_cast = {};
  OperandScales scale_a = {}, scale_b = {};
  // Block-scaled models: codes of model.scale, one for each scale_block of K; a row of A (a column of B) after the other.
  std::span<const std::uint8_t> block_a = {}, block_b = {};
  int threads = 0;
  bool one_by_one = false;               // every output through dot(): slow, the same bits
  EpilogueFunction function = {};        // f; without one D is the sum
  bool rounds_before = false;            // f is a kernel of its own: it takes the sum as D's format holds it
};

// What the rules are where a product has more to it than chains:
//   C     With plan chain, alpha 1, beta 1 and no scales C is the accumulator's first value (as in mma). Otherwise, and
//         with the option c=last, it joins at the end: D = round(fma(alpha, sum, round(beta * C))) in FP32, as in a
//         CUTLASS epilogue. beta 0 ignores C. A C whose pitch is 0 is a bias, one row for all rows; it joins at the end.
//         A plan may say otherwise: c=last, c=first (with the first part), c=after (to the sum that D's format holds).
//   join  Partial results are added in FP32 to nearest even (FP64 and integer accumulators in their own arithmetic),
//         unless the plan rounds them or their sum to D's format on the way (output, stored, serial).
//   scales over K need a cut of K at multiples of `inner` (promote or split): a part is multiplied by the product of
//         its two scales and added in one FMA. Scales that are constant over K multiply the sum.
//   f     is computed in FP32 (sums of integers become FP32, those in FP64 have no f), after alpha, scales and C.
//   D     is rounded at the end, from FP32 (FP64, int32) to the output's format, by output_cast. With plan chain, the
//         accumulator's format as output and nothing to scale, add or apply, D is the result of the chain as it is.
// Shapes that do not fit, codes that are too narrow, a plan that the model cannot follow: Error. An empty C (no data)
// is zero. TF32 operands are 32-bit words. K may be 0: then every sum is empty.
void gemm(const DotModel& model, const Plan& plan, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
          MatrixView<std::uint64_t> d, const GemmOptions& options = {});
void gemm(const DotModel& model, const Plan& plan, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
          MatrixView<std::uint32_t> d, const GemmOptions& options = {});
void gemm(const DotModel& model, const Plan& plan, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
          MatrixView<std::uint16_t> d, const GemmOptions& options = {});
void gemm(const DotModel& model, const Plan& plan, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
          MatrixView<std::uint8_t> d, const GemmOptions& options = {});

// The same for views of any widths.
template <class A, class B, class C, class D>
void gemm(const DotModel& model, const Plan& plan, const MatrixView<A>& a, const MatrixView<B>& b, const MatrixView<C>& c,
          const MatrixView<D>& d, const GemmOptions& options = {}) {
  gemm(model, plan, code_matrix(a), code_matrix(b), code_matrix(c), d, options);
}

// How far a product is from the exact one, alpha, beta and scales included; Error where there is an f. Relative to
// |exact|, over outputs whose exact value is finite and not zero; bits lost: log2(relative error / 2^-24), at least 0. At
// most `sample` outputs, evenly spread, are looked at (0: all).
struct ProductError {
  std::size_t outputs = 0, compared = 0, exact = 0;  // exact: equal to the exact value rounded once
  double max_relative = 0, mean_relative = 0;
  double max_bits_lost = 0, mean_bits_lost = 0;
  std::size_t worst_row = 0, worst_col = 0;
};
ProductError product_error(const DotModel& model, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
                           const CodeMatrix& d, const Format& output, std::size_t sample = 0, int threads = 0,
                           const GemmOptions& options = {});

}  // namespace narrow
