#include "narrow/train/run/instrument.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "narrow/format/decode.hpp"
#include "narrow/scale/quantise.hpp"

namespace narrow::train {

namespace {

bool counts(const TensorReport& t) { return t.format != "fp32"_fmt; }

double share(const std::vector<TensorReport>& tensors, std::uint64_t TensorReport::*part) {
  std::uint64_t hits = 0, all = 0;
  for (const TensorReport& t : tensors)
    if (counts(t)) hits += t.*part, all += t.count;
  return all == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(all);
}

// From where on a cast of elements changes a value by more than rounding: half a quantum above the largest finite one.
double overflow_threshold(const Format& format) {
  const double top = largest(format), below = decode(format.max_code() - 1, format);
  return top + (top - below) / 2;
}

// What element i is multiplied by when it is decoded. A delayed scale, or that of an MX block, need not fit the
// largest.
double decode_of(const Site& site, std::size_t i) {
  if (site.blocks == nullptr) return static_cast<double>(site.decode);
  const Quantised& q = *site.blocks;
  const BlockFormat& f = q.format;
  const std::size_t row = i / q.cols / f.block_rows, col = i % q.cols / f.block_cols;
  return static_cast<double>(q.scales[row * grid_cols(f, q.cols) + col]);
}

}  // namespace

double StepReport::underflow_share() const { return share(tensors, &TensorReport::underflow); }
double StepReport::overflow_share() const { return share(tensors, &TensorReport::overflow); }

float StepReport::largest_logit() const {
  float largest = 0;
  for (const TensorReport& t : tensors)
    if (t.operation == Operation::softmax && t.role == Role::activations)
      largest = std::max(largest, t.nonfinite > 0 ? std::numeric_limits<float>::infinity() : t.amax);
  return largest;
}

void Instrument::saw(const Site& site, std::span<const float> before, std::span<const float> after) {
  const auto [at, is_new] =
      index_.try_emplace({std::string(site.tensor), static_cast<int>(site.role)}, tensors_.size());
  if (is_new) {
    TensorReport t;
    t.tensor = site.tensor;
    t.operation = site.operation;
    t.role = site.role;
    t.format = site.precision.format;
    tensors_.push_back(std::move(t));
  }
  TensorReport& t = tensors_[at->second];
  t.count += before.size();
  const double threshold = overflow_threshold(site.precision.format);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool was_finite = std::isfinite(before[i]), is_finite = std::isfinite(after[i]);
    const float magnitude = std::abs(before[i]);
    t.underflow += before[i] != 0 && after[i] == 0;
    t.overflow += was_finite && (!is_finite || static_cast<double>(magnitude) > threshold * decode_of(site, i));
    t.nonfinite += !is_finite;
    if (was_finite) t.amax = std::max(t.amax, magnitude);
  }
  t.before.merge(exponent_histogram(before));
}

StepReport Instrument::take(std::uint64_t step) {
  StepReport report{step, std::move(tensors_)};
  tensors_.clear();
  index_.clear();
  return report;
}

std::string FirstNonFinite::text() const {
  const std::string when = "step " + std::to_string(step) + ": ";
  if (!in_model) return when + tensor;
  return when + std::string(name_of(operation)) + " " + tensor + ", " + std::string(name_of(role));
}

void FiniteWatch::saw(const Site& site, std::span<const float>, std::span<const float> after) {
  if (first_) return;
  for (const float x : after) {
    if (std::isfinite(x)) continue;
    first_ = FirstNonFinite{0, std::string(site.tensor), site.operation, site.role, true};
    return;
  }
}

}  // namespace narrow::train
