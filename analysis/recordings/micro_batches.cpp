#include "analysis/recordings/micro_batches.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/base/random.hpp"

namespace analysis {

namespace {

MicroBatches made_micro_batches(std::uint64_t seed) {
  MicroBatches m{{"made", 64, 2048, std::vector<float>(64 * 2048)}, seed};
  for (std::size_t j = 0; j < m.rows.cols; ++j) {
    const double mean = 0x1p-13 * normal(seed, j);
    for (std::size_t i = 0; i < m.rows.rows; ++i)
      m.rows.data[i * m.rows.cols + j] = static_cast<float>(mean + 0x1p-12 * normal(seed + 1, i * m.rows.cols + j));
  }
  return m;
}

}  // namespace

const float* MicroBatches::row(std::size_t i) const {
  return rows.data.data() + (i < rows.rows ? i : narrow::random_bits(seed, i) % rows.rows) * rows.cols;
}

std::vector<double> MicroBatches::exact_mean(std::size_t n) const {
  std::vector<double> sum(width());
  for (std::size_t i = 0; i < n; ++i) {
    const float* const own = row(i);
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<double>(own[j]) / static_cast<double>(n);
  }
  return sum;
}

MicroBatches load_micro_batches(const std::string& given, std::uint64_t seed, Outcome& out) {
  const std::optional<std::string> file = given.empty() ? find_data("torch/micro_batches.safetensors") : given;
  if (!file) {
    out.data = made_text;
    out.notes.push_back(no_recordings_note("the micro-batches are made of normal numbers"));
    return made_micro_batches(seed);
  }
  std::string unread;
  std::vector<Values> all = read_values_of(*file, "", &unread);
  if (!unread.empty()) out.notes.push_back(unread);
  MicroBatches m{std::move(all.front()), seed};
  out.data = given.empty() ? recorded_text("micro-batches of a byte-level GPT") : Source(file_text(given));
  if (all.size() > 1)
    out.notes.push_back("The micro-batches are the rows of " + m.rows.name + ", the first of " +
                        std::to_string(all.size()) + " tensors; FILE:TENSOR names another.");
  NotFinite not_finite;
  not_finite.add(m.rows);
  if (m.rows.rows < 2)
    throw narrow::Error(*file + ": " + m.rows.name + " has one row; a row is the gradient of one micro-batch");
  if (not_finite.any())
    throw narrow::Error(*file + ": " + m.rows.name + " has " + not_finite.text() +
                        "; gradients to be summed are finite");
  if (std::all_of(m.rows.data.begin(), m.rows.data.end(), [](float x) { return x == 0; }))
    throw narrow::Error(*file + ": " + m.rows.name + " is zero everywhere; there is nothing to sum");
  return m;
}

// In units of the largest mean, because squares of the smallest floats need more than a double has.
double relative_error(const std::vector<double>& got, const std::vector<double>& exact, double scale) {
  double error = 0, signal = 0, largest = 0;
  for (const double x : exact) largest = std::max(largest, std::fabs(x));
  for (std::size_t j = 0; j < got.size(); ++j) {
    if (!std::isfinite(got[j])) return std::nan("");
    const double e = (got[j] / scale - exact[j]) / largest, x = exact[j] / largest;
    error += e * e, signal += x * x;
  }
  return largest == 0 ? std::nan("") : std::sqrt(error / signal);
}

Cell percent_cell(double share) { return std::isnan(share) ? Cell{} : Cell{100 * share}; }

std::string wrong_text(double error, int digits) {
  return std::isnan(error) ? "undefined (Inf, or a mean of zero)" : percent_text(error, digits) + " wrong";
}

}  // namespace analysis
