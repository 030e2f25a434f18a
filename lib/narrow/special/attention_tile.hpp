// The two products of fused attention over a tile: scores of some queries and a block of keys, and what their weights
// make of the values. What happens to a row of scores between the products is the kernel's.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "narrow/array/array.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/special/attention_kernels.hpp"

namespace narrow::detail {

inline constexpr float attention_inf = std::numeric_limits<float>::infinity();

class AttentionTile {
 public:
  // rows x cols: what a tile has at most. residue: of the chain over the dimension, see Plan.
  AttentionTile(const AttentionRequest& r, const DotModel& model, std::size_t rows, std::size_t cols, int residue = 0)
      : r_(r),
        model_(model),
        cast_(named_cast("cuda", r.type)),
        scores_(rows * cols),
        p_(rows * cols),
        codes_(rows * cols),
        o_(rows * r.dim) {
    over_dim_.residue = residue;
  }

  // The queries from `first` on; O is zero.
  void start(const AttentionHead& head, std::size_t first, std::size_t rows) {
    head_ = &head, first_ = first, rows_ = rows;
    std::fill(o_.begin(), o_.end(), 0);
  }
  // S = Q K^T for the keys from `key` on.
  void score(std::size_t key, std::size_t cols) {
    key_ = key, cols_ = cols;
    gemm(model_, over_dim_, MatrixView<const std::uint16_t>{head_->q + first_ * r_.dim, rows_, r_.dim},
         MatrixView<const std::uint16_t>{head_->k + key * r_.dim, r_.dim, cols, 0, Layout::column_major},
         MatrixView<const std::uint32_t>{}, MatrixView<std::uint32_t>{scores_.data(), rows_, cols}, alone_);
  }
  // O = P V + O, P rounded to the type; without O where it starts anew.
  void multiply(bool starts_anew = false) {
    encode_array(std::span<const float>(p_).first(rows_ * cols_), r_.type, cast_,
                 std::span(codes_).first(rows_ * cols_), 0, 1);
    const MatrixView<std::uint32_t> o{o_.data(), rows_, r_.dim};
    gemm(model_, over_keys_, MatrixView<const std::uint16_t>{codes_.data(), rows_, cols_},
         MatrixView<const std::uint16_t>{head_->v + key_ * r_.dim, cols_, r_.dim},
         starts_anew ? MatrixView<std::uint32_t>{} : o, o, alone_);
  }

  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  // How many columns row i sees: those after are masked.
  std::size_t seen(std::size_t i) const {
    const std::size_t keys = keys_seen(r_, first_ + i);
    return keys > key_ ? std::min(keys - key_, cols_) : 0;
  }
  float score_at(std::size_t i, std::size_t j) const { return std::bit_cast<float>(scores_[i * cols_ + j]); }
  float* p(std::size_t i) { return p_.data() + i * cols_; }
  float o_at(std::size_t i, std::size_t j) const { return std::bit_cast<float>(o_[i * r_.dim + j]); }
  void scale_o(std::size_t i, float factor) {
    for (std::size_t j = i * r_.dim; j < (i + 1) * r_.dim; ++j)
      o_[j] = std::bit_cast<std::uint32_t>(std::bit_cast<float>(o_[j]) * factor);
  }
  void store_o(std::span<std::uint16_t> out) {
    std::vector<float> values(rows_ * r_.dim);
    for (std::size_t j = 0; j < values.size(); ++j) values[j] = std::bit_cast<float>(o_[j]);
    encode_array(std::span<const float>(values), r_.type, cast_, out.first(values.size()), 0, 1);
  }

 private:
  const AttentionRequest& r_;
  const DotModel& model_;
  const Cast cast_;
  Plan over_dim_ = {}, over_keys_ = {};
  const GemmOptions alone_ = {.threads = 1};
  std::vector<std::uint32_t> scores_;
  std::vector<float> p_;
  std::vector<std::uint16_t> codes_;
  std::vector<std::uint32_t> o_;
  const AttentionHead* head_ = nullptr;
  std::size_t first_ = 0, rows_ = 0, key_ = 0, cols_ = 0;
};

// body(head, first, rows) for tiles of rows of all heads.
template <class Body>
void for_attention_tiles(const AttentionRequest& r, std::size_t tile_rows, const Body& body) {
  const std::size_t tiles = attention_ceil(r.queries, tile_rows);
  parallel_parts(r.batch * r.heads * tiles, 1, r.threads, [&](std::size_t unit, std::size_t) {
    const std::size_t first = unit % tiles * tile_rows;
    body(AttentionHead(r, unit / tiles), first, std::min(tile_rows, r.queries - first));
  });
}

// The largest of a row's scores and `max`; a NaN is never the larger one.
inline float largest_score(const AttentionTile& tile, std::size_t i, float max) {
  for (std::size_t j = 0, seen = tile.seen(i); j < seen; ++j)
    max = tile.score_at(i, j) > max ? tile.score_at(i, j) : max;
  return max;
}

}  // namespace narrow::detail
