#include "narrow/scale/block_format.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "narrow/array/parts.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/scale/block_encoder.hpp"
#include "narrow/scale/scaler.hpp"
#include "narrow/scale/quantise.hpp"

namespace narrow {

void ScaleSpread::merge(const ScaleSpread& next) {
  blocks += next.blocks, zeros += next.zeros, non_finite += next.non_finite;
  for (const auto& [log2, count] : next.by_log2) by_log2[log2] += count;
}

int ScaleSpread::quantile_log2(double share) const {
  std::uint64_t total = 0, below = 0;
  for (const auto& [log2, count] : by_log2) total += count;
  for (const auto& [log2, count] : by_log2) {
    below += count;
    if (static_cast<double>(below) >= share * static_cast<double>(total)) return log2;
  }
  return 0;
}

void BlockFormatStatistics::merge(const BlockFormatStatistics& next) {
  Statistics both{input, {elements}, 1};
  both.merge({next.input, {next.elements}, 1});
  input = both.input;
  elements = both.formats[0];
  scales.merge(next.scales);
  fates.merge(next.fates);
}

namespace {

using namespace detail;

// What the elements of a format need, computed once.
struct Measure {
  const BlockEncoder& encoder;
  std::array<float, 256> values;
  std::array<bool, 256> is_subnormal;
  Cast cast;
  float largest_element;
  float scale;
  double inverse;

  Measure(const BlockEncoder& e, float s)
      : encoder(e),
        values(element_values(e.format().element)),
        is_subnormal{},
        cast(element_cast(e.format())),
        largest_element(static_cast<float>(largest(e.format().element))),
        scale(s),
        inverse(1 / static_cast<double>(s)) {
    const Format& f = e.format().element;
    for (Code c = 0; c <= f.code_mask(); ++c) is_subnormal[c] = classify(c, f) == ValueClass::subnormal;
  }

