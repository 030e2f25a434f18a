#include "narrow/tensor/block_tensor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "narrow/array/pack.hpp"
#include "narrow/array/parts.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/format/decode.hpp"
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

// Of a matrix that begins with the value `from`, of `most` values each if blocks allow.
std::vector<Piece> pieces_of(const MatrixSize& m, const BlockFormat& f, std::size_t most, std::uint64_t from = 0) {
  std::vector<Piece> pieces;
  if (m.rows == 0 || m.cols == 0) return pieces;
  if (f.block_rows == 0) {  // one scale for all: any piece is whole
    const std::uint64_t all = std::uint64_t{m.rows} * m.cols;
    for (std::uint64_t first = 0; first < all; first += most)
      pieces.push_back({from + first, 1, static_cast<std::size_t>(std::min<std::uint64_t>(most, all - first))});
  } else if (f.block_rows == 1 && f.block_cols != 0 && m.cols > most && !f.has_row_scales()) {  // cut between blocks
    const std::size_t width = std::max(most / f.block_cols, std::size_t{1}) * f.block_cols;
    for (std::size_t row = 0; row < m.rows; ++row)
      for (std::size_t col = 0; col < m.cols; col += width)
        pieces.push_back({from + std::uint64_t{row} * m.cols + col, 1, std::min(width, m.cols - col)});
  } else {
    const std::size_t height = std::max(most / m.cols / f.block_rows, std::size_t{1}) * f.block_rows;
    for (std::size_t row = 0; row < m.rows; row += height)
      pieces.push_back({from + std::uint64_t{row} * m.cols, std::min(height, m.rows - row), m.cols});
  }
  return pieces;
}

// What one thread does of a piece, small enough for its cache.
std::vector<Piece> parts_of(const Piece& p, const BlockFormat& f) {
  return pieces_of({p.rows, p.cols}, f, detail::part_size, p.first);
}

// The numbers of a tensor (in C order, as FP32), a piece after the other.
class PieceReader {
 public:
  PieceReader(const Tensor& tensor, const BytesDone& done) : ordered_(row_major(tensor)), done_(done) {}
  template <class Body>
  auto operator()(const Piece& p, const Body& body) {
    auto left = body(values_of(p));
    if (done_) done_(bytes_of_values(ordered_, p.rows * p.cols));
    return left;
  }
  // body(k, values) for the parts of a piece, by all threads: what one has decoded, by values(), is still in its cache.
  template <class Body>
  void in_parts(const Piece& p, std::span<const Piece> parts, const Body& body) {
    const bool any_order = !ordered_.source->mapped().empty();
    ordered_.source->check();
    const std::span<const float> all = any_order ? std::span<const float>() : values_of(p);
    constexpr std::size_t at_once = 4;  // share their memory
    parallel_parts(parts.size(), at_once, 0, [&](std::size_t begin, std::size_t end) {
      std::vector<float> scratch;
      for (std::size_t k = begin; k < end; ++k) {
        const std::size_t n = parts[k].rows * parts[k].cols;
        body(k, [&] {
          return any_order ? view_values(ordered_, parts[k].first, n, scratch)
                           : all.subspan(static_cast<std::size_t>(parts[k].first - p.first), n);
        });
      }
    });
    if (done_) done_(bytes_of_values(ordered_, p.rows * p.cols));
  }

  // The largest magnitude of a piece, where its words of 16 bits tell it and none is NaN.
  std::optional<float> top_of(const Piece& p) const {
    const std::span<const std::byte> words = words_of(p);
    if (words.empty() || ordered_.type.bits != 16) return {};
    std::uint16_t top = 0;
    for (std::size_t i = 0; i < words.size(); i += 2) {
      std::uint16_t word;
      std::memcpy(&word, words.data() + i, sizeof word);
      top = std::max(top, static_cast<std::uint16_t>(word & 0x7FFFU));
    }
    const auto value = static_cast<float>(decode(top, ordered_.type.format));
    return std::isnan(value) ? std::optional<float>() : value;
  }
  std::uint64_t count_not_finite(const Piece& p, std::span<const float> values) const {
    const std::span<const std::byte> words = words_of(p);
    if (!words.empty()) return narrow::count_not_finite(words, ordered_.type, 1);
    return narrow::count_not_finite(std::as_bytes(values), *find_element_type("F32"), 1);
  }

