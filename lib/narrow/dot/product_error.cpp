#include <cmath>
#include <vector>

#include "narrow/base/parallel.hpp"
#include "narrow/dot/gemm.hpp"
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

}  // namespace

ProductError product_error(const DotModel& model, const CodeMatrix& a, const CodeMatrix& b, const CodeMatrix& c,
                           const CodeMatrix& d, const Format& output, std::size_t sample, int threads) {
  const DefaultFloats guard;
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
      const auto add = [&](const Unpacked& u, const Unpacked& v) {
        finite = finite && u.is_finite() && v.is_finite();
        sum.add(u.negative != v.negative, U128{u.significand} * v.significand, u.exponent + v.exponent);
      };
      for (std::size_t k = 0; k < a.cols; ++k) add(unpack(x(i, k), model.a.format), unpack(y(k, j), model.b.format));
      if (c.data != nullptr) add(unpack(c(i, j), model.accumulator.format), {ValueClass::normal, false, 1, 0});
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
