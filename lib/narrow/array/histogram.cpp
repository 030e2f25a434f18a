#include "narrow/array/histogram.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/array/kernels.hpp"
#include "narrow/array/parts.hpp"
#include "narrow/array/thresholds.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow {

namespace {

using namespace detail;

constexpr std::size_t block = 4096;  // 16 KiB: stays in the first cache for the second look at it

// Counts by sign and exponent field: the upper nine bits of the word. Four tables, so that equal neighbours do not wait
// for each other's store. Zeros and Infs are counted apart, because they share a field with subnormals and NaN.
struct Tables {
  std::array<std::array<std::uint32_t, 512>, 4> by_field{};
  SpecialCounts specials;
};

void count_block(Tables& t, const float* x, std::size_t n) {
  const auto word_at = [&](std::size_t i) { return std::bit_cast<std::uint32_t>(x[i]); };
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    ++t.by_field[0][word_at(i) >> 23];
    ++t.by_field[1][word_at(i + 1) >> 23];
    ++t.by_field[2][word_at(i + 2) >> 23];
    ++t.by_field[3][word_at(i + 3) >> 23];
  }
  for (; i < n; ++i) ++t.by_field[0][word_at(i) >> 23];

  array_kernels().count_specials(t.specials, x, n);
}

ExponentHistogram to_histogram(const Tables& t) {
  ExponentHistogram h;
  const auto field = [&](std::size_t sign, std::size_t exponent) {
    std::uint64_t sum = 0;
    for (const auto& table : t.by_field) sum += table[sign * 256 + exponent];
    return sum;
  };
  for (std::size_t e = 1; e < 255; ++e) h.binades[e - 1] = {field(1, e), field(0, e)};
  h.zero = {t.specials.zero[1], t.specials.zero[0]};
  h.inf = {t.specials.inf[1], t.specials.inf[0]};
  h.subnormal = {field(1, 0) - t.specials.zero[1], field(0, 0) - t.specials.zero[0]};
  h.nan = {field(1, 255) - t.specials.inf[1], field(0, 255) - t.specials.inf[0]};
  return h;
}

// How many elements of a sign have a magnitude word of at least the threshold, Inf and NaN left out.
struct ThresholdCount {
  std::uint32_t from;
  bool negative;
  std::uint64_t count = 0;
};

void count_thresholds(std::span<ThresholdCount> thresholds, const float* x, std::size_t n) {
  for (ThresholdCount& t : thresholds) t.count += array_kernels().count_from(t.from, t.negative ? 0x80000000u : 0, x, n);
}

struct Part {
  ExponentHistogram histogram;
  std::vector<ThresholdCount> thresholds;
};

Part histogram_pass(std::span<const float> data, const std::vector<ThresholdCount>& thresholds, int threads) {
  std::vector<Part> parts((data.size() + part_size - 1) / part_size);
  parallel_parts(data.size(), part_size, threads, [&](std::size_t begin, std::size_t end) {
    Part& part = parts[begin / part_size];
    part.thresholds = thresholds;
    Tables tables;
    for (std::size_t i = begin; i < end; i += block) {
      const std::size_t n = std::min(block, end - i);
      count_block(tables, data.data() + i, n);
      count_thresholds(part.thresholds, data.data() + i, n);
    }
    part.histogram = to_histogram(tables);
  });
  Part all{{}, thresholds};
  for (const Part& part : parts) {
    all.histogram.merge(part.histogram);
    for (std::size_t k = 0; k < thresholds.size(); ++k) all.thresholds[k].count += part.thresholds[k].count;
  }
  return all;
}

void add(SignCounts& to, const SignCounts& from) { to.negative += from.negative, to.positive += from.positive; }

// Adds n elements with words in [first, last] to the bounds of "the word is in [from, to)".
void add_range(Bounds& b, std::uint64_t n, std::uint32_t first, std::uint32_t last, std::uint32_t from, std::uint32_t to) {
  if (from >= to || last < from || first >= to) return;
  b.upper += n;
  if (first >= from && last < to) b.lower += n;
}

}  // namespace

std::uint64_t ExponentHistogram::count() const {
  std::uint64_t sum = zero.total() + subnormal.total() + inf.total() + nan.total();
  for (const SignCounts& c : binades) sum += c.total();
  return sum;
}

void ExponentHistogram::merge(const ExponentHistogram& other) {
  add(zero, other.zero), add(subnormal, other.subnormal), add(inf, other.inf), add(nan, other.nan);
  for (std::size_t k = 0; k < binades.size(); ++k) add(binades[k], other.binades[k]);
}

