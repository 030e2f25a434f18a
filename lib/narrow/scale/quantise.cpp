#include "narrow/scale/quantise.hpp"

#include <algorithm>
#include <string>

#include "narrow/array/array.hpp"
#include "narrow/array/pack.hpp"
#include "narrow/array/parts.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/base/random.hpp"
#include "narrow/scale/block_encoder.hpp"

namespace narrow {

namespace {

using namespace detail;

void check_shape(std::size_t elements, std::size_t rows, std::size_t cols) {
  const bool fits = cols == 0 ? elements == 0 : elements / cols == rows && elements % cols == 0;
  if (!fits)
    throw Error("blocks: " + std::to_string(elements) + " elements are no " + std::to_string(rows) + " x " +
                std::to_string(cols) + " matrix");
}

void check_sizes(std::size_t elements, std::size_t codes, std::size_t scales, const Grid& g) {
  if (codes != elements)
    throw Error("blocks: " + std::to_string(elements) + " elements into " + std::to_string(codes) +
                " codes: sizes must be equal");
  if (elements != 0 && scales != g.blocks())
    throw Error("blocks: " + std::to_string(scales) + " scales for " + std::to_string(g.blocks()) + " blocks");
}

// The amax of every row, where the format has a factor for each; else nothing.
std::vector<float> row_tops(std::span<const float> data, std::size_t rows, std::size_t cols, const BlockFormat& format,
                            int threads) {
  if (!format.has_row_scales()) return {};
  if (format.block_rows != 1)
    throw Error("blocks: " + std::string(row_of(format.rule).name) + " has a factor for every row, and blocks of one");
  return row_amaxes(data, rows, cols, format, threads);
}

template <class In, class Out>
void check_apart(std::span<const In> in, std::span<Out> out) {
  if (!lie_apart(in, out)) throw Error("blocks: input and output overlap");
}

// Blocks of one row that lie side by side, each within the buffer: many of them share one call of the kernels. Size is
// the size of a block where it is a common one, so that the inner loops have a known length; else 0.
template <std::size_t Size>
void quantise_run(const float* x, std::size_t n, std::size_t any_size, const BlockEncoder& encoder, std::uint8_t* codes,
                  float* scales, EncoderBuffer& buffer) noexcept {
  const std::size_t block = Size != 0 ? Size : any_size;
  const std::size_t run = encoder_buffer / block * block;
  EncoderBuffer amaxes, factors;
  for (std::size_t i = 0; i < n; i += run) {
    const std::size_t m = std::min(run, n - i), whole = m / block, count = divide_up(m, block),
                      rest = m - whole * block;
    if constexpr (Size != 0) {
      if (rest == 0 && encoder.encode_blocks<Size>(x + i, whole, codes + i, scales)) {
        scales += count;
        continue;
      }
    }
    const ScaleRule rule = encoder.format().rule;
    amaxes_of(x + i, whole, block, rule, amaxes.data());
    if (rest != 0) amaxes[whole] = amax_of(x + i + whole * block, rest, rule);
    encoder.scales_of(amaxes.data(), count, scales, factors.data());
    encoder.scale_into(x + i, whole, block, factors.data(), buffer.data());
    if (rest != 0) encoder.scale_into(x + i + whole * block, 1, rest, &factors[whole], buffer.data() + whole * block);
    encoder.cast(buffer.data(), m, codes + i);
    scales += count;
  }
}

// One block of several rows, or wider than the buffer.
void quantise_tile(const float* data, const Grid& g, std::size_t b, const BlockEncoder& encoder, std::uint8_t* codes,
                   float& scale, EncoderBuffer& buffer) noexcept {
  const BlockScale s = encoder.scale_of(data, g, b);
  scale = s.stored;
  for (std::size_t r = 0; r < g.height(b); ++r) {
    const std::size_t at = (g.top(b) + r) * g.cols + g.left(b);
    encoder.encode(data + at, g.width(b), s.encode, codes + at, buffer);
  }
}

}  // namespace

std::size_t grid_rows(const BlockFormat& f, std::size_t rows) {
  return f.block_rows == 0 ? (rows == 0 ? 0 : 1) : divide_up(rows, f.block_rows);
}
std::size_t grid_cols(const BlockFormat& f, std::size_t cols) {
  return f.block_cols == 0 ? (cols == 0 ? 0 : 1) : divide_up(cols, f.block_cols);
}

float tensor_amax(std::span<const float> data, const BlockFormat& format, int threads) {
  const DefaultFloats guard;
  std::vector<float> parts(divide_up(data.size(), part_size));
  parallel_parts(data.size(), part_size, threads, [&](std::size_t begin, std::size_t end) {
    parts[begin / part_size] = amax_of(data.data() + begin, end - begin, format.rule);
  });
  return block_amax_of(parts, format.rule);
}

std::vector<float> row_amaxes(std::span<const float> data, std::size_t rows, std::size_t cols,
                              const BlockFormat& format, int threads) {
  check_shape(data.size(), rows, cols);
  const DefaultFloats guard;
  std::vector<float> amaxes(rows);
  const std::size_t rows_a_part = std::max<std::size_t>(1, part_size / std::max<std::size_t>(1, cols));
  parallel_parts(rows, rows_a_part, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) amaxes[r] = amax_of(data.data() + r * cols, cols, format.rule);
  });
  return amaxes;
}

