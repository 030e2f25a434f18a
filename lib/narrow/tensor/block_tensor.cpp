#include "narrow/tensor/block_tensor.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/array/pack.hpp"
#include "narrow/base/error.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/scaler.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/tensor.hpp"

namespace narrow {

void for_each_piece(const Tensor& tensor, const BlockFormat& f, const BytesDone& done, const PieceBody& body) {
  const Tensor ordered = row_major(tensor);
  const MatrixSize m = matrix_of(ordered);
  if (m.rows == 0 || m.cols == 0) return;
  std::vector<float> scratch;
  const auto piece = [&](std::uint64_t first, std::size_t rows, std::size_t cols) {
    body(view_values(ordered, first, rows * cols, scratch), rows, cols);
    if (done) done(bytes_of_values(ordered, rows * cols));
  };
  constexpr std::size_t most = chunk_values;
  if (f.block_rows == 0) {  // one scale for all: any piece is whole
    const std::uint64_t all = std::uint64_t{m.rows} * m.cols;
    for (std::uint64_t first = 0; first < all; first += most)
      piece(first, 1, static_cast<std::size_t>(std::min<std::uint64_t>(most, all - first)));
    return;
  }
  if (f.block_rows == 1 && f.block_cols != 0 && m.cols > most) {  // long rows, cut between blocks
    const std::size_t width = std::max(most / f.block_cols, std::size_t{1}) * f.block_cols;
    for (std::size_t row = 0; row < m.rows; ++row)
      for (std::size_t col = 0; col < m.cols; col += width)
        piece(std::uint64_t{row} * m.cols + col, 1, std::min(width, m.cols - col));
    return;
  }
  const std::size_t height = std::max(most / m.cols / f.block_rows, std::size_t{1}) * f.block_rows;
  for (std::size_t row = 0; row < m.rows; row += height)
    piece(std::uint64_t{row} * m.cols, std::min(height, m.rows - row), m.cols);
}

namespace {

// Largest magnitude of the whole times scale, as the rule takes it; 0 without reading when the format does not need it.
float amax_for(const Tensor& tensor, const BlockFormat& f, float scale, const BytesDone& done) {
  if (!f.needs_tensor_amax()) return 0;
  // Any pieces will do; the rule says whether a NaN counts.
  BlockFormat pieces = f;
  pieces.block_rows = 0;
  std::vector<float> amaxes;
  for_each_piece(tensor, pieces, done, [&](std::span<const float> values, std::size_t, std::size_t) {
    amaxes.push_back(tensor_amax(values, f));
  });
  return tensor_amax(amaxes, f) * scale;
}

// Codes on their way out. Short codes are packed in groups of eight, whatever the pieces are that they come in.
class CodeWriter {
 public:
  CodeWriter(const WriteBytes& write, int bits) : write_(write), bits_(bits) {}

  void write(std::span<const std::uint8_t> codes) {
    if (bits_ == 8) return write_(std::as_bytes(codes));
    waiting_.insert(waiting_.end(), codes.begin(), codes.end());
    flush(waiting_.size() / 8 * 8);
  }
  void finish() { flush(waiting_.size()); }

 private:
  void flush(std::size_t n) {
    std::vector<std::uint8_t> packed(packed_size(n, bits_));
    pack_codes(std::span(waiting_).first(n), bits_, packed);
    write_(std::as_bytes(std::span<const std::uint8_t>(packed)));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n));
  }

  const WriteBytes& write_;
  int bits_;
  std::vector<std::uint8_t> waiting_;
};

}  // namespace

BlockFormatStatistics block_tensor_statistics(const Tensor& tensor, const BlockFormat& f, double scale,
                                              const BytesDone& done, bool with_fates) {
  const auto factor = static_cast<float>(scale);
  if (!(factor > 0) || std::isinf(factor))
    throw Error("scale " + detail::scale_text(scale) + ": FP32 does not hold it, and blocks are scaled in FP32");
  const float amax = amax_for(tensor, f, factor, done);
  BlockFormatStatistics total;
  for_each_piece(tensor, f, done, [&](std::span<const float> values, std::size_t rows, std::size_t cols) {
    BlockFormatStatistics piece = block_format_statistics(values, rows, cols, f, amax, factor, 0, with_fates);
    if (f.block_rows == 0 && total.scales.blocks != 0) piece.scales = {};  // the one scale of the tensor counts once
    total.merge(piece);
  });
  if (fits_float(tensor)) return total;
  // Blocks are of floats: what is finite as a double and beyond FP32 overflows, what vanishes underflows.
  const InputStatistics input = tensor_statistics(tensor, {}, {0, 0, done}).input;
  FormatStatistics& counts = total.elements;
  counts.overflow += total.input.inf - input.inf, counts.not_finite += total.input.inf - input.inf;
  counts.underflow += total.input.zeros - input.zeros;
  total.input = input;
  return total;
}

std::uint64_t quantise_tensor(const Tensor& tensor, const BlockFormat& f, CastResult result, const WriteBytes& write,
                              const BytesDone& done) {
  const float amax = amax_for(tensor, f, 1, done);
  const float factor = file_factor(tensor_scale(amax, f), f);
  BlockFormat in_file = f;  // decodes as files do, whatever the rule keeps
  if (f.has_tensor_scale()) in_file.rule = ScaleRule::torchao_nvfp4;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, piece_scales, decoded;
  std::uint64_t without_scale = 0;
  CodeWriter out(write, block_headers(tensor, f)[0].type.bits);
  for_each_piece(tensor, f, done, [&](std::span<const float> x, std::size_t rows, std::size_t cols) {
    codes.resize(x.size());
    piece_scales.resize(grid_rows(f, rows) * grid_cols(f, cols));
    quantise_into(x, rows, cols, f, amax, codes, piece_scales);
    const auto lost = std::count_if(piece_scales.begin(), piece_scales.end(), [](float s) { return !std::isfinite(s); });
    if (f.block_rows != 0 || without_scale == 0) without_scale += static_cast<std::uint64_t>(lost);
    if (result == CastResult::values) {
      decoded.resize(x.size());
      dequantise_into(codes, piece_scales, factor, rows, cols, in_file, decoded);
      return write(std::as_bytes(std::span<const float>(decoded)));
    }
    out.write(codes);
    if (f.block_rows != 0 || scales.empty()) scales.insert(scales.end(), piece_scales.begin(), piece_scales.end());
  });
  if (result == CastResult::values) return without_scale;
  out.finish();
  if (f.block_rows == 0 && scales.empty()) scales.push_back(1);  // of a tensor without elements
  if (f.scale.width() == 8) write(std::as_bytes(std::span<const std::uint8_t>(scale_codes(scales, f))));
  else write(std::as_bytes(std::span<const float>(scales)));
  if (f.has_tensor_scale()) write(std::as_bytes(std::span<const float>(&factor, 1)));
  return without_scale;
}

}  // namespace narrow
