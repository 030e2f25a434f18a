#include "narrow/tensor/tensor_histogram.hpp"

#include <bit>
#include <cmath>

#include "narrow/array/parts.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {
namespace {

constexpr int double_min = -1022, double_max = 1023;

void add(SignCounts& to, const SignCounts& from) { to.negative += from.negative, to.positive += from.positive; }

// Counts by sign and exponent field, the upper twelve bits; zeros and Infs apart, as they share fields with others.
struct DoubleTable {
  std::vector<std::uint64_t> by_field = std::vector<std::uint64_t>(4096);
  std::uint64_t zero[2] = {}, inf[2] = {};
};

void count_doubles(DoubleTable& table, std::span<const double> values, double scale) {
  for (const double value : values) {
    const auto word = std::bit_cast<std::uint64_t>(value * scale);
    ++table.by_field[word >> 52];
    if (word << 1 == 0) ++table.zero[word >> 63];
    if (word << 1 == 0xFFE0000000000000ull) ++table.inf[word >> 63];
  }
}

void add_table(BinadeCounts& counts, const DoubleTable& t) {
  const auto field = [&](std::size_t e) { return SignCounts{t.by_field[2048 + e], t.by_field[e]}; };
  for (std::size_t e = 1; e < 2047; ++e) add(counts.binades[e - 1], field(e));
  add(counts.zero, {t.zero[1], t.zero[0]});
  add(counts.inf, {t.inf[1], t.inf[0]});
  add(counts.subnormal, {field(0).negative - t.zero[1], field(0).positive - t.zero[0]});
  add(counts.nan, {field(2047).negative - t.inf[1], field(2047).positive - t.inf[0]});
}

BinadeCounts count_wide(const Tensor& tensor, double scale, const TensorPass& pass) {
  BinadeCounts counts{double_min, std::vector<SignCounts>(double_max - double_min + 1), {}, {}, {}, {}};
  ValueReader reader(tensor, pass.threads);
  for_each_chunk(tensor, pass.done, [&](std::uint64_t first, std::size_t count) {
    const std::span<const double> values = reader.doubles(first, count);
    std::vector<DoubleTable> parts((count + detail::part_size - 1) / detail::part_size);
    parallel_parts(count, detail::part_size, pass.threads, [&](std::size_t begin, std::size_t end) {
      count_doubles(parts[begin / detail::part_size], values.subspan(begin, end - begin), scale);
    });
    for (const DoubleTable& part : parts) add_table(counts, part);
  });
  return counts;
}

BinadeCounts count_narrow(const Tensor& tensor, float scale, const TensorPass& pass) {
  ExponentHistogram total;
  ValueReader reader(tensor, pass.threads);
  std::vector<float> scaled;
  for_each_chunk(tensor, pass.done, [&](std::uint64_t first, std::size_t count) {
    std::span<const float> values = reader.floats(first, count);
    if (scale != 1) {
      scaled.resize(count);
      parallel_parts(count, detail::part_size, pass.threads, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) scaled[i] = values[i] * scale;
      });
      values = scaled;
    }
    total.merge(exponent_histogram(values, pass.threads));
  });
  return to_binade_counts(total);
}

void widen(BinadeCounts& counts) {
  if (counts.min_exponent == double_min) return;
  std::vector<SignCounts> wide(double_max - double_min + 1);
  for (std::size_t k = 0; k < counts.binades.size(); ++k)
    wide[k + static_cast<std::size_t>(counts.min_exponent - double_min)] = counts.binades[k];
  counts.binades = std::move(wide);
  counts.min_exponent = double_min;
}

}  // namespace

std::uint64_t BinadeCounts::count() const {
  std::uint64_t sum = zero.total() + subnormal.total() + inf.total() + nan.total();
  for (const SignCounts& c : binades) sum += c.total();
  return sum;
}

void BinadeCounts::merge(const BinadeCounts& other) {
  if (binades.empty()) return void(*this = other);
  BinadeCounts next = other;
  if (next.min_exponent != min_exponent) widen(*this), widen(next);
  for (std::size_t k = 0; k < binades.size(); ++k) add(binades[k], next.binades[k]);
  add(zero, next.zero), add(subnormal, next.subnormal), add(inf, next.inf), add(nan, next.nan);
}

BinadeCounts to_binade_counts(const ExponentHistogram& h) {
  return {ExponentHistogram::min_exponent, {h.binades.begin(), h.binades.end()}, h.zero, h.subnormal, h.inf, h.nan};
}

BinadeCounts tensor_histogram(const Tensor& tensor, double scale, const TensorPass& pass) {
  if (!tensor.type.has_format())
    throw Error("tensor " + quote(tensor.name) + " holds " + std::string(tensor.type.name) +
                ": a histogram needs a floating type, or the format of the codes");
  const double in_carrier = fits_float(tensor) ? static_cast<double>(static_cast<float>(scale)) : scale;
  if (!(in_carrier > 0) || std::isinf(in_carrier))
    throw Error("scale " + std::to_string(scale) + ": a positive finite number is needed");
  return fits_float(tensor) ? count_narrow(tensor, static_cast<float>(scale), pass) : count_wide(tensor, scale, pass);
}

}  // namespace narrow