void quantise_into(std::span<const float> data, std::size_t rows, std::size_t cols, const BlockFormat& format,
                   float amax, std::span<std::uint8_t> codes, std::span<float> scales, int threads) {
  check_shape(data.size(), rows, cols);
  const Grid g(format, rows, cols);
  check_sizes(data.size(), codes.size(), scales.size(), g);
  check_apart(data, codes), check_apart(data, scales), check_apart(std::span<const std::uint8_t>(codes), scales);
  if (data.empty()) return;
  const DefaultFloats guard;
  const BlockEncoder encoder(format, amax);
  const std::vector<float> tops = row_tops(data, rows, cols, format, threads);
  if (format.block_rows == 0) {  // one scale for all: any split will do
    scales[0] = encoder.whole().stored;
    parallel_parts(data.size(), part_size, threads, [&](std::size_t begin, std::size_t end) {
      EncoderBuffer buffer;
      encoder.encode(data.data() + begin, end - begin, encoder.whole().encode, codes.data() + begin, buffer);
    });
    return;
  }
  const std::size_t blocks_a_part = std::max<std::size_t>(1, part_size / (g.block_rows * g.block_cols));
  const bool in_runs = g.block_rows == 1 && g.block_cols <= encoder_buffer && !tries_two_scales(format.rule);
  parallel_parts(g.blocks(), blocks_a_part, threads, [&](std::size_t begin, std::size_t end) {
    EncoderBuffer buffer;
    if (!in_runs) {
      for (std::size_t b = begin; b < end; ++b)
        quantise_tile(data.data(), g, b, encoder, codes.data(), scales[b], buffer);
      return;
    }
    BlockEncoder own = encoder;
    for (std::size_t b = begin; b < end;) {  // the blocks of this part, row by row
      const std::size_t first = b % g.across, last = std::min(g.across, first + (end - b));
      const std::size_t at = g.top(b) * cols + g.left(b), n = std::min(cols, last * g.block_cols) - g.left(b);
      const auto run = g.block_cols == 32 ? quantise_run<32> : g.block_cols == 16 ? quantise_run<16> : quantise_run<0>;
      if (!tops.empty()) own.set_amax(tops[g.top(b)]);
      run(data.data() + at, n, g.block_cols, own, codes.data() + at, scales.data() + b, buffer);
      b += last - first;
    }
  });
}

Quantised quantise(std::span<const float> data, std::size_t rows, std::size_t cols, const BlockFormat& format,
                   int threads) {
  check_shape(data.size(), rows, cols);
  Quantised q{format, rows, cols, std::vector<std::uint8_t>(data.size()), {}, 1};
  const DefaultFloats guard;
  q.scales.resize(grid_rows(format, rows) * grid_cols(format, cols));
  const float amax = format.needs_tensor_amax() ? tensor_amax(data, format, threads) : 0;
  q.tensor_scale = tensor_scale(amax, format).stored;
  q.row_scales = row_tops(data, rows, cols, format, threads);
  if (format.has_row_scales()) q.tensor_scale = 1;
  quantise_into(data, rows, cols, format, amax, q.codes, q.scales, threads);
  return q;
}

Quantised quantise_stochastically(std::span<const float> data, std::size_t rows, std::size_t cols,
                                  const BlockFormat& format, std::uint64_t seed, int threads) {
  Quantised q = quantise(data, rows, cols, format, threads);  // its scales; the codes follow
  if (data.empty()) return q;
  const Grid g(format, rows, cols);
  const DefaultFloats guard;
  const float amax = format.needs_tensor_amax() ? tensor_amax(data, format, threads) : 0;
  const BlockEncoder of_tensor(format, amax);
  Cast cast = element_cast(format);
  cast.rounding = Rounding::stochastic;
  const std::size_t blocks_a_part = std::max<std::size_t>(1, part_size / (g.block_rows * g.block_cols));
  parallel_parts(g.blocks(), blocks_a_part, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) {
      const BlockEncoder encoder = q.row_scales.empty() ? of_tensor : BlockEncoder(format, q.row_scales[b / g.across]);
      const BlockScale s = format.block_rows == 0 ? encoder.whole() : encoder.scale_of(data.data(), g, b);
      for (std::size_t r = g.top(b); r < g.top(b) + g.height(b); ++r)
        for (std::size_t i = r * cols + g.left(b); i < r * cols + g.left(b) + g.width(b); ++i)
          q.codes[i] = static_cast<std::uint8_t>(
              encode(scaled_element(data[i], s.encode, format), format.element, cast, random_bits(seed, i)));
    }
  });
  return q;
}

