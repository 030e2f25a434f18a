#include "narrow/dot/full_product.hpp"

#include <algorithm>

#include "narrow/dot/value_sample.hpp"
#include "narrow/format/neighbours.hpp"

namespace narrow::detail {

namespace {

constexpr std::size_t most_expected = std::size_t{1} << 24;

// What a candidate gives for the first item of a request.
std::vector<Code> product_codes(const ValidateRequest& r, const DotModel& m, const Plan& plan, Finish finish) {
  std::vector<Code> d(r.d.rows * r.d.cols);
  GemmOptions options = r.options;
  options.output = r.d_format;
  const auto run = [&](const CodeMatrix& c) {
    gemm(m, plan, r.a, r.b, c, MatrixView<Code>{d.data(), r.d.rows, r.d.cols}, options);
  };
  const Format fp32 = "fp32"_fmt;
  switch (finish) {
    case Finish::as_asked: run(r.c); break;
    case Finish::relu:
      run(r.c);
      for (Code& code : d) code = relu_of(code, r.d_format);
      break;
    default: {
      options.output = fp32;
      run(r.c);
      const Format between = finish == Finish::through_fp16 ? "fp16"_fmt : finish == Finish::through_bf16 ? "bf16"_fmt : "tf32"_fmt;
      for (Code& code : d) code = convert(convert(code, fp32, between), between, r.d_format);
    }
  }
  return d;
}

void compare_block(const ValidateRequest& r, std::size_t item, std::size_t first_row, const std::vector<Code>& expected,
                   std::size_t most, FullComparison& out) {
  for (std::size_t i = 0; i < r.d.rows; ++i)
    for (std::size_t j = 0; j < r.d.cols; ++j) {
      const Code x = expected[i * r.d.cols + j], y = r.d(i, j) & r.d_format.code_mask();
      if (x == y) {
        ++out.equal, ++out.ulp_counts[0];
        continue;
      }
      ++out.wrong;
      if (out.differences.size() < most) out.differences.push_back({item, first_row + i, j, x, y});
      if (is_nan(x, r.d_format) || is_nan(y, r.d_format)) {
        ++out.nan_mismatch;
        continue;
      }
      const std::uint64_t distance = ulp_distance(x, y, r.d_format);
      out.max_ulp = std::max(out.max_ulp, distance);
      // Two zeros of unlike signs differ in bits and not in value: they count with the nearest.
      ++out.ulp_counts[static_cast<std::size_t>(std::clamp(bit_length(distance), 1, 32))];
    }
}

}  // namespace

FullComparison compare_all(const ValidateRequest& r, const DotModel& m, const Plan& plan, const ComparisonOptions& o,
                           const std::function<void(double)>& progress) {
  FullComparison out;
  constexpr std::size_t block_outputs = std::size_t{1} << 20, row_step = 128;  // scales may share 128 rows
  const bool whole = plan.order == SumOrder::stream_k;  // cuts by the place of the tile in all of D
  const std::size_t rows = r.d.rows, cols = r.d.cols;
  std::size_t step = std::max(row_step, block_outputs / std::max<std::size_t>(cols, 1) / row_step * row_step);
  if (o.rows != 0) step = std::max(row_step, o.rows / row_step * row_step);
  if (whole || r.options.scale_a.outer > row_step) step = rows;
  const bool keeps = o.keep_expected && rows * cols <= most_expected;
  double done = 0;
  for (std::size_t item = 0; item < r.batch.count; ++item) {
    ValidateRequest one = r;
    const ProductItem parts = item_of(r, item);
    one.a = parts.a, one.b = parts.b, one.c = parts.c, one.d = parts.d;
    for (std::size_t first = 0; first < rows; first += step) {
      const ValidateRequest block = rows_of(one, first, std::min(step, rows - first));
      const std::vector<Code> expected = product_codes(block, m, plan, o.finish);
      compare_block(block, item, first, expected, o.differences, out);
      if (keeps && item == 0) out.expected.insert(out.expected.end(), expected.begin(), expected.end());
      done += static_cast<double>(block.d.rows);
      if (progress) progress(done / static_cast<double>(rows * r.batch.count));
      if (o.rows != 0 || (o.stop_when_wrong && out.wrong != 0)) return out;
    }
  }
  return out;
}

}  // namespace narrow::detail