 private:
  // The bytes of a piece as they lie in the file, where they are words of F16, BF16 or F32 and all there.
  std::span<const std::byte> words_of(const Piece& p) const {
    const ElementType& type = ordered_.type;
    const bool is_plain = type.kind == ElementKind::floating && (type.bits == 16 || type.bits == 32) &&
                          type.format.width() == type.bits &&
                          ordered_.big_endian == (std::endian::native == std::endian::big);
    const std::span<const std::byte> bytes = ordered_.source->mapped();
    if (!is_plain || bytes.size() < ordered_.bytes()) return {};
    return bytes.subspan(bytes_of_values(ordered_, p.first), bytes_of_values(ordered_, p.rows * p.cols));
  }
  std::span<const float> values_of(const Piece& p) { return view_values(ordered_, p.first, p.rows * p.cols, scratch_); }

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
  const std::vector<Piece> pieces = pieces_of(matrix_of(tensor), whole, chunk_values);
  PieceReader read(tensor, done);
  std::vector<float> amaxes;
  fold_pieces(
      log, pieces.size(),
      [&](std::size_t k) {
        const std::vector<Piece> parts = parts_of(pieces[k], whole);
        std::vector<float> tops(parts.size());
        const auto top = [&](std::span<const float> x) { return tensor_amax(x, f, 1); };
        read.in_parts(pieces[k], parts, [&](std::size_t part, const auto& values) {
          const std::optional<float> known = read.top_of(parts[part]);
          tops[part] = known ? top(std::span(&*known, 1)) : top(values());
        });
        return tensor_amax(tops, f);
      },
      [&](float amax) { amaxes.push_back(amax); });
  return tensor_amax(amaxes, f) * scale;
}

std::vector<std::byte> scale_bytes(std::span<const float> scales, const BlockFormat& f) {
  const auto copy = [](std::span<const std::byte> bytes) { return std::vector<std::byte>(bytes.begin(), bytes.end()); };
  if (f.scale.width() != 8) return copy(std::as_bytes(scales));
  return copy(std::as_bytes(std::span<const std::uint8_t>(scale_codes(scales, f))));
}

// Codes on their way out. Short codes are packed in groups of eight, whatever the pieces are that they come in.
class CodeWriter {
 public:
  CodeWriter(const WriteBytes& write, int bits) : write_(write), bits_(bits) {}

  void write(std::span<const std::uint8_t> codes) {
    if (bits_ == 8) return write_(std::as_bytes(codes));
    if (waiting_.empty() && codes.size() % 8 == 0) return pack(codes);
    waiting_.insert(waiting_.end(), codes.begin(), codes.end());
    flush(waiting_.size() / 8 * 8);
  }
  void finish() { flush(waiting_.size()); }

 private:
  void pack(std::span<const std::uint8_t> codes) {
    packed_.resize(packed_size(codes.size(), bits_));
    pack_codes(codes, bits_, packed_);
    write_(std::as_bytes(std::span<const std::uint8_t>(packed_)));
  }
  void flush(std::size_t n) {
    pack(std::span(waiting_).first(n));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n));
  }

  const WriteBytes& write_;
  int bits_;
  std::vector<std::uint8_t> waiting_, packed_;
};

// What quantising leaves of a piece.
struct Found {
  std::vector<std::byte> scales = {};
  std::vector<float> factors = {};  // of rows
  NotKept lost = {};
};
template <class Archive>
void members(Archive& archive, Found& f) {
  archive(f.scales, f.factors, f.lost);
}

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
  const std::vector<Piece> pieces = pieces_of(matrix_of(tensor), f, chunk_values);
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

NotKept quantise_tensor(const Tensor& tensor, const BlockFormat& f, CastResult result, const WriteBytes& write,
                        const BytesDone& done) {
  return quantise_tensor(tensor, f, result, [&](std::uint64_t, std::span<const std::byte> bytes) { write(bytes); },
                         {0, 0, done});
}

