#include "narrow/dot/validate_sample.hpp"

#include "narrow/format/neighbours.hpp"

namespace narrow::detail {

namespace {

// `count` places, evenly spread; another try has others where there are any.
std::vector<std::size_t> spread(std::size_t total, std::size_t count, std::size_t attempt) {
  count = std::min(count, total);
  std::vector<std::size_t> places(count);
  for (std::size_t n = 0; n < count; ++n) places[n] = ((2 * n + 1) * total / (2 * count) + attempt * (total / (3 * count) + 1)) % total;
  return places;
}

// The scales of the chosen lines, one line for each (outer 1), or the one that all share.
std::vector<float> chosen_scales(const OperandScales& s, const std::vector<std::size_t>& lines, std::size_t k) {
  if (s.values.empty() || s.outer == 0) return {s.values.begin(), s.values.end()};
  const std::size_t across = s.inner == 0 ? 1 : (k + s.inner - 1) / s.inner;
  std::vector<float> chosen;
  for (const std::size_t line : lines)
    for (std::size_t n = 0; n < across; ++n) chosen.push_back(s.values[line / s.outer * across + n]);
  return chosen;
}

std::vector<std::uint8_t> chosen_blocks(std::span<const std::uint8_t> blocks, const std::vector<std::size_t>& lines, std::size_t total) {
  std::vector<std::uint8_t> chosen;
  if (blocks.empty() || total == 0) return chosen;
  const std::size_t across = blocks.size() / total;
  for (const std::size_t line : lines)
    for (std::size_t n = 0; n < across; ++n) chosen.push_back(blocks[line * across + n]);
  return chosen;
}

}  // namespace

ValidateSample::ValidateSample(const ValidateRequest& r, std::size_t rows, std::size_t cols, std::size_t attempt)
    : request_(r), rows_(spread(r.d.rows, rows, attempt)), cols_(spread(r.d.cols, cols, attempt)) {
  for (const std::size_t i : rows_)
    for (std::size_t k = 0; k < r.a.cols; ++k) a_.push_back(r.a(i, k));
  for (std::size_t k = 0; k < r.b.rows; ++k)
    for (const std::size_t j : cols_) b_.push_back(r.b(k, j));
  for (const std::size_t i : rows_)
    for (const std::size_t j : cols_) {
      d_.push_back(r.d(i, j) & r.d_format.code_mask());
      if (r.c.data != nullptr) c_.push_back(r.c(i, j));
    }
  scale_a_ = chosen_scales(r.options.scale_a, rows_, r.a.cols);
  scale_b_ = chosen_scales(r.options.scale_b, cols_, r.a.cols);
  block_a_ = chosen_blocks(r.options.block_a, rows_, r.d.rows);
  block_b_ = chosen_blocks(r.options.block_b, cols_, r.d.cols);
}

std::vector<std::uint64_t> ValidateSample::product(const DotModel& model, const Plan& plan) const {
  const ValidateRequest& r = request_;
  GemmOptions options = r.options;
  options.output = r.d_format;
  options.threads = 1;
  options.scale_a = {scale_a_, r.options.scale_a.outer == 0 ? std::size_t{0} : std::size_t{1}, r.options.scale_a.inner};
  options.scale_b = {scale_b_, r.options.scale_b.outer == 0 ? std::size_t{0} : std::size_t{1}, r.options.scale_b.inner};
  options.block_a = block_a_, options.block_b = block_b_;
  std::vector<std::uint64_t> d(outputs());
  using View = MatrixView<const std::uint64_t>;
  const View a{a_.data(), rows_.size(), r.a.cols}, b{b_.data(), r.b.rows, cols_.size()};
  const View c{c_.empty() ? nullptr : c_.data(), rows_.size(), cols_.size()};
  gemm(model, plan, a, b, c, MatrixView<std::uint64_t>{d.data(), rows_.size(), cols_.size()}, options);
  return d;
}

void ValidateSample::score(Trial& trial) const {
  const std::vector<std::uint64_t> d = product(*trial.model, trial.plan);
  trial.distance = 0;
  for (std::size_t n = 0; n < d.size(); ++n) trial.distance += distance_between(d[n], d_[n], request_.d_format);
  trial.exact = trial.distance == 0;
}

std::uint64_t distance_between(Code x, Code y, const Format& f) {
  if (x == y) return 0;
  if (is_nan(x, f) || is_nan(y, f)) return 65;
  // Zeros of unlike signs differ in bits alone.
  return static_cast<std::uint64_t>(std::max(bit_length(ulp_distance(x, y, f)), 1));
}

}  // namespace narrow::detail