  // Where integers are clamped evenly, both signs overflow as the positive one does.
  bool has_overflowed(float scaled) const {
    const BlockFormat& f = encoder.format();
    if (f.element.twos_complement && !clamps_evenly(f)) return overflows(scaled, f.element, cast);
    const float size = std::abs(scaled);
    return size > largest_element && (std::isinf(size) || overflows(size, encoder.format().element, cast));
  }
};

void add_scale(ScaleSpread& out, float stored) {
  ++out.blocks;
  if (!std::isfinite(stored)) ++out.non_finite;
  else if (stored == 0) ++out.zeros;
  else ++out.by_log2[floor_log2(stored)];
}

// One element: x as it came, its code, what scaled it and what decodes it.
void add_element(BlockFormatStatistics& out, const Measure& m, float x, std::uint8_t code, float encode,
                 float decode_by) {
  InputStatistics& in = out.input;
  const auto value = static_cast<double>(x);
  ++in.count;
  if (std::isnan(x)) return void(++in.nan);
  if (std::isinf(x)) return void(++in.inf);
  in.amax = std::max(in.amax, std::abs(value));
  in.sum += value;
  if (x == 0) ++in.zeros;
  else in.min_nonzero = in.min_nonzero == 0 ? std::abs(value) : std::min(in.min_nonzero, std::abs(value));

  FormatStatistics& f = out.elements;
  const float result = m.values[code] * decode_by;
  // A block whose scale is 0 is lost, not beyond: NVFP4 multiplies it by the largest float.
  const bool beyond = decode_by != 0 && m.has_overflowed(scaled_by(x * m.scale, encode, m.encoder.format().rule));
  if (const std::uint32_t field = std::bit_cast<std::uint32_t>(std::abs(x * m.scale)) >> 23;
      !out.fates.binades.empty() && x != 0 && field < out.fates.binades.size())
    ++out.fates.binades[field][beyond || !std::isfinite(result) ? Fate::beyond
                               : result == 0                    ? Fate::zero
                               : m.is_subnormal[code]           ? Fate::subnormal
                                                                : Fate::normal];
  if (beyond) {
    ++f.overflow;
    if (std::isfinite(result)) ++f.saturated, ++f.clamped;
  }
  if (m.is_subnormal[code]) ++f.subnormal;
  if (x != 0 && result == 0) ++f.underflow;
  if (!std::isfinite(result)) return void(++f.not_finite);
  const double error = static_cast<double>(result) * m.inverse - value;
  ++f.compared;
  f.squared_error += error * error;
  f.signal += value * value;
  if (x != 0) f.max_relative_error = std::max(f.max_relative_error, std::abs(error / value));
}

// A row of a block, or a piece of one.
void add_piece(BlockFormatStatistics& out, const Measure& m, const float* original, const float* x, std::size_t n,
               const BlockScale& s) {
  EncoderBuffer buffer;
  std::array<std::uint8_t, encoder_buffer> codes;
  const BlockFormat& f = m.encoder.format();
  const bool has_factor = f.has_tensor_scale() || f.has_row_scales();
  const float decode_by = has_factor ? s.stored * file_factor(m.encoder.tensor(), f) : s.stored;  // as in files
  for (std::size_t i = 0; i < n; i += encoder_buffer) {
    const std::size_t count = std::min(encoder_buffer, n - i);
    m.encoder.encode(x + i, count, s.encode, codes.data(), buffer);
    for (std::size_t k = 0; k < count; ++k) add_element(out, m, original[i + k], codes[k], s.encode, decode_by);
  }
}

}  // namespace

BlockFormatStatistics block_format_statistics(std::span<const float> data, std::size_t rows, std::size_t cols,
                                              const BlockFormat& format, float amax, float scale, int threads,
                                              bool with_fates) {
  if (cols == 0 ? !data.empty() : data.size() / cols != rows || data.size() % cols != 0)
    throw Error("blocks: " + std::to_string(data.size()) + " elements are no " + std::to_string(rows) + " x " +
                std::to_string(cols) + " matrix");
  if (!(scale > 0) || std::isinf(scale))
    throw Error("blocks: scale " + detail::scale_text(scale) + ": a positive finite number is needed");
  BlockFormatStatistics total;
  if (data.empty()) return total;
  const DefaultFloats guard;
  std::vector<float> multiplied;
  if (scale != 1) {
    multiplied.resize(data.size());
    for (std::size_t i = 0; i < data.size(); ++i) multiplied[i] = data[i] * scale;
  }
  const float* x = scale == 1 ? data.data() : multiplied.data();
  const Grid g(format, rows, cols);
  const BlockEncoder encoder(format, amax);
  const std::vector<float> tops = format.has_row_scales()
                                      ? row_amaxes(std::span(x, data.size()), rows, cols, format, threads)
                                      : std::vector<float>();

  // A tensor-wide scale: any split into pieces. Else parts of whole blocks. Merged in order: no thread count shows.
  const bool whole = format.block_rows == 0;
  const std::size_t count = whole ? data.size() : g.blocks();
  const std::size_t part = whole ? part_size : std::max<std::size_t>(1, part_size / (g.block_rows * g.block_cols));
  std::vector<BlockFormatStatistics> parts(divide_up(count, part));
  parallel_parts(count, part, threads, [&](std::size_t begin, std::size_t end) {
    BlockFormatStatistics& out = parts[begin / part];
    if (with_fates) out.fates.binades.resize(255);  // by the exponent field of a float
    BlockEncoder own = encoder;
    const Measure measure(own, scale);
    if (whole) return add_piece(out, measure, data.data() + begin, x + begin, end - begin, encoder.whole());
    for (std::size_t b = begin; b < end; ++b) {
      if (!tops.empty()) own.set_amax(tops[g.top(b)]);
      const BlockScale s = own.scale_of(x, g, b);
      add_scale(out.scales, s.stored);
      for (std::size_t r = 0; r < g.height(b); ++r) {
        const std::size_t at = (g.top(b) + r) * cols + g.left(b);
        add_piece(out, measure, data.data() + at, x + at, g.width(b), s);
      }
    }
  });
  if (whole) add_scale(total.scales, encoder.whole().stored);
  for (const BlockFormatStatistics& next : parts) total.merge(next);
  return total;
}

BlockFormatStatistics block_format_statistics(std::span<const float> data, std::size_t rows, std::size_t cols,
                                              const BlockFormat& format) {
  const float amax = format.needs_tensor_amax() ? tensor_amax(data, format) : 0;
  return block_format_statistics(data, rows, cols, format, amax);
}

}  // namespace narrow
