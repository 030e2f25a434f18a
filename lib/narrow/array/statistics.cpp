#include "narrow/array/statistics.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "narrow/array/kernels.hpp"
#include "narrow/array/parts.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow {

Share InputStatistics::share(std::uint64_t part) const {
  const auto of = [&](std::uint64_t whole) { return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole); };
  return {of(count), of(count - zeros)};
}

namespace {
constexpr double undefined = std::numeric_limits<double>::quiet_NaN();
}

double FormatStatistics::clipped_sqnr_db() const {
  const DefaultFloats guard;
  if (not_finite != 0 || signal == 0) return undefined;
  return squared_error == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / squared_error);
}
double FormatStatistics::sqnr_db() const { return has_error() ? clipped_sqnr_db() : undefined; }
double FormatStatistics::mse() const { return has_error() ? squared_error / static_cast<double>(compared) : undefined; }
double FormatStatistics::relative_error() const { return has_error() ? max_relative_error : undefined; }

void Statistics::merge(const Statistics& next) {
  const DefaultFloats guard;
  InputStatistics& a = input;
  const InputStatistics& b = next.input;
  a.count += b.count, a.zeros += b.zeros, a.nan += b.nan, a.inf += b.inf;
  a.amax = std::max(a.amax, b.amax);
  if (b.min_nonzero != 0) a.min_nonzero = a.min_nonzero == 0 ? b.min_nonzero : std::min(a.min_nonzero, b.min_nonzero);
  a.sum += b.sum;
  if (formats.size() < next.formats.size()) formats.resize(next.formats.size());
  for (std::size_t k = 0; k < next.formats.size(); ++k) {
    FormatStatistics& x = formats[k];
    const FormatStatistics& y = next.formats[k];
    x.underflow += y.underflow, x.subnormal += y.subnormal, x.overflow += y.overflow, x.saturated += y.saturated;
    x.clamped += y.clamped, x.not_finite += y.not_finite;
    x.compared += y.compared, x.squared_error += y.squared_error, x.signal += y.signal;
    x.max_relative_error = std::max(x.max_relative_error, y.max_relative_error);
  }
}

