#include "narrow/tensor/block_tensor.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "narrow/array/pack.hpp"
#include "narrow/base/error.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/scale/scaler.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/piece_members.hpp"
#include "narrow/tensor/tensor.hpp"

namespace narrow {
namespace {

// A piece of whole blocks: a part of a matrix.
struct Piece {
  std::uint64_t first;  // value
  std::size_t rows, cols;
};

std::vector<Piece> pieces_of(const TensorHeader& header, const BlockFormat& f) {
  std::vector<Piece> pieces;
  const MatrixSize m = matrix_of(header);
  if (m.rows == 0 || m.cols == 0) return pieces;
  constexpr std::size_t most = chunk_values;
  if (f.block_rows == 0) {  // one scale for all: any piece is whole
    const std::uint64_t all = std::uint64_t{m.rows} * m.cols;
    for (std::uint64_t first = 0; first < all; first += most)
      pieces.push_back({first, 1, static_cast<std::size_t>(std::min<std::uint64_t>(most, all - first))});
  } else if (f.block_rows == 1 && f.block_cols != 0 && m.cols > most) {  // long rows, cut between blocks
    const std::size_t width = std::max(most / f.block_cols, std::size_t{1}) * f.block_cols;
    for (std::size_t row = 0; row < m.rows; ++row)
      for (std::size_t col = 0; col < m.cols; col += width)
        pieces.push_back({std::uint64_t{row} * m.cols + col, 1, std::min(width, m.cols - col)});
  } else {
    const std::size_t height = std::max(most / m.cols / f.block_rows, std::size_t{1}) * f.block_rows;
    for (std::size_t row = 0; row < m.rows; row += height)
      pieces.push_back({std::uint64_t{row} * m.cols, std::min(height, m.rows - row), m.cols});
  }
  return pieces;
}

// The numbers of a tensor (in C order, as FP32), a piece after the other.
class PieceReader {
 public:
  PieceReader(const Tensor& tensor, const BytesDone& done) : ordered_(row_major(tensor)), done_(done) {}
  template <class Body>
  auto operator()(const Piece& p, const Body& body) {
    auto left = body(view_values(ordered_, p.first, p.rows * p.cols, scratch_));
    if (done_) done_(bytes_of_values(ordered_, p.rows * p.cols));
    return left;
  }

