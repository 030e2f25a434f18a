#include "block_tensor.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/base/error.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/row_major.hpp"

namespace app {

ChosenBlockFormat choose_block_format(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = narrow::detail::lower(c);
  return {lower, narrow::require_block_format(name)};
}

FormatLists parse_format_lists(std::string_view list) {
  FormatLists lists;
  std::string plain;
  bool any = false;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string_view word = list.substr(begin, end - begin);
    begin = end + 1;
    while (!word.empty() && (word.front() == ' ' || word.front() == '\t')) word.remove_prefix(1);
    while (!word.empty() && (word.back() == ' ' || word.back() == '\t')) word.remove_suffix(1);
    if (!narrow::is_block_format_name(word)) {
      plain += (any ? "," : "") + std::string(word);
      any = true;
      continue;
    }
    ChosenBlockFormat chosen = choose_block_format(word);
    const auto same = [&](const ChosenBlockFormat& other) { return other.name == chosen.name; };
    if (std::none_of(lists.blocks.begin(), lists.blocks.end(), same)) lists.blocks.push_back(std::move(chosen));
  }
  if (any) lists.plain = parse_format_list(plain);
  return lists;
}

MatrixSize matrix_of(const narrow::TensorHeader& header) {
  const std::uint64_t values = header.values();
  const std::uint64_t cols =
      header.shape.empty() ? values : header.shape.back() * static_cast<std::uint64_t>(header.type.values());
  return {cols == 0 ? 0 : static_cast<std::size_t>(values / cols), static_cast<std::size_t>(cols)};
}

void for_each_piece(const narrow::Tensor& tensor, const narrow::BlockFormat& f, const narrow::BytesDone& done,
                    const PieceBody& body) {
  const narrow::Tensor ordered = narrow::row_major(tensor);
  const MatrixSize m = matrix_of(ordered);
  if (m.rows == 0 || m.cols == 0) return;
  std::vector<float> scratch;
  const auto piece = [&](std::uint64_t first, std::size_t rows, std::size_t cols) {
    body(narrow::view_values(ordered, first, rows * cols, scratch), rows, cols);
    if (done) done(narrow::bytes_of_values(ordered, rows * cols));
  };
  constexpr std::size_t most = narrow::chunk_values;
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

float amax_for(const narrow::Tensor& tensor, const narrow::BlockFormat& f, float scale, const narrow::BytesDone& done) {
  if (!f.needs_tensor_amax()) return 0;
  // Any pieces will do; the rule says whether a NaN counts.
  narrow::BlockFormat pieces = f;
  pieces.block_rows = 0;
  std::vector<float> amaxes;
  for_each_piece(tensor, pieces, done, [&](std::span<const float> values, std::size_t, std::size_t) {
    amaxes.push_back(narrow::tensor_amax(values, f));
  });
  return narrow::tensor_amax(amaxes, f) * scale;
}

narrow::BlockFormatStatistics block_tensor_statistics(const narrow::Tensor& tensor, const narrow::BlockFormat& f,
                                                      double scale, const narrow::BytesDone& done) {
  const auto factor = static_cast<float>(scale);
  if (!(factor > 0) || std::isinf(factor))
    throw narrow::Error("scale " + std::to_string(scale) + ": FP32 does not hold it, and blocks are scaled in FP32");
  const float amax = amax_for(tensor, f, factor, done);
  narrow::BlockFormatStatistics total;
  for_each_piece(tensor, f, done, [&](std::span<const float> values, std::size_t rows, std::size_t cols) {
    narrow::BlockFormatStatistics piece = narrow::block_format_statistics(values, rows, cols, f, amax, factor);
    if (f.block_rows == 0 && total.scales.blocks != 0) piece.scales = {};  // the one scale of the tensor counts once
    total.merge(piece);
  });
  return total;
}

}  // namespace app
