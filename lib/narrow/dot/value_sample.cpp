#include "narrow/dot/value_sample.hpp"

#include <cmath>

#include "narrow/base/parallel.hpp"
#include "narrow/base/random.hpp"
#include "narrow/dot/epilogue.hpp"
#include "narrow/dot/operand.hpp"

namespace narrow::detail {

namespace {

// Codes to doubles. FP32 words count whole, also where a model would cut them to TF32.
class Values {
 public:
  explicit Values(const Format& f) : format_(f == "tf32"_fmt ? "fp32"_fmt : f) {
    if (format_.width() > 16) return;
    table_.resize(std::size_t{1} << format_.width());
    for (std::size_t code = 0; code < table_.size(); ++code) table_[code] = decode(code, format_);
  }
  double operator()(Code code) const {
    code &= format_.code_mask();
    return table_.empty() ? decode(code, format_) : table_[code];
  }

 private:
  Format format_;
  std::vector<double> table_;
};

// Lines of A (is_b: of B) as doubles, position after position: the lines of a row of B share what is loaded.
std::vector<std::vector<double>> lines_of(const CodeMatrix& m, const Format& f, bool is_b, std::span<const std::size_t> lines) {
  const std::size_t k = is_b ? m.rows : m.cols;
  constexpr std::size_t piece = 1024;
  std::vector<std::vector<double>> values(lines.size(), std::vector<double>(k));
  const Values value(f);
  parallel_parts(k, piece, 0, [&](std::size_t begin, std::size_t end) {
    if (is_b)
      for (std::size_t at = begin; at < end; ++at)
        for (std::size_t n = 0; n < lines.size(); ++n) values[n][at] = value(m(at, lines[n]));
    else
      for (std::size_t n = 0; n < lines.size(); ++n)
        for (std::size_t at = begin; at < end; ++at) values[n][at] = value(m(lines[n], at));
  });
  return values;
}

// The scales of a line over K: floats of the request, codes of blocks (E8M0 or E4M3 by their number).
struct LineScales {
  const OperandScales& scales;
  std::span<const std::uint8_t> blocks;
  std::size_t line, lines, k;
  Format block_format = {};
  std::size_t across = 0;

  LineScales(const OperandScales& s, std::span<const std::uint8_t> b, std::size_t line_, std::size_t lines_, std::size_t k_,
             const DotModel* model)
      : scales(s), blocks(b), line(line_), lines(lines_), k(k_) {
    if (blocks.empty() || lines == 0) return;
    across = blocks.size() / lines;
    // 16 products share an E4M3 scale, 32 an E8M0 one.
    block_format = model != nullptr ? model->scale : across * 32 >= k + 16 ? "e4m3"_fmt : "e8m0"_fmt;
  }
  double at(std::size_t n) const {
    double factor = 1;
    if (!scales.values.empty()) {
      const std::size_t columns = scales.inner == 0 ? 1 : (k + scales.inner - 1) / scales.inner;
      factor = static_cast<double>(scales.values[(scales.outer == 0 ? 0 : line / scales.outer) * columns +
                                                 (scales.inner == 0 ? 0 : n / scales.inner)]);
    }
    if (across != 0) {
      const std::size_t length = (k + across - 1) / across;
      factor *= decode(blocks[line * across + n / length] & ~block_format.sign_mask(), block_format);
    }
    return factor;
  }
  bool any() const { return !scales.values.empty() || across != 0; }
};

LineScales scales_of_a(const ValidateRequest& r, std::size_t row) {
  return {r.options.scale_a, r.options.block_a, row, r.a.rows, r.a.cols, r.model};
}
LineScales scales_of_b(const ValidateRequest& r, std::size_t col) {
  return {r.options.scale_b, r.options.block_b, col, r.b.cols, r.a.cols, r.model};
}

std::vector<double> scaled(std::vector<double> values, const LineScales& scales) {
  if (scales.any())
    for (std::size_t k = 0; k < values.size(); ++k) values[k] *= scales.at(k);
  return values;
}

struct Sums {
  double sum = 0, magnitude = 0;
};
// Four sums side by side, so that additions do not wait for each other.
Sums dot_of(const std::vector<double>& x, const std::vector<double>& y) {
  double sums[4] = {}, sizes[4] = {};
  std::size_t k = 0;
  for (; k + 4 <= x.size(); k += 4)
    for (std::size_t n = 0; n < 4; ++n) {
      const double product = x[k + n] * y[k + n];
      sums[n] += product, sizes[n] += std::abs(product);
    }
  for (; k < x.size(); ++k) sums[0] += x[k] * y[k], sizes[0] += std::abs(x[k] * y[k]);
  return {sums[0] + sums[1] + sums[2] + sums[3], sizes[0] + sizes[1] + sizes[2] + sizes[3]};
}

CodeMatrix moved(CodeMatrix m, std::size_t elements) {
  if (m.data != nullptr) m.data = static_cast<const char*>(m.data) + elements * static_cast<std::size_t>(m.code_bytes);
  return m;
}

}  // namespace

ProductItem item_of(const ValidateRequest& r, std::size_t item) {
  return {moved(r.a, item * r.batch.a), moved(r.b, item * r.batch.b), moved(r.c, item * r.batch.c), moved(r.d, item * r.batch.d)};
}

namespace {

// Scales of lines from `first` on: a line (or a block of lines) has `across` of them.
template <class T>
void drop_lines(std::span<const T>& values, std::size_t lines, std::size_t across) {
  if (!values.empty()) values = values.subspan(std::min(values.size(), lines * across));
}
void drop_lines(OperandScales& s, std::size_t first, std::size_t k) {
  if (s.outer != 0) drop_lines(s.values, first / s.outer, s.inner == 0 ? 1 : (k + s.inner - 1) / s.inner);
}
void keep_lines(OperandScales& s, std::size_t count, std::size_t k) {
  if (s.outer == 0 || s.values.empty()) return;
  const std::size_t across = s.inner == 0 ? 1 : (k + s.inner - 1) / s.inner;
  s.values = s.values.first(std::min(s.values.size(), (count + s.outer - 1) / s.outer * across));
}

}  // namespace

ValidateRequest rows_of(ValidateRequest r, std::size_t first, std::size_t count) {
  const auto cut = [&](CodeMatrix& m) {
    m = moved(m, first * (m.layout == Layout::row_major ? m.pitch : 1));
    m.rows = count;
  };
  const std::size_t k = r.a.cols, across = r.a.rows == 0 ? 0 : r.options.block_a.size() / r.a.rows;
  drop_lines(r.options.scale_a, first, k), keep_lines(r.options.scale_a, count, k);
  if (across != 0) r.options.block_a = r.options.block_a.subspan(first * across, count * across);
  cut(r.a), cut(r.d);
  if (r.c.data != nullptr) cut(r.c);
  return r;
}

ValidateRequest cols_of(ValidateRequest r, std::size_t first, std::size_t count) {
  const auto cut = [&](CodeMatrix& m) {
    m = moved(m, first * (m.layout == Layout::row_major ? 1 : m.pitch));
    m.cols = count;
  };
  const std::size_t k = r.a.cols, across = r.b.cols == 0 ? 0 : r.options.block_b.size() / r.b.cols;
  drop_lines(r.options.scale_b, first, k), keep_lines(r.options.scale_b, count, k);
  if (across != 0) r.options.block_b = r.options.block_b.subspan(first * across, count * across);
  cut(r.b), cut(r.d);
  if (r.c.data != nullptr) cut(r.c);
  return r;
}

Format c_format_of(const ValidateRequest& r) {
  if (r.options.c_format) return *r.options.c_format;
  if (r.model != nullptr) return r.model->accumulator.format;
  if (r.d_format.is_integer()) return r.d_format;
  return r.c.code_bytes == 2 ? "fp16"_fmt : r.c.code_bytes == 8 ? "fp64"_fmt : "fp32"_fmt;
}

std::vector<std::size_t> spread(std::size_t total, std::size_t count, std::uint64_t seed) {
  count = std::min(count, total);
  std::vector<std::size_t> places(count);
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t begin = n * total / count, end = (n + 1) * total / count;
    places[n] = begin + static_cast<std::size_t>(random_bits(seed, n) % (end - begin));
  }
  return places;
}