void Fates::add(const Fates& other) {
  for (std::size_t k = 0; k < of.size(); ++k) of[k] += other.of[k];
}

Fates BinadeFates::all() const {
  Fates sum;
  for (const Fates& f : binades) sum.add(f);
  return sum;
}

void BinadeFates::merge(const BinadeFates& other) {
  if (other.binades.size() > binades.size()) {
    BinadeFates narrower = other;
    std::swap(*this, narrower);
    return merge(narrower);
  }
  const auto shift = static_cast<std::size_t>(other.min_exponent - min_exponent);
  for (std::size_t k = 0; k < other.binades.size(); ++k) binades[k == 0 ? 0 : k + shift].add(other.binades[k]);
}

ExponentHistogram exponent_histogram(std::span<const float> data, int threads) {
  return histogram_pass(data, {}, threads).histogram;
}

HistogramShares shares_from_histogram(const ExponentHistogram& h, const FormatCast& to, int scale_log2) {
  HistogramShares shares;
  for (const bool negative : {false, true}) {
    const Thresholds t = find_thresholds(to, negative, scale_log2);
    const auto add_binade = [&](const SignCounts& counts, std::uint32_t first, std::uint32_t last) {
      const std::uint64_t n = negative ? counts.negative : counts.positive;
      add_range(shares.underflow, n, first, last, 1, t.zero_below);
      add_range(shares.subnormal, n, first, last, t.zero_below, t.normal_from);
      add_range(shares.overflow, n, first, last, t.overflow_from, 0x7F800000);
    };
    add_binade(h.subnormal, 1, 0x7FFFFF);
    for (std::uint32_t e = 1; e < 255; ++e) add_binade(h.binades[e - 1], e << 23, (e << 23) + 0x7FFFFF);
  }
  return shares;
}

namespace {

template <class T>
std::optional<int> largest_scale(T low, T high, const FormatCast& to) {
  constexpr std::uint64_t worst = ~std::uint64_t{0};  // the draw that rounds up most
  const auto over = [&](T x, int k) {
    const T s = x * std::ldexp(T{1}, k);
    return !(s < 0 && !to.format.has_sign) && (std::isinf(s) || overflows(s, to.format, to.cast, worst));
  };
  for (int k = ExponentHistogram::max_exponent; k >= ExponentHistogram::min_exponent; --k)
    if (!over(low, k) && !over(high, k)) return k;
  return {};
}

}  // namespace

std::optional<int> largest_scale_log2(float low, float high, const FormatCast& to) {
  return largest_scale(low, high, to);
}
std::optional<int> largest_scale_log2(double low, double high, const FormatCast& to) {
  return largest_scale(low, high, to);
}

std::optional<int> loss_scale_log2(const ExponentHistogram& h, float low, float high, const FormatCast& to) {
  const std::optional<int> largest = largest_scale(low, high, to);
  if (!largest || *largest <= 0) return largest;
  // A larger scale loses no more, so the largest one is as good as any, and the choice is the smallest that equals it.
  const auto lost = [&](int k) { return shares_from_histogram(h, to, k).underflow.lower; };
  int k = 0;
  for (const std::uint64_t least = lost(*largest); lost(k) != least;) ++k;
  return k;
}

HistogramWithShares exponent_histogram(std::span<const float> data, std::span<const ScaledFormat> formats, int threads) {
  std::vector<ThresholdCount> thresholds;
  for (const ScaledFormat& scaled : formats)
    for (const bool negative : {false, true}) {
      const Thresholds t = find_thresholds(scaled.to, negative, scaled.scale_log2);
      for (const std::uint32_t from : {1u, t.zero_below, t.normal_from, t.overflow_from}) thresholds.push_back({from, negative});
    }
  const Part all = histogram_pass(data, thresholds, threads);
  HistogramWithShares out{all.histogram, {}};
  for (std::size_t k = 0; k < formats.size(); ++k) {
    ExactShares shares;
    for (std::size_t sign = 0; sign < 2; ++sign) {
      const ThresholdCount* t = &all.thresholds[8 * k + 4 * sign];
      shares.underflow += t[0].count - t[1].count;
      shares.subnormal += t[1].count - t[2].count;
      shares.overflow += t[3].count;
    }
    out.shares.push_back(shares);
  }
  return out;
}

}  // namespace narrow