NotKept quantise_tensor(const Tensor& tensor, const BlockFormat& f, CastResult result, const WriteAt& write,
                        const TensorPass& pass, const QuantisedForm& form) {
  const float amax = form.amax ? *form.amax : amax_for(tensor, f, 1, pass.done, pass.log);
  float factor = file_factor(tensor_scale(amax, f), f);
  if (form.factor_is_divisor) {  // ct_nvfp4 has it; of the other rules it is the inverse
    const float divisor = f.rule == ScaleRule::ct_nvfp4 ? tensor_scale(amax, f).stored : 1 / factor;
    factor = std::isfinite(divisor) && divisor != 0 ? divisor : 1;
  }
  BlockFormat in_file = f;  // decodes as files do, whatever the rule keeps
  if (f.has_tensor_scale() || f.has_row_scales()) in_file.rule = ScaleRule::torchao_nvfp4;
  const std::vector<Piece> pieces = pieces_of(matrix_of(tensor), f, chunk_values);
  TensorHeader header = block_headers(tensor, f)[0];
  if (form.code_bits != 0) header.type.bits = form.code_bits;
  // Codes of fewer than eight bits are packed in groups of eight: pieces that do not start with a group go together.
  const bool apart = header.type.bits == 8 || result == CastResult::values ||
                     std::all_of(pieces.begin(), pieces.end(), [](const Piece& p) { return p.first % 8 == 0; });
  PieceReader read(tensor, pass.done);
  std::vector<std::uint8_t> codes;
  std::vector<float> piece_scales, decoded;
  std::vector<std::byte> scales;  // as they are written: with the factors all of a tensor that waits in memory
  std::vector<float> factors;
  const auto one = [&](const Piece& p, CodeWriter& out) {
    Found left;
    const std::vector<Piece> parts = parts_of(p, f);
    if (f.has_row_scales()) left.factors.resize(p.rows);
    std::vector<std::size_t> places(parts.size());  // of their scales
    std::vector<NotKept> lost(parts.size());
    std::size_t blocks = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      places[k] = blocks;
      blocks += grid_rows(f, parts[k].rows) * grid_cols(f, parts[k].cols);
    }
    codes.resize(p.rows * p.cols), piece_scales.resize(blocks);
    if (result == CastResult::values) decoded.resize(codes.size());
    read.in_parts(p, parts, [&](std::size_t k, const auto& values) {
      const std::span<const float> x = values();
      const auto [first, rows, cols] = parts[k];
      const auto at = static_cast<std::size_t>(first - p.first);
      const std::span<std::uint8_t> part_codes = std::span(codes).subspan(at, x.size());
      const std::span<float> part_scales =
          std::span(piece_scales).subspan(places[k], grid_rows(f, rows) * grid_cols(f, cols));
      quantise_into(x, rows, cols, f, amax, part_codes, part_scales, 1);
      for (const float s : part_scales) lost[k].blocks += std::isfinite(s) ? 0 : 1;
      std::vector<float> own = f.has_row_scales() ? row_amaxes(x, rows, cols, f, 1) : std::vector{factor};
      if (f.has_row_scales())
        for (std::size_t r = 0; r < rows; ++r)
          left.factors[at / cols + r] = own[r] = file_factor(tensor_scale(own[r], f), f);
      lost[k].values = read.count_not_finite(parts[k], x);
      if (result == CastResult::values)
        dequantise_into(part_codes, part_scales, own, rows, cols, in_file, std::span(decoded).subspan(at, x.size()), 1);
    });
    for (const NotKept& l : lost) left.lost += l;
    if (f.block_rows == 0) piece_scales.resize(1), left.lost.blocks = lost[0].blocks;  // one for all parts
    if (result == CastResult::values) {
      write(4 * p.first, std::as_bytes(std::span<const float>(decoded)));
    } else {
      out.write(codes);
      left.scales = scale_bytes(piece_scales, f);
    }
    return left;
  };
  NotKept not_kept;
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
        std::vector<Found> found;
        for (std::size_t i = begin; i < end; ++i) found.push_back(one(pieces[i], out));
        out.finish();
        return found;
      },
      [&](const std::vector<Found>& found) {
        for (const auto& [bytes, of_rows, lost] : found) {
          not_kept.values += lost.values;
          if (f.block_rows == 0 && !std::exchange(is_first, false))
            continue;  // the one scale of the tensor counts once
          scales.insert(scales.end(), bytes.begin(), bytes.end());
          factors.insert(factors.end(), of_rows.begin(), of_rows.end());
          not_kept.blocks += lost.blocks;
        }
      });
  if (result == CastResult::values) return not_kept;
  if (f.block_rows == 0 && scales.empty()) scales = scale_bytes(std::vector<float>{1}, f);  // without elements
  // A pass of one piece: whoever shares the work, one writes them.
  fold_pieces(
      pass.log, 1,
      [&](std::size_t) {
        write(header.bytes(), scales);
        if (f.has_tensor_scale()) factors = {factor};
        if (!factors.empty()) write(header.bytes() + scales.size(), std::as_bytes(std::span<const float>(factors)));
        return Nothing();
      },
      [](Nothing) {});
  return not_kept;
}

}  // namespace narrow
