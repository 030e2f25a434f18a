#include "narrow/train/operations/product.hpp"

#include <bit>
#include <cmath>

#include "narrow/array/array.hpp"
#include "narrow/dot/gemm.hpp"
#include "narrow/train/operations/multiply.hpp"
#include "narrow/train/operations/parts.hpp"

namespace narrow::train {

namespace {

constexpr Format fp32 = "fp32"_fmt, tf32 = "tf32"_fmt;

// An operand of gemm: codes with K running fastest, in words of the format's width, and its scales.
struct Codes {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint16_t> halves;
  std::vector<std::uint32_t> words;
  std::size_t outer = 0, k = 0;
  OperandScales scales;
  std::vector<std::uint8_t> block_codes;

  CodeMatrix rows() const { return matrix_of(outer, k, Layout::row_major); }
  CodeMatrix columns() const { return matrix_of(k, outer, Layout::column_major); }

 private:
  CodeMatrix matrix_of(std::size_t r, std::size_t c, Layout layout) const {
    if (!bytes.empty()) return {bytes.data(), 1, r, c, k, layout};
    if (!halves.empty()) return {halves.data(), 2, r, c, k, layout};
    return {words.data(), 4, r, c, k, layout};
  }
};

template <class T>
std::vector<T> gathered(const Matrix<const T>& m) {
  std::vector<T> values(m.rows * m.cols);
  for (std::size_t i = 0; i < m.rows; ++i)
    for (std::size_t j = 0; j < m.cols; ++j) values[i * m.cols + j] = m(i, j);
  return values;
}

// Exact: the values are of the format already. tf32 travels as the word of the float.
template <class T>
Codes codes_of(const Factor<T>& x, const DotModel& model, int threads) {
  Codes codes;
  codes.outer = x.values.rows, codes.k = x.values.cols;
  if (x.blocks != nullptr) {
    const BlockFormat& f = x.blocks->format;
    codes.bytes = x.blocks->codes;
    if (model.is_block_scaled()) codes.block_codes = scale_codes(x.blocks->scales, f);
    else codes.scales = {x.blocks->scales, f.block_rows, f.block_cols};
    return codes;
  }
  const std::vector<T> values = gathered(x.values);
  const Format f = x.precision->format == tf32 ? fp32 : x.precision->format;
  const std::span<const T> span(values);
  if (f.width() <= 8) codes.bytes.resize(span.size()), encode_array(span, f, {}, codes.bytes, 0, threads);
  else if (f.width() <= 16) codes.halves.resize(span.size()), encode_array(span, f, {}, codes.halves, 0, threads);
  else codes.words.resize(span.size()), encode_array(span, f, {}, codes.words, 0, threads);
  if (x.precision->scaling != Scaling::none) codes.scales = {{&x.decode, 1}, 0, 0};
  return codes;
}

template <class T>
void multiply_codes(const DotModel& model, const Plan& plan, const Factor<T>& a, const Factor<T>& b, const Matrix<T>& c,
                    int threads) {
  const Codes x = codes_of(a, model, threads), y = codes_of(b, model, threads);
  std::vector<std::uint32_t> d(c.rows * c.cols);
  GemmOptions options;
  options.output = fp32;
  options.scale_a = x.scales, options.scale_b = y.scales;
  options.block_a = x.block_codes, options.block_b = y.block_codes;
  options.threads = threads;
  gemm(model, plan, x.rows(), y.columns(), CodeMatrix{}, MatrixView<std::uint32_t>{d.data(), c.rows, c.cols}, options);
  for (std::size_t i = 0; i < c.rows; ++i)
    for (std::size_t j = 0; j < c.cols; ++j) c(i, j) = static_cast<T>(std::bit_cast<float>(d[i * c.cols + j]));
}

template <class T>
void multiply_native(const Factor<T>& a, const Factor<T>& b, const Matrix<T>& c, int threads) {
  multiply(a.values, b.values.transposed(), c, threads);
  // Tiny factors, of gradients around 1e-30 say, have a product that FP32 holds as a subnormal or not at all: there
  // they come one after the other.
  const float both = a.decode * b.decode;
  const bool is_one_factor = std::isnormal(both);
  const T first = static_cast<T>(is_one_factor ? both : a.decode),
          second = static_cast<T>(is_one_factor ? 1 : b.decode);
  if (first == 1 && second == 1) return;
  parallel_parts(c.rows, rows_a_part(c.cols), threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = 0; j < c.cols; ++j) c(i, j) = c(i, j) * first * second;
  });
}

}  // namespace

template <class T>
void product(const ProductPolicy& policy, const Factor<T>& a, const Factor<T>& b, const Matrix<T>& c, int threads) {
  switch (policy.accumulation) {
    case Accumulation::native: return multiply_native(a, b, c, threads);
    case Accumulation::every_operation: {
      const DotModel model = software_model(Unit::muladd, {"sum", policy.accumulator}, {"a", a.precision->format},
                                            {"b", b.precision->format});
      return multiply_codes(model, {}, a, b, c, threads);
    }
    case Accumulation::model: return multiply_codes(*policy.model, policy.plan, a, b, c, threads);
  }
}

template void product<float>(const ProductPolicy&, const Factor<float>&, const Factor<float>&, const Matrix<float>&,
                             int);
template void product<double>(const ProductPolicy&, const Factor<double>&, const Factor<double>&, const Matrix<double>&,
                              int);

}  // namespace narrow::train
