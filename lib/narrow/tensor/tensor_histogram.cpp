#include <bit>
#include <cmath>

#include "narrow/array/parts.hpp"
#include "narrow/array/thresholds.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/scale/scaler.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/piece_members.hpp"
#include "narrow/tensor/tensor_statistics.hpp"
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
  const BinadeCounts none{double_min, std::vector<SignCounts>(double_max - double_min + 1), {}, {}, {}, {}};
  BinadeCounts counts = none;
  ValueReader reader(tensor, pass.threads);
  fold_chunks(
      tensor, pass.done, pass.log,
      [&](std::uint64_t first, std::size_t count) {
        const std::span<const double> values = reader.doubles(first, count);
        std::vector<DoubleTable> parts((count + detail::part_size - 1) / detail::part_size);
        parallel_parts(count, detail::part_size, pass.threads, [&](std::size_t begin, std::size_t end) {
          count_doubles(parts[begin / detail::part_size], values.subspan(begin, end - begin), scale);
        });
        BinadeCounts chunk = none;
        for (const DoubleTable& part : parts) add_table(chunk, part);
        return chunk;
      },
      [&](const BinadeCounts& chunk) { counts.merge(chunk); });
  return counts;
}

BinadeCounts count_narrow(const Tensor& tensor, float scale, const TensorPass& pass) {
  ExponentHistogram total;
  ValueReader reader(tensor, pass.threads);
  std::vector<float> scaled;
  fold_chunks(
      tensor, pass.done, pass.log,
      [&](std::uint64_t first, std::size_t count) {
        std::span<const float> values = reader.floats(first, count);
        if (scale != 1) {
          scaled.resize(count);
          parallel_parts(count, detail::part_size, pass.threads, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) scaled[i] = values[i] * scale;
          });
          values = scaled;
        }
        return exponent_histogram(values, pass.threads);
      },
      [&](const ExponentHistogram& chunk) { total.merge(chunk); });
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

using detail::Thresholds;

// By sign; the word of a magnitude tells its exponent and its fate.
void count_fates(BinadeFates& out, std::span<const float> values, float scale, const Thresholds (&by_sign)[2]) {
  for (const float x : values) {
    const auto word = std::bit_cast<std::uint32_t>(x * scale), size = word & 0x7FFFFFFF;
    if (size == 0 || size >= 0x7F800000) continue;
    const Thresholds& t = by_sign[word >> 31];
    ++out.binades[size >> 23][size >= t.overflow_from ? Fate::beyond
                              : size < t.zero_below   ? Fate::zero
                              : size < t.normal_from  ? Fate::subnormal
                                                      : Fate::normal];
  }
}

void count_fates(BinadeFates& out, std::span<const double> values, double scale, const FormatCast& to) {
  for (const double x : values) {
    const double s = x * scale;
    if (s == 0 || !std::isfinite(s)) continue;
    const double r = round_to(s, to.format, to.cast);
    const int k = std::max(0, std::ilogb(s) - double_min + 1);
    ++out.binades[static_cast<std::size_t>(k)][overflows(s, to.format, to.cast) || !std::isfinite(r) ? Fate::beyond
                                               : r == 0                                              ? Fate::zero
                                               : std::abs(r) < smallest_normal(to.format)            ? Fate::subnormal
                                                                                                     : Fate::normal];
  }
}

double checked_scale(const Tensor& tensor, double scale) {
  if (!tensor.type.has_format())
    throw Error("tensor " + quote(tensor.name) + " holds " + std::string(tensor.type.name) +
                ": a histogram needs a floating type, or the format of the codes");
  const double in_carrier = fits_float(tensor) ? static_cast<double>(static_cast<float>(scale)) : scale;
  if (!(in_carrier > 0) || std::isinf(in_carrier))
    throw Error("scale " + detail::scale_text(scale) + ": a positive finite number is needed");
  return in_carrier;
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
  (void)checked_scale(tensor, scale);
  return fits_float(tensor) ? count_narrow(tensor, static_cast<float>(scale), pass) : count_wide(tensor, scale, pass);
}

BinadeFates tensor_fates(const Tensor& tensor, const FormatCast& to, double scale, const TensorPass& pass) {
  (void)checked_scale(tensor, scale);
  const bool is_narrow = fits_float(tensor);
  const Thresholds by_sign[] = {detail::find_thresholds(to, false, 0), detail::find_thresholds(to, true, 0)};
  BinadeFates total{is_narrow ? ExponentHistogram::min_exponent : double_min, {}};
  total.binades.resize(is_narrow ? 255 : double_max - double_min + 2);
  const BinadeFates none = total;
  ValueReader reader(tensor, pass.threads);
  fold_chunks(
      tensor, pass.done, pass.log,
      [&](std::uint64_t first, std::size_t count) {
        std::vector<BinadeFates> parts((count + detail::part_size - 1) / detail::part_size, none);
        const std::span<const float> floats = is_narrow ? reader.floats(first, count) : std::span<const float>();
        const std::span<const double> doubles = is_narrow ? std::span<const double>() : reader.doubles(first, count);
        parallel_parts(count, detail::part_size, pass.threads, [&](std::size_t begin, std::size_t end) {
          BinadeFates& part = parts[begin / detail::part_size];
          if (is_narrow) count_fates(part, floats.subspan(begin, end - begin), static_cast<float>(scale), by_sign);
          else count_fates(part, doubles.subspan(begin, end - begin), scale, to);
        });
        BinadeFates chunk = none;
        for (const BinadeFates& part : parts) chunk.merge(part);
        return chunk;
      },
      [&](const BinadeFates& chunk) { total.merge(chunk); });
  return total;
}

}  // namespace narrow