namespace {

using namespace detail;

template <class T>
void add_input(InputStatistics& in, T x) {
  const double value = static_cast<double>(x), size = std::abs(value);
  ++in.count;
  if (std::isnan(value)) return void(++in.nan);
  if (std::isinf(value)) return void(++in.inf);
  if (value == 0) ++in.zeros;
  else in.min_nonzero = in.min_nonzero == 0 ? size : std::min(in.min_nonzero, size);
  in.amax = std::max(in.amax, size);
  in.sum += value;
}

// s may be infinite where the scale made it so. Negative values in a format without sign are no overflow.
template <class T>
bool has_overflowed(T s, const FormatCast& to, std::uint64_t random) {
  if (s < 0 && !to.format.has_sign) return false;
  return std::isinf(s) || overflows(s, to.format, to.cast, random);
}

// One element by the definitions. x: the element, s: scaled, r: cast.
template <class T>
void add_one(FormatStatistics& out, T x, T s, T r, const FormatCast& to, double inverse, std::uint64_t random) {
  if (!std::isfinite(x)) return;
  const double value = static_cast<double>(x), result = static_cast<double>(r);
  if (has_overflowed(s, to, random)) {
    ++out.overflow;
    if (std::isfinite(result)) ++out.saturated;
  }
  if (value != 0 && result == 0) ++out.underflow;
  if (result != 0 && std::abs(result) < smallest_normal(to.format)) ++out.subnormal;
  if (!std::isfinite(result)) return void(++out.not_finite);
  const double error = result * inverse - value;
  ++out.compared;
  out.squared_error += error * error, out.signal += value * value;
  if (value != 0) out.max_relative_error = std::max(out.max_relative_error, std::abs(error / value));
}

// What a format needs in the pass over floats, computed once.
struct Measure {
  FormatCast to;
  CastJob job;
  CastKernel<float> kernel;
  std::uint32_t last_in_range[2];  // by sign: magnitude words above overflow, whatever the random word
  std::uint32_t safe_up_to;        // nothing up to this word overflows
  bool overflow_is_finite;         // every overflow gives the largest finite value
  bool always_masked;              // other results may not be finite floats either
  bool overflow_is_dropped;        // every overflow, and nothing else, gives a result that is not finite
  std::uint32_t normal_word;       // float word of the smallest normal value; 1 where floats reach no subnormals
};

bool is_nearest(const Cast& cast) {
  return cast.rounding == Rounding::nearest_even || cast.rounding == Rounding::nearest_away ||
         cast.rounding == Rounding::nearest_to_zero;
}

Measure make_measure(const FormatCast& to, std::uint64_t seed) {
  const Format& f = to.format;
  Measure m{to, {f, to.cast, seed, value_plan(f, to.cast), 0}, nullptr, {}, 0, false, false, false, 1};
  m.kernel = array_kernels().cast_values(m.job);
  for (const bool negative : {false, true}) m.last_in_range[negative] = last_word_in_range(f, to.cast, negative);
  m.safe_up_to = std::min(m.last_in_range[0], m.last_in_range[1]);
  if (to.cast.rounding == Rounding::stochastic)
    m.safe_up_to = std::min(m.safe_up_to, std::bit_cast<std::uint32_t>(static_cast<float>(std::min(largest(f), 0x1.fffffep+127))));
  // Negatives (and zero) may become NaN in a format without sign, and float does not hold every value of a wider one.
  m.always_masked = !f.has_sign || largest(f) > 0x1.fffffep+127;
  m.overflow_is_dropped = is_nearest(to.cast) && to.cast.overflow == Overflow::to_special && f.has_nan() && !m.always_masked;
  m.overflow_is_finite = (to.cast.overflow == Overflow::saturate || !f.has_nan()) && !m.always_masked;
  if (!f.has_sign) m.last_in_range[1] = 0x7F800000;  // not even -Inf
  if (f.has_subnormals() && f.min_exponent() >= -149)
    m.normal_word = std::bit_cast<std::uint32_t>(static_cast<float>(smallest_normal(f)));
  return m;
}

using Floats = std::array<float, statistics_block>;

// A block of the data, all finite, padded with zeros to a multiple of 16; index: of its first element in the data.
struct Block {
  const float* x;
  const float* s;  // scaled
  std::size_t size, padded, index;
  BlockInput input;
  std::uint32_t scaled_top;
  std::uint64_t missing;  // elements that were not finite and stand here as zeros
  const float* original;  // before that
  bool exact_scale;       // s is x times a power of two, and lost nothing