ValueSample sample_values(const ValidateRequest& r, std::size_t item, std::vector<std::size_t> rows, std::vector<std::size_t> cols) {
  const ProductItem m = item_of(r, item);
  ValueSample s{item, std::move(rows), std::move(cols), {}, {}, {}, {}, {}};
  s.sum.resize(s.size()), s.plain.resize(s.size()), s.magnitude.resize(s.size()), s.c.resize(s.size()), s.found.resize(s.size());
  const std::vector<std::vector<double>> a_lines = lines_of(m.a, r.a_format, false, s.rows),
                                         b = lines_of(m.b, r.b_format, true, s.cols);
  std::vector<std::vector<double>> scaled_b(s.cols.size());
  parallel_parts(s.cols.size(), 1, 0, [&](std::size_t j, std::size_t) { scaled_b[j] = scaled(b[j], scales_of_b(r, s.cols[j])); });
  const bool any_scale = scales_of_a(r, 0).any() || scales_of_b(r, 0).any();
  parallel_parts(s.rows.size(), 1, 0, [&](std::size_t i, std::size_t) {
    const std::vector<double>& a = a_lines[i];
    const std::vector<double> scaled_a = scaled(a, scales_of_a(r, s.rows[i]));
    for (std::size_t j = 0; j < s.cols.size(); ++j) {
      const std::size_t at = s.at(i, j);
      const Sums sums = dot_of(scaled_a, scaled_b[j]);
      s.sum[at] = sums.sum, s.magnitude[at] = sums.magnitude;
      s.plain[at] = any_scale ? dot_of(a, b[j]).sum : sums.sum;
      if (m.c.data != nullptr) s.c[at] = decode(m.c(s.rows[i], s.cols[j]), c_format_of(r));
      s.found[at] = decode(m.d(s.rows[i], s.cols[j]) & r.d_format.code_mask(), r.d_format);
    }
  });
  return s;
}

double applied(const ValidateRequest& r, double sum) {
  const auto& f = r.options.function;
  return f.of == nullptr ? sum : static_cast<double>(f.of(static_cast<float>(sum)));
}

double output_of(const ValidateRequest& r, double sum, double c) {
  return applied(r, static_cast<double>(r.options.alpha) * sum + static_cast<double>(r.options.beta) * c);
}

std::vector<double> products_of(const ValidateRequest& r, std::size_t item, std::size_t row, std::size_t col) {
  const ProductItem m = item_of(r, item);
  std::vector<double> x = scaled(lines_of(m.a, r.a_format, false, {&row, 1})[0], scales_of_a(r, row));
  const std::vector<double> y = scaled(lines_of(m.b, r.b_format, true, {&col, 1})[0], scales_of_b(r, col));
  for (std::size_t k = 0; k < x.size(); ++k) x[k] *= y[k];
  return x;
}

}  // namespace narrow::detail