void dequantise_into(std::span<const std::uint8_t> codes, std::span<const float> scales, float tensor_stored,
                     std::size_t rows, std::size_t cols, const BlockFormat& format, std::span<float> out, int threads) {
  dequantise_into(codes, scales, std::span(&tensor_stored, 1), rows, cols, format, out, threads);
}

void dequantise_into(std::span<const std::uint8_t> codes, std::span<const float> scales,
                     std::span<const float> row_scales, std::size_t rows, std::size_t cols, const BlockFormat& format,
                     std::span<float> out, int threads) {
  check_shape(codes.size(), rows, cols);
  const Grid g(format, rows, cols);
  check_sizes(codes.size(), out.size(), scales.size(), g);
  check_apart(codes, out), check_apart(scales, out);
  if (codes.empty()) return;
  const DefaultFloats guard;
  if (row_scales.size() != 1 && row_scales.size() != rows)
    throw Error("blocks: " + std::to_string(row_scales.size()) + " factors for " + std::to_string(rows) + " rows");
  const std::array<float, 256> values = element_values(format.element);
  const std::size_t rows_a_part = std::max<std::size_t>(1, part_size / cols);
  parallel_parts(rows, rows_a_part, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      TensorScale tensor;
      tensor.amax = tensor.stored = row_scales[row_scales.size() == 1 ? 0 : r];
      for (std::size_t b = 0; b < g.across; ++b) {
        const float factor = decode_factor(scales[r / g.block_rows * g.across + b], tensor, format);
        const std::size_t last = std::min(cols, (b + 1) * g.block_cols);
        for (std::size_t c = b * g.block_cols; c < last; ++c) {
          const float value = values[codes[r * cols + c]] * factor;
          out[r * cols + c] =
              value == value ? value : std::numeric_limits<float>::quiet_NaN();  // one NaN on every machine
        }
      }
    }
  });
}

void dequantise(const Quantised& q, std::span<float> out, int threads) {
  if (q.row_scales.empty())
    return dequantise_into(q.codes, q.scales, q.tensor_scale, q.rows, q.cols, q.format, out, threads);
  dequantise_into(q.codes, q.scales, q.row_scales, q.rows, q.cols, q.format, out, threads);
}
std::vector<float> dequantise(const Quantised& q, int threads) {
  std::vector<float> out(q.codes.size());
  dequantise(q, out, threads);
  return out;
}

std::vector<std::uint8_t> scale_codes(std::span<const float> scales, const BlockFormat& format) {
  if (format.scale.width() > 8) throw Error("blocks: scales of this format are FP32, they have no one-byte codes");
  std::vector<std::uint8_t> codes(scales.size());
  encode_array(scales, format.scale, {}, codes);
  return codes;
}

std::vector<std::uint8_t> packed_codes(std::span<const std::uint8_t> codes, const BlockFormat& format) {
  std::vector<std::uint8_t> packed(packed_size(codes.size(), format.element.width()));
  pack_codes(codes, format.element.width(), packed);
  return packed;
}

void quantise_plainly(std::span<const float> data, std::size_t rows, std::size_t cols, const BlockFormat& format,
                      float amax, std::span<std::uint8_t> codes, std::span<float> scales) {
  check_shape(data.size(), rows, cols);
  const Grid g(format, rows, cols);
  check_sizes(data.size(), codes.size(), scales.size(), g);
  const DefaultFloats guard;
  const std::vector<float> tops = row_tops(data, rows, cols, format, 1);
  const Cast cast = element_cast(format);
  for (std::size_t b = 0; b < g.blocks(); ++b) {
    std::vector<std::size_t> block;  // where its elements are
    std::vector<float> values;
    for (std::size_t r = g.top(b); r < g.top(b) + g.height(b); ++r)
      for (std::size_t c = g.left(b); c < g.left(b) + g.width(b); ++c) block.push_back(r * cols + c);
    for (const std::size_t i : block) values.push_back(data[i]);
    if (!tops.empty()) amax = tops[g.top(b)];
    const BlockScaling scaling(format, tensor_scale(amax, format));
    const float block_amax = format.block_rows == 0 ? amax : block_amax_of(values, format.rule);
    BlockScale s = scaling(block_amax);
    if (tries_two_scales(format.rule)) {
      FourOverSix both = scaling.two_scales(block_amax);
      for (std::size_t i = 0; i < values.size(); ++i)
        for (int which = 0; which < 2; ++which) {
          const float element =
              round_to(scaled_element(values[i], both.scales[which].encode, format), format.element, cast);
          both.add(which, i / g.width(b), values[i], element, scaling.tensor, format.rule);
        }
      s = both.better();
    }
    scales[b] = s.stored;
    for (const std::size_t i : block)
      codes[i] = static_cast<std::uint8_t>(encode(scaled_element(data[i], s.encode, format), format.element, cast));
  }
}

}  // namespace narrow