  bool may_overflow(const Measure& m) const { return m.always_masked || scaled_top > m.safe_up_to; }
  bool is_masked(const Measure& m) const { return may_overflow(m) && !m.overflow_is_finite; }
};

void add_block(FormatStatistics& out, const Measure& m, const Block& block, double inverse) {
  alignas(64) Floats r;
  CastJob job = m.job;
  job.first = block.index;
  m.kernel(block.s, r.data(), 0, block.size, job);
  std::fill(r.begin() + static_cast<std::ptrdiff_t>(block.size), r.begin() + static_cast<std::ptrdiff_t>(block.padded), 0.0f);
  if (block.missing != 0 && !m.to.format.has_zero)  // where zero is no zero, what stands for a missing element counts
    for (std::size_t i = 0; i < block.size; ++i) r[i] = std::isfinite(block.original[i]) ? r[i] : 0.0f;
  const bool masked = block.is_masked(m), may_overflow = block.may_overflow(m);
  if (may_overflow && m.to.cast.rounding == Rounding::stochastic) {
    for (std::size_t i = 0; i < block.size; ++i)
      if (has_overflowed(block.s[i], m.to, element_random(job, i)))
        ++out.overflow, out.saturated += std::isfinite(r[i]) ? 1 : 0;
  } else if (may_overflow && !m.overflow_is_dropped) {
    const Beyond beyond = array_kernels().count_overflow(block.s, r.data(), block.padded, m.last_in_range);
    out.overflow += beyond.overflow, out.saturated += beyond.saturated;
  }
  // Relative errors are compared in float, where s is an exact multiple of x; else every element is looked at. Rounding
  // to nearest is never off by more than the value itself.
  const bool exact_scale = block.exact_scale;
  const bool at_most_one = is_nearest(m.to.cast) && m.to.format.has_zero;
  const bool relative = exact_scale && !(at_most_one && out.max_relative_error >= 1);
  const BlockToCompare b{block.x, block.s, r.data(), block.padded, m.normal_word,
                         static_cast<float>(std::min(out.max_relative_error, 0x1.fffffep+127)), inverse};
  // Rounded to nearest or toward zero, r is zero or so close to s that r - s is a float.
  const bool is_close = is_nearest(m.to.cast) || m.to.cast.rounding == Rounding::toward_zero;
  const bool exact = exact_scale && is_close && m.to.format.has_zero && (!may_overflow || m.overflow_is_dropped);
  const BlockErrors e = array_kernels().compare_block(b, exact ? Difference::exact : Difference::general, masked, relative);
  if (masked && m.overflow_is_dropped) out.overflow += e.dropped;
  if (m.to.format.has_zero) out.underflow += e.zeros_after - block.input.zeros;
  out.subnormal += e.below_normal - e.zeros_after;
  out.not_finite += e.dropped;
  out.compared += block.size - e.dropped - block.missing;
  out.squared_error += e.squared_error;
  out.signal += masked ? e.signal : block.input.squares;
  bool one_by_one = !exact_scale;
  if (e.worse) {
    const auto largest_here = static_cast<double>(array_kernels().largest_relative_error(b.s, b.r, b.size));
    if (std::isfinite(largest_here)) out.max_relative_error = std::max(out.max_relative_error, largest_here);
    else one_by_one = true;  // beyond what float holds
  }
  if (!one_by_one) return;
  for (std::size_t i = 0; i < block.size; ++i)
    if (b.x[i] != 0 && std::isfinite(r[i])) {
      const double value = static_cast<double>(b.x[i]), error = static_cast<double>(r[i]) * inverse - value;
      out.max_relative_error = std::max(out.max_relative_error, std::abs(error / value));
    }
}

// The elements [begin, end) of data whose element 0 has the index `first`.
Statistics part_statistics(const float* data, std::size_t begin, std::size_t end, std::size_t first,
                           std::span<const Measure> measures, float scale) {
  Statistics out;
  out.formats.resize(measures.size());
  alignas(64) Floats x_buffer, s_buffer;
  for (std::size_t i = begin; i < end; i += statistics_block) {
    Block b{data + i, nullptr, std::min(statistics_block, end - i), 0, first + i, {}, 0, 0, data + i, true};
    b.padded = (b.size + statistics_step - 1) / statistics_step * statistics_step;
    const auto copy = [&] {
      std::copy_n(data + i, b.size, x_buffer.data());
      std::fill(x_buffer.begin() + static_cast<std::ptrdiff_t>(b.size), x_buffer.begin() + static_cast<std::ptrdiff_t>(b.padded), 0.0f);
      b.x = x_buffer.data();
    };
    if (b.size != b.padded) copy();
    b.input = array_kernels().scan_block(b.x, b.padded);
    NonFinite lost;
    if (b.input.top >= 0x7F800000) {
      copy();
      lost = array_kernels().clear_non_finite(x_buffer.data(), b.padded);
      b.input = array_kernels().scan_block(b.x, b.padded);
      b.missing = lost.nan + lost.inf;
    }
    InputStatistics in;
    in.count = b.size, in.nan = lost.nan, in.inf = lost.inf;
    in.zeros = b.input.zeros - b.missing - (b.padded - b.size);
    in.amax = static_cast<double>(std::bit_cast<float>(b.input.top));
    if (b.input.least <= 0x7F7FFFFF) in.min_nonzero = static_cast<double>(std::bit_cast<float>(b.input.least));
    in.sum = b.input.sum;
    out.merge({in, {}, 1});

    b.s = b.x;
    b.scaled_top = b.input.top;
    if (scale != 1) {
      for (std::size_t k = 0; k < b.padded; ++k) s_buffer[k] = b.x[k] * scale;
      b.s = s_buffer.data();
      b.scaled_top = std::bit_cast<std::uint32_t>(std::bit_cast<float>(b.input.top) * scale);
      const float least = b.input.least > 0x7F7FFFFF ? 1.0f : std::bit_cast<float>(b.input.least) * scale;
      int exponent = 0;
      b.exact_scale = std::frexp(scale, &exponent) == 0.5f && least >= 0x1p-126f && b.scaled_top < 0x7F800000;
    }
    const double inverse = 1 / static_cast<double>(scale);
    for (std::size_t k = 0; k < measures.size(); ++k) add_block(out.formats[k], measures[k], b, inverse);
  }
  return out;
}

// Parts of fixed size, merged in order: the same bits for any number of threads.
template <class Part>
std::vector<Statistics> make_parts(std::size_t count, int threads, const Part& part) {
  std::vector<Statistics> parts((count + part_size - 1) / part_size);
  parallel_parts(count, part_size, threads, [&](std::size_t begin, std::size_t end) { parts[begin / part_size] = part(begin, end); });
  return parts;
}
void merge_parts(Statistics& total, const std::vector<Statistics>& parts) {
  for (const Statistics& next : parts) total.merge(next);
}

void check_request(std::span<const FormatCast> formats, double scale, double in_carrier) {
  for (const FormatCast& to : formats) check_spans(0, 0, to.format), check_cast(to.cast);
  if (in_carrier > 0 && !std::isinf(in_carrier)) return;
  char text[32];
  throw Error("scale " + std::string(text, std::to_chars(text, text + 32, scale).ptr) + ": a positive finite number is needed");
}

}  // namespace