 private:
  Tensor ordered_;
  const BytesDone& done_;
  std::vector<float> scratch_;
};

// Largest magnitude of the whole times scale, as the rule takes it; 0 without reading when the format does not need it.
float amax_for(const Tensor& tensor, const BlockFormat& f, float scale, const BytesDone& done, PieceLog* log) {
  if (!f.needs_tensor_amax()) return 0;
  // Any pieces will do; the rule says whether a NaN counts.
  BlockFormat whole = f;
  whole.block_rows = 0;
  const std::vector<Piece> pieces = pieces_of(tensor, whole);
  PieceReader read(tensor, done);
  std::vector<float> amaxes;
  fold_pieces(
      log, pieces.size(),
      [&](std::size_t k) {
        return read(pieces[k], [&](std::span<const float> values) { return tensor_amax(values, f); });
      },
      [&](float amax) { amaxes.push_back(amax); });
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

float tensor_amax(const Tensor& tensor, const BlockFormat& f, const BytesDone& done) {
  return amax_for(tensor, f, 1, done, nullptr);
}

BlockFormatStatistics block_tensor_statistics(const Tensor& tensor, const BlockFormat& f, double scale,
                                              const BytesDone& done, bool with_fates, PieceLog* log) {
  const auto factor = static_cast<float>(scale);
  if (!(factor > 0) || std::isinf(factor))
    throw Error("scale " + detail::scale_text(scale) + ": FP32 does not hold it, and blocks are scaled in FP32");
  const float amax = amax_for(tensor, f, factor, done, log);
  const std::vector<Piece> pieces = pieces_of(tensor, f);
  PieceReader read(tensor, done);
  BlockFormatStatistics total;
  fold_pieces(
      log, pieces.size(),
      [&](std::size_t k) {
        const Piece& p = pieces[k];
        return read(p, [&](std::span<const float> values) {
          return block_format_statistics(values, p.rows, p.cols, f, amax, factor, 0, with_fates);
        });
      },
      [&](BlockFormatStatistics piece) {
        if (f.block_rows == 0 && total.scales.blocks != 0)
          piece.scales = {};  // the one scale of the tensor counts once
        total.merge(piece);
      });
  if (fits_float(tensor)) return total;
  // Blocks are of floats: what is finite as a double and beyond FP32 overflows, what vanishes underflows.
  const InputStatistics input = tensor_statistics(tensor, {}, {0, 0, done, log}).input;
  FormatStatistics& counts = total.elements;
  counts.overflow += total.input.inf - input.inf, counts.not_finite += total.input.inf - input.inf;
  counts.underflow += total.input.zeros - input.zeros;
  total.input = input;
  return total;
}

std::uint64_t quantise_tensor(const Tensor& tensor, const BlockFormat& f, CastResult result, const WriteBytes& write,
                              const BytesDone& done) {
  return quantise_tensor(tensor, f, result, [&](std::uint64_t, std::span<const std::byte> bytes) { write(bytes); },
                         {0, 0, done});
}

std::uint64_t quantise_tensor(const Tensor& tensor, const BlockFormat& f, CastResult result, const WriteAt& write,
                              const TensorPass& pass, const QuantisedForm& form) {
  const float amax = form.amax ? *form.amax : amax_for(tensor, f, 1, pass.done, pass.log);
  float factor = file_factor(tensor_scale(amax, f), f);
  if (form.factor_is_divisor) {  // ct_nvfp4 has it; of the other rules it is the inverse
    const float divisor = f.rule == ScaleRule::ct_nvfp4 ? tensor_scale(amax, f).stored : 1 / factor;
    factor = std::isfinite(divisor) && divisor != 0 ? divisor : 1;
  }
  BlockFormat in_file = f;  // decodes as files do, whatever the rule keeps
  if (f.has_tensor_scale()) in_file.rule = ScaleRule::torchao_nvfp4;
  const std::vector<Piece> pieces = pieces_of(tensor, f);
  TensorHeader header = block_headers(tensor, f)[0];
  if (form.code_bits != 0) header.type.bits = form.code_bits;
  // Codes of fewer than eight bits are packed in groups of eight: pieces that do not start with a group go together.
  const bool apart = header.type.bits == 8 || result == CastResult::values ||
                     std::all_of(pieces.begin(), pieces.end(), [](const Piece& p) { return p.first % 8 == 0; });
  PieceReader read(tensor, pass.done);
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, decoded;
  const auto one = [&](const Piece& p, CodeWriter& out) {
    return read(p, [&](std::span<const float> x) {
      std::pair<std::vector<float>, std::uint64_t> left;
      left.first.resize(grid_rows(f, p.rows) * grid_cols(f, p.cols));
      codes.resize(x.size());
      quantise_into(x, p.rows, p.cols, f, amax, codes, left.first);
      for (const float s : left.first) left.second += std::isfinite(s) ? 0 : 1;
      if (result == CastResult::values) {
        decoded.resize(x.size());
        dequantise_into(codes, left.first, factor, p.rows, p.cols, in_file, decoded);
        write(4 * p.first, std::as_bytes(std::span<const float>(decoded)));
      } else {
        out.write(codes);
      }
      return left;
    });
  };
  using Found = std::vector<std::pair<std::vector<float>, std::uint64_t>>;  // of each piece its scales, and those lost
  std::uint64_t without_scale = 0;
  bool is_first = true;
  fold_pieces(
      pass.log, apart ? pieces.size() : 1,
      [&](std::size_t k) {
        const std::size_t begin = apart ? k : 0, end = apart ? k + 1 : pieces.size();
        std::uint64_t at = begin < end ? bytes_of_values(header, pieces[begin].first) : 0;
        const WriteBytes next = [&](std::span<const std::byte> bytes) {
          if (form.flipped != 0) {
            std::vector<std::byte> flipped(bytes.begin(), bytes.end());
            for (std::byte& byte : flipped) byte ^= static_cast<std::byte>(form.flipped);
            write(at, flipped);
          } else {
            write(at, bytes);
          }
          at += bytes.size();
        };
        CodeWriter out(next, header.type.bits);
        Found found;
        for (std::size_t i = begin; i < end; ++i) found.push_back(one(pieces[i], out));
        out.finish();
        return found;
      },
      [&](const Found& found) {
        for (const auto& [piece_scales, lost] : found) {
          if (f.block_rows == 0 && !std::exchange(is_first, false))
            continue;  // the one scale of the tensor counts once
          scales.insert(scales.end(), piece_scales.begin(), piece_scales.end());
          without_scale += lost;
        }
      });
  if (result == CastResult::values) return without_scale;
  if (f.block_rows == 0 && scales.empty()) scales.push_back(1);  // of a tensor without elements
  // A pass of one piece: whoever shares the work, one writes them.
  fold_pieces(
      pass.log, 1,
      [&](std::size_t) {
        std::vector<std::uint8_t> words;
        if (f.scale.width() == 8) words = scale_codes(scales, f);
        const std::span<const std::byte> bytes = f.scale.width() == 8
                                                     ? std::as_bytes(std::span<const std::uint8_t>(words))
                                                     : std::as_bytes(std::span<const float>(scales));
        write(header.bytes(), bytes);
        if (f.has_tensor_scale())
          write(header.bytes() + bytes.size(), std::as_bytes(std::span<const float>(&factor, 1)));
        return Nothing();
      },
      [](Nothing) {});
  return without_scale;
}

}  // namespace narrow
