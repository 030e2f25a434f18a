// The values of a tensor that lies in its file as codes and scales.
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "narrow/array/parts.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

// As FP32 bytes. Scales are read with the codes that they belong to: those of a large tensor are large themselves.
//
//   value = v * s            v has at most 24 bits, as s has: one rounding
//         = (v * s) * t      two levels: s is E4M3, so that v * s is exact, and one rounding follows
//         = (v * s) / t
// Of narrow's own files the value is v * (s * t), and that is what docs/tensors.md says.
class Dequantised : public ByteSource {
 public:
  explicit Dequantised(std::shared_ptr<const BlockParts> parts)
      : parts_(std::move(parts)),
        size_(size_of(*parts_)),
        across_(grid_cols(parts_->format, size_.cols)),
        most_(parts_->values.empty() ? static_cast<unsigned>(parts_->format.element.code_mask())
                                     : static_cast<unsigned>(parts_->values.size() - 1)) {
    for (std::size_t c = 0; c < values_.size(); ++c)
      values_[c] = parts_->values.empty()
                       ? static_cast<float>(decode(c & parts_->format.element.code_mask(), parts_->format.element))
                       : parts_->values[c % parts_->values.size()];
  }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (const std::uint64_t all = std::uint64_t{4} * size_.rows * size_.cols; offset > all || out.size() > all - offset)
      throw Error("read beyond the end of a tensor in blocks");
    std::call_once(once_, [&] { read_second(); });
    const std::uint64_t first = offset / 4, skip = offset % 4;
    const auto count = static_cast<std::size_t>((skip + out.size() + 3) / 4);
    const bool in_place =
        skip == 0 && out.size() % 4 == 0 && reinterpret_cast<std::uintptr_t>(out.data()) % alignof(float) == 0;
    parallel_parts(count, detail::part_size, 0, [&](std::size_t begin, std::size_t end) {
      if (in_place) return decode_values(first + begin, {reinterpret_cast<float*>(out.data()) + begin, end - begin});
      std::vector<float> values(end - begin);
      decode_values(first + begin, values);
      const std::size_t from = begin == 0 ? skip : 0, at = 4 * begin + from - skip;
      std::memcpy(out.data() + at, std::as_bytes(std::span(values)).data() + from,
                  std::min(4 * values.size() - from, out.size() - at));
    });
  }
  void check() const override {
    for (const Tensor& part : parts_->stored) part.source->check();
  }
  void forget() const override {
    for (const Tensor& part : parts_->stored) part.source->forget();
  }

 private:
  static MatrixSize size_of(const BlockParts& parts) {
    const TensorHeader whole{{}, *find_element_type("F32"), parts.shape};
    return parts.is_flat ? MatrixSize{1, static_cast<std::size_t>(whole.elements())} : matrix_of(whole);
  }

  void read_second() const {
    if (!parts_->scale2 || parts_->format.has_row_scales()) return;
    read_values(*parts_->scale2, 0, std::span(&second_, 1));
    if (parts_->second == BlockParts::Second::amax)
      second_ = file_factor(tensor_scale(second_, parts_->format), parts_->format);
  }

  // Blocks of the grid in the order of the file: those of value `at`.
  std::uint64_t block_of(std::uint64_t at) const {
    const BlockFormat& f = parts_->format;
    if (f.block_rows == 0) return 0;
    return at / size_.cols / f.block_rows * across_ + (f.block_cols == 0 ? 0 : at % size_.cols / f.block_cols);
  }

  void read_codes_at(std::uint64_t first, std::span<std::uint8_t> out) const {
    const auto& [bits, high_first, row_bits] = parts_->packing;
    if (bits == 0) return read_codes(parts_->codes, first, out);
    for (std::size_t i = 0; i < out.size();) {  // row by row: each begins with a whole byte
      const std::uint64_t row = (first + i) / size_.cols, col = (first + i) % size_.cols;
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(size_.cols - col, out.size() - i));
      const std::uint64_t begin = row * row_bits + col * static_cast<unsigned>(bits);
      std::vector<std::byte> bytes(static_cast<std::size_t>((begin % 8 + n * static_cast<unsigned>(bits) + 7) / 8));
      parts_->codes.source->read(begin / 8, bytes);
      const unsigned mask = (1u << bits) - 1;
      for (std::size_t k = 0; k < n; ++k) {
        const auto at = static_cast<unsigned>(begin % 8 + k * static_cast<unsigned>(bits));
        const unsigned shift = high_first ? 8u - static_cast<unsigned>(bits) - at % 8 : at % 8;
        unsigned word = std::to_integer<unsigned>(bytes[at / 8]);
        if (at % 8 + static_cast<unsigned>(bits) > 8) word |= std::to_integer<unsigned>(bytes[at / 8 + 1]) << 8;
        out[i + k] = static_cast<std::uint8_t>(word >> shift & mask);
      }
      i += n;
    }
  }

  void decode_values(std::uint64_t first, std::span<float> out) const {
    const BlockFormat& f = parts_->format;
    std::vector<std::uint8_t> codes(out.size());
    read_codes_at(first, codes);
    check_codes(first, codes);
    // Scales from the first block of the first row of blocks on, to the last one of the last.
    const std::uint64_t last = first + out.size() - 1, rows = f.block_rows > 1 ? f.block_rows : 1;
    const std::uint64_t from = f.block_rows > 1 ? first / size_.cols / rows * across_ : block_of(first);
    const std::uint64_t to = f.block_rows > 1 ? (last / size_.cols / rows + 1) * across_ : block_of(last) + 1;
    std::vector<float> scales(static_cast<std::size_t>(to - from));
    read_values(parts_->scales, from, std::span(scales));
    std::vector<float> zeros(parts_->zeros ? scales.size() : 0);
    if (parts_->zeros) read_values(*parts_->zeros, from, std::span(zeros));
    if (parts_->scale2 && parts_->format.has_row_scales()) {  // of the rows of these blocks
      const std::uint64_t row = from / across_;
      std::vector<float> factors(static_cast<std::size_t>((to - 1) / across_ - row + 1));
      read_values(*parts_->scale2, row, std::span(factors));
      for (std::uint64_t b = from; b < to; ++b)
        scales[static_cast<std::size_t>(b - from)] *= factors[static_cast<std::size_t>(b / across_ - row)];
    } else if (parts_->scale2 && parts_->layout == "narrow") {
      for (float& scale : scales) scale *= second_;
    }
    for (std::size_t i = 0; i < codes.size();) {
      const std::uint64_t col = (first + i) % size_.cols;
      const std::uint64_t width = f.block_cols == 0 ? size_.cols : f.block_cols;
      const std::uint64_t end_col = std::min<std::uint64_t>((col / width + 1) * width, size_.cols);
      const std::size_t end = i + static_cast<std::size_t>(std::min<std::uint64_t>(end_col - col, codes.size() - i));
      const std::uint64_t block = block_of(first + i);
      const float scale = scales[static_cast<std::size_t>(block - from)];
      if (!zeros.empty()) {
        const float zero = zeros[static_cast<std::size_t>(block - from)];
        for (; i < end; ++i) out[i] = (values_[codes[i]] - zero) * scale;
      } else if (parts_->divisor !=
                 1) {  // exact in double, and so far from a tie of floats that both roundings are one
        for (; i < end; ++i) out[i] = static_cast<float>(double{values_[codes[i]]} * scale / parts_->divisor);
      } else {
        for (; i < end; ++i) out[i] = values_[codes[i]] * scale;
      }
    }
    if (!parts_->scale2 || parts_->layout == "narrow") return;
    if (parts_->second == BlockParts::Second::divisor)
      for (float& x : out) x /= second_;
    else
      for (float& x : out) x *= second_;
  }

  void check_codes(std::uint64_t first, std::span<const std::uint8_t> codes) const {
    if (most_ == 255 || parts_->packing.bits != 0 || parts_->codes.type.bits < 8) return;
    for (std::size_t i = 0; i < codes.size(); ++i)
      if (codes[i] > most_)
        throw Error("tensor " + quote(parts_->codes.name) + ": element " + std::to_string(first + i) + " is " +
                    std::to_string(codes[i]) + ", no code of " + std::to_string(parts_->format.element.width()) +
                    " bits");
  }

  std::shared_ptr<const BlockParts> parts_;
  MatrixSize size_;
  std::size_t across_;
  unsigned most_;
  std::array<float, 256> values_;
  mutable std::once_flag once_;
  mutable float second_ = 1;
};

}  // namespace

Tensor join_parts(BlockParts parts) {
  Tensor whole;
  whole.name = parts.name;
  whole.type = *find_element_type("F32");
  whole.shape = parts.shape;
  auto shared = std::make_shared<const BlockParts>(std::move(parts));
  whole.source = std::make_shared<Dequantised>(shared);
  whole.blocks = std::move(shared);
  return whole;
}

}  // namespace narrow