struct StatisticsPass::Plan {
  std::vector<Measure> measures;
  float scale;
};

StatisticsPass::StatisticsPass(std::span<const FormatCast> formats, double scale, std::uint64_t seed)
    : plan_(new Plan{{}, in_carrier<float>(scale)}) {
  check_request(formats, scale, static_cast<double>(plan_->scale));
  const DefaultFloats guard;
  for (const FormatCast& to : formats) plan_->measures.push_back(make_measure(to, seed));
}
StatisticsPass::~StatisticsPass() = default;

std::vector<Statistics> StatisticsPass::parts(std::span<const float> data, std::size_t first, int threads) const {
  return make_parts(data.size(), threads, [&](std::size_t begin, std::size_t end) {
    return part_statistics(data.data(), begin, end, first, plan_->measures, plan_->scale);
  });
}

void StatisticsPass::add(Statistics& total, std::span<const float> data, std::size_t first, int threads) const {
  total.scale = static_cast<double>(plan_->scale);
  total.formats.resize(plan_->measures.size());
  merge_parts(total, parts(data, first, threads));
}

Statistics StatisticsPass::operator()(std::span<const float> data, std::size_t first, int threads) const {
  Statistics total;
  add(total, data, first, threads);
  return total;
}

Statistics statistics(std::span<const float> data, std::span<const FormatCast> formats, double scale, std::uint64_t seed, int threads) {
  return StatisticsPass(formats, scale, seed)(data, 0, threads);
}

Statistics statistics(std::span<const double> data, std::span<const FormatCast> formats, double scale, std::uint64_t seed, int threads) {
  check_request(formats, scale, scale);
  Statistics total;
  total.scale = scale;
  total.formats.resize(formats.size());
  merge_parts(total, make_parts(data.size(), threads, [&](std::size_t begin, std::size_t end) {
                Statistics part;
                part.formats.resize(formats.size());
                for (std::size_t i = begin; i < end; ++i) {
                  add_input(part.input, data[i]);
                  const double s = data[i] * scale;
                  for (std::size_t k = 0; k < formats.size(); ++k) {
                    const std::uint64_t random =
                        formats[k].cast.rounding == Rounding::stochastic ? random_bits(seed, i) : 0;
                    add_one(part.formats[k], data[i], s, round_to(s, formats[k].format, formats[k].cast, random),
                            formats[k], 1 / scale, random);
                  }
                }
                return part;
              }));
  return total;
}

}  // namespace narrow
