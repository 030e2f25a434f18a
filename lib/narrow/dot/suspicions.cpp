#include "narrow/dot/suspicions.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "narrow/round/convert.hpp"

namespace narrow::detail {

namespace {

struct Findings {
  const ValidateRequest& request;
  const Trial& closest;
  const std::vector<std::uint64_t>& expected;
  std::uint64_t equal, total;

  Code found(std::size_t i, std::size_t j) const { return request.d(i, j) & request.d_format.code_mask(); }
  Code expect(std::size_t i, std::size_t j) const { return expected[i * request.d.cols + j]; }
  std::string share(std::uint64_t count) const { return std::to_string(count) + " of " + std::to_string(total); }
};

using Sentences = std::vector<std::string>;

// Few differences in a product that is right elsewhere: corrupted words, or a row or column of its own.
void look_at_places(const Findings& e, Sentences& out) {
  const std::uint64_t wrong = e.total - e.equal;
  if (wrong == 0 || wrong * 4 > e.total) return;
  std::map<std::size_t, std::uint64_t> by_row, by_col;
  std::uint64_t one_bit = 0;
  for (std::size_t i = 0; i < e.request.d.rows; ++i)
    for (std::size_t j = 0; j < e.request.d.cols; ++j) {
      const Code difference = e.found(i, j) ^ e.expect(i, j);
      if (difference == 0) continue;
      ++by_row[i], ++by_col[j];
      one_bit += (difference & (difference - 1)) == 0 ? 1 : 0;
    }
  if (one_bit == wrong) out.push_back("each output that differs does so in one bit: corrupted words rather than another arithmetic");
  if (by_row.size() == 1 && wrong > 1 && e.request.d.rows > 1) out.push_back("only row " + std::to_string(by_row.begin()->first) + " differs: a wrong row of A, or its part of the output overwritten");
  if (by_col.size() == 1 && wrong > 1 && e.request.d.cols > 1) out.push_back("only column " + std::to_string(by_col.begin()->first) + " differs: a wrong column of B, or its part of the output overwritten");
}

// D against the expected product with rows moved, columns moved, or transposed.
void look_at_order(const Findings& e, Sentences& out) {
  const std::size_t rows = e.request.d.rows, cols = e.request.d.cols;
  const auto matches = [&](const auto& place) {
    std::uint64_t count = 0, looked = 0;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) {
        const auto [x, y] = place(i, j);
        if (x >= rows || y >= cols) continue;
        ++looked;
        count += e.found(i, j) == e.expect(x, y) ? 1 : 0;
      }
    return looked > 0 && count * 10 > looked * 9 && count > e.equal;
  };
  using Place = std::pair<std::size_t, std::size_t>;
  if (rows == cols && rows > 1 && matches([](std::size_t i, std::size_t j) { return Place{j, i}; }))
    out.push_back("D is the transposed product");
  for (const std::size_t shift : {std::size_t{1}, std::size_t{8}}) {
    if (rows > shift && matches([&](std::size_t i, std::size_t j) { return Place{i + shift, j}; }))
      out.push_back("row i of D is row i + " + std::to_string(shift) + " of the product: a wrong row offset");
    if (rows > shift && matches([&](std::size_t i, std::size_t j) { return Place{i - shift, j}; }))
      out.push_back("row i of D is row i - " + std::to_string(shift) + " of the product: a wrong row offset");
  }
}

// D is a constant times the product.
void look_at_scale(const Findings& e, Sentences& out) {
  std::map<double, std::uint64_t> ratios;
  std::uint64_t looked = 0;
  for (std::size_t n = 0; n < e.expected.size() && looked < 4096; ++n) {
    const double x = decode(e.expected[n], e.request.d_format), y = decode(e.found(n / e.request.d.cols, n % e.request.d.cols), e.request.d_format);
    if (x == 0 || y == 0 || !std::isfinite(x) || !std::isfinite(y)) continue;
    ++looked;
    ++ratios[y / x];
  }
  for (const auto& [ratio, count] : ratios)
    if (ratio != 1 && looked > 8 && count * 2 > looked)
      out.push_back("most outputs are " + std::to_string(ratio) + " times the product: a missing scale, alpha or sign");
}

// The product rounded first to another format, then to D's.
void look_at_double_rounding(const Findings& e, Sentences& out) {
  const Format fp32 = "fp32"_fmt;
  if (e.request.d_format.width() >= 32 || e.closest.model->accumulator.format != fp32) return;
  const ValidateSample sample(e.request, 16, 64);
  ValidateRequest wide = e.request;
  wide.d_format = fp32;  // only the product is asked of this sample
  const ValidateSample wide_sample(wide, 16, 64);
  const std::vector<std::uint64_t> sums = wide_sample.product(*e.closest.model, e.closest.plan);
  const auto count_through = [&](const Format& via) {
    std::size_t count = 0;
    for (std::size_t n = 0; n < sums.size(); ++n)
      count += convert(convert(sums[n], fp32, via), via, e.request.d_format) == sample.found()[n] ? 1 : 0;
    return count;
  };
  const std::size_t direct = count_through(fp32);
  for (const char* name : {"fp16", "bf16", "tf32"}) {
    const Format via = *find_format(name);
    if (via == e.request.d_format || count_through(via) <= direct) continue;
    if (count_through(via) * 10 > sums.size() * 9)
      out.push_back(std::string("the output was rounded twice: to ") + name + " first (" + std::to_string(count_through(via)) + " of " + std::to_string(sums.size()) + " sampled outputs)");
  }
}

// What the closest candidate itself tells.
void look_at_candidate(const Findings& e, Sentences& out) {
  if (e.equal * 20 < e.total) return;  // chance agreement tells nothing
  const DotModel& m = *e.closest.model;
  const std::string name(m.name.view());
  if (e.closest.plan.order == SumOrder::split || e.closest.plan.order == SumOrder::promote)
    out.push_back("a split of K: " + plan_text(e.closest.plan) + " explains " + e.share(e.equal));
  if (e.closest.plan.operands != Operands::cut) out.push_back("operands rounded to tf32 before the product explain " + e.share(e.equal));
  if (m.generation == Generation::software)
    out.push_back("no tensor core: sums in software (" + name + ") explain " + e.share(e.equal));
  if (m.accumulator.format == "fp16"_fmt && e.request.d_format != m.accumulator.format)
    out.push_back("an FP16 accumulator (" + name + ") explains " + e.share(e.equal));
}

}  // namespace

std::vector<std::string> suspicions(const ValidateRequest& request, const Trial& closest,
                                    const std::vector<std::uint64_t>& expected, std::uint64_t equal) {
  const Findings e{request, closest, expected, equal, request.d.rows * request.d.cols};
  Sentences out;
  look_at_places(e, out);
  look_at_order(e, out);
  look_at_scale(e, out);
  look_at_double_rounding(e, out);
  look_at_candidate(e, out);
  return out;
}

}  // namespace narrow::detail
