#include <cmath>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/dot/block_step.hpp"
#include "narrow/dot/epilogue.hpp"
#include "narrow/dot/gemm_checks.hpp"
#include "narrow/dot/operand.hpp"
#include "narrow/dot/wide_sum.hpp"

namespace narrow {

namespace {

struct OutputError {
  bool compared = false, exact = false;
  double relative = 0;
};

// The exact sum as a double: its error of 2^-53 is far below any that is reported.
double nearest_double(const Exact& x) {
  return decode(round_exact(x, "fp64"_fmt), "fp64"_fmt);
}

// A product of numbers, exact: significands of 24 bits, five at most, or two of 53.
struct ExactProduct {
  bool finite = true, negative = false;
  U128 significand = 1;
  int exponent = 0;

  void times(const Unpacked& u) {
    finite = finite && u.is_finite();
    negative = negative != u.negative, significand *= u.significand, exponent += u.exponent;
  }
  void times(float x) { times(unpack(std::bit_cast<std::uint32_t>(x), "fp32"_fmt)); }
};

}  // namespace

ProductError product_error(const DotModel& model, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
                           const CodeMatrix& d, const Format& output, std::size_t sample, int threads,
                           const GemmOptions& options) {
  const DefaultFloats guard;
  const Plan plan;
  const detail::Product p{model, plan, a, b, c, options, output, options.c_format.value_or(model.accumulator.format), a.rows, b.cols, a.cols};
  if (a.cols != b.rows || d.rows != a.rows || d.cols != b.cols)
    throw Error("gemm: A, B and D are of shapes that do not fit");
  if (options.function.of != nullptr) throw Error("gemm: the error is known of products, not of a function of them");
  detail::check_scales(options, a.rows, b.cols, a.cols);
  detail::check_blocks(model, options, a.rows, b.cols, a.cols);
  const bool blocks = !options.block_a.empty() || !options.block_b.empty(), scaled = p.has_scales() || blocks || options.alpha != 1;
  if (scaled && model.a.format.significand_bits() + model.b.format.significand_bits() > 48)
    throw Error("gemm: the exact product of FP64 operands is known without alpha and scales only");
  const auto block_scale = [&](std::span<const std::uint8_t> codes, std::size_t line, std::size_t k) -> Unpacked {
    const auto length = static_cast<std::size_t>(model.scale_block);
    const Code one = detail::scale_one(model.scale);
    return detail::scale_of(codes.empty() ? one : codes[line * ((a.cols + length - 1) / length) + k / length], model.scale);
  };
  ProductError result;
  const std::size_t total = d.rows * d.cols;
  result.outputs = sample == 0 ? total : std::min(sample, total);
  std::vector<OutputError> errors(result.outputs);
  const detail::OperandCodes x(a, model.a.format, Operands::cut), y(b, model.b.format, Operands::cut);
  const auto place = [&](std::size_t n) { return static_cast<std::size_t>(static_cast<U128>(n) * total / result.outputs); };
  parallel_parts(result.outputs, 16, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t n = begin; n < end; ++n) {
      const std::size_t i = place(n) / d.cols, j = place(n) % d.cols;
      WideSum sum;
      bool finite = true;
      const auto add = [&](const ExactProduct& e) {
        finite = finite && e.finite;
        sum.add(e.negative, e.significand, e.exponent);
      };
      for (std::size_t k = 0; k < a.cols; ++k) {
        ExactProduct e;
        e.times(unpack(x(i, k), model.a.format)), e.times(unpack(y(k, j), model.b.format));
        if (scaled) e.times(options.alpha);
        if (p.has_scales()) e.times(p.scale(options.scale_a, i, k)), e.times(p.scale(options.scale_b, j, k));
        if (blocks) e.times(block_scale(options.block_a, i, k)), e.times(block_scale(options.block_b, j, k));
        add(e);
      }
      if (p.has_c()) {
        ExactProduct e;
        e.times(unpack(c(i, j), p.c_format));
        if (options.beta != 1) e.times(options.beta);
        add(e);
      }
      const Code got = d(i, j) & output.code_mask();
      const Exact exact = sum.exact();
      OutputError& e = errors[n];
      e.exact = finite && round_exact(exact, output) == got;
      const double value = nearest_double(exact), mine = decode(got, output);
      if (!finite || value == 0 || !std::isfinite(value) || !std::isfinite(mine)) continue;
      e.compared = true;
      e.relative = std::abs((mine - value) / value);
    }
  });
  double sum_relative = 0, sum_bits = 0;
  for (std::size_t n = 0; n < errors.size(); ++n) {
    result.exact += errors[n].exact ? 1 : 0;
    if (!errors[n].compared) continue;
    ++result.compared;
    const double bits = std::max(0.0, std::log2(errors[n].relative) + 24);  // log2(0) is -Inf: nothing lost
    sum_relative += errors[n].relative;
    sum_bits += bits;
    result.max_bits_lost = std::max(result.max_bits_lost, bits);
    if (errors[n].relative <= result.max_relative) continue;
    result.max_relative = errors[n].relative;
    result.worst_row = place(n) / d.cols, result.worst_col = place(n) % d.cols;
  }
  if (result.compared > 0) {
    result.mean_relative = sum_relative / static_cast<double>(result.compared);
    result.mean_bits_lost = sum_bits / static_cast<double>(result.compared);
  }
  return result;
}

}  // namespace narrow
