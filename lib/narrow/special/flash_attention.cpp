// FlashAttention-2 forward as PyTorch builds it (no fast math, UNFUSE_FMA):
// csrc/flash_attn/src/{flash_fwd_kernel.h,softmax.h} of commit e2743ab5, and the number of splits of PyTorch's
// flash_api.cpp.
#include "narrow/special/attention_tile.hpp"

namespace narrow::detail {

namespace {

// The smallest number of splits that keeps at least 0.85 of the best share of a GPU's slots busy.
std::size_t flash_splits(std::size_t tiles, std::size_t slots, std::size_t blocks) {
  if (static_cast<float>(tiles) >= 0.8f * static_cast<float>(slots)) return 1;
  const std::size_t most = std::min({std::size_t{128}, slots, blocks});
  const auto is_eligible = [&](std::size_t n) {
    return n == 1 || attention_ceil(blocks, n) != attention_ceil(blocks, n - 1);
  };
  const auto efficiency = [&](std::size_t n) {
    const float waves = static_cast<float>(tiles * n) / static_cast<float>(slots);
    return waves / std::ceil(waves);
  };
  float best = 0;
  for (std::size_t n = 1; n <= most; ++n)
    if (is_eligible(n)) best = std::max(best, efficiency(n));
  for (std::size_t n = 1; n <= most; ++n)
    if (is_eligible(n) && static_cast<double>(efficiency(n)) >= 0.85 * static_cast<double>(best)) return n;
  return 1;
}

// A request as the kernel sees it.
struct FlashPlan {
  AttentionRequest r;
  std::size_t dim = 0;             // of the kernel
  std::size_t rows = 0, cols = 0;  // of a tile of scores
  std::size_t splits = 1, row_tiles = 0, blocks_per_split = 0;
  bool is_even = false;  // the lengths are whole tiles: steps that mask expect no row without keys
  float scale = 0, scale_log2 = 0;

  explicit FlashPlan(const AttentionRequest& request) : r(request) {
    if (r.queries == 1) {
      // Causal means nothing for one query; the queries of a group of heads become the rows of one head.
      r.causal = false;
      r.queries = r.heads / r.kv_heads, r.heads = r.kv_heads;
    }
    dim = flash_dim(r.dim);
    const std::size_t split_cols = dim <= 64 ? 256 : dim <= 128 ? 128 : 64;
    splits = flash_splits(r.batch * r.heads * attention_ceil(r.queries, 64),
                          static_cast<std::size_t>(r.multiprocessors) * 2, attention_ceil(r.keys, split_cols));
    rows = splits > 1 || dim == 256 ? 64 : 128;
    cols = splits > 1 ? split_cols : dim <= 64 ? 128 : 64;
    row_tiles = attention_ceil(r.queries, rows);
    blocks_per_split = attention_ceil(attention_ceil(r.keys, cols), splits);
    is_even = r.queries % rows == 0 && r.keys % cols == 0 && attention_ceil(r.dim, 8) * 8 == dim && dim <= 128;
    scale = static_cast<float>(attention_scale(r));
    scale_log2 = static_cast<float>(static_cast<double>(scale) * 0x1.71547652b82fep+0);
  }
  std::size_t heads() const { return r.batch * r.heads; }
  std::size_t masked_steps() const { return !r.causal ? 1 : attention_ceil(rows, cols) + (is_even ? 0 : 1); }
};

// Four threads share a row of scores: thread c has the columns 8 n + 2 c and 8 n + 2 c + 1 and adds them up alone.
struct FlashRow {
  float max = -attention_inf;
  float sums[4] = {};

  float sum() const { return (sums[0] + sums[2]) + (sums[1] + sums[3]); }
};

class FlashTile {
 public:
  explicit FlashTile(const FlashPlan& plan)
      : plan_(plan), tile_(plan.r, attention_model(plan.r.type, 16), plan.rows, plan.cols) {}

  // The rows from `first` on, over the blocks of one split: first those of the last keys. False: it has no block.
  bool run(const AttentionHead& head, std::size_t first, std::size_t split) {
    const AttentionRequest& r = plan_.r;
    tile_.start(head, first, std::min(plan_.rows, r.queries - first));
    const std::size_t begin = split * plan_.blocks_per_split;
    std::size_t end = std::min(attention_ceil(r.keys, plan_.cols), begin + plan_.blocks_per_split);
    if (r.causal) end = std::min(end, attention_ceil(first + plan_.rows, plan_.cols));
    for (std::size_t block = end; block > begin; --block) {
      const std::size_t key = (block - 1) * plan_.cols, number = end - block;
      const bool checks_inf = number < plan_.masked_steps() && (r.causal || (plan_.splits > 1 && !plan_.is_even));
      tile_.score(key, std::min(plan_.cols, r.keys - key));
      for (std::size_t i = 0; i < tile_.rows(); ++i) soften(i, number == 0, checks_inf);
      tile_.multiply();
    }
    for (std::size_t i = 0; i < tile_.rows(); ++i) {
      const float sum = state_[i].sum();
      tile_.scale_o(i, sum == 0 || sum != sum ? 1 : 1 / sum);
    }
    return begin < end;
  }
  AttentionTile& tile() { return tile_; }

  // The logarithm of the sum of exponentials of a row. Where there is none, a split weighs nothing and a whole row has
  // no weights in the backward pass.
  float lse(std::size_t i) const {
    const float sum = state_[i].sum(), none = plan_.splits > 1 ? -attention_inf : attention_inf;
    return sum == 0 || sum != sum ? none : std::fma(state_[i].max, plan_.scale, attention_fast_log(sum));
  }

 private:
  // Scores of a row become exponentials; what it had so far is rescaled to the new maximum.
  void soften(std::size_t i, bool is_first, bool checks_inf) {
    const std::size_t seen = tile_.seen(i);
    float* p = tile_.p(i);
    FlashRow& row = state_[i];
    const float old = row.max;
    row.max = largest_score(tile_, i, old);
    const float scaled_max = row.max == -attention_inf ? 0 : row.max * plan_.scale_log2;
    // Two roundings: __fmul_rn keeps the product from being fused.
    for (std::size_t j = 0; j < seen; ++j) p[j] = attention_ex2(tile_.score_at(i, j) * plan_.scale_log2 - scaled_max);
    std::fill(p + seen, p + tile_.cols(), 0.0f);
    float factor = 0;
    if (!is_first) {
      factor = attention_ex2((old - (checks_inf && row.max == -attention_inf ? 0 : row.max)) * plan_.scale_log2);
      tile_.scale_o(i, factor);
    }
    add_up(row, p, tile_.cols(), factor);
  }

  // ptxas fuses the rescaling with the first addition.
  static void add_up(FlashRow& row, const float* p, std::size_t cols, float factor) {
    for (std::size_t c = 0; c < 4; ++c) {
      const std::size_t first = 2 * c;
      row.sums[c] = std::fma(row.sums[c], factor, first < cols ? p[first] : 0);
      if (first + 1 < cols) row.sums[c] += p[first + 1];
    }
    for (std::size_t n = 8; n < cols; ++n) row.sums[n % 8 / 2] += p[n];
  }

  const FlashPlan& plan_;
  AttentionTile tile_;
  FlashRow state_[128];
};

// Results of splits: normalised rows and the logarithms of their sums, by split and row of all heads.
struct FlashParts {
  std::vector<float> o, lse;
};

// How the parts of a row are joined: lanes take the splits in turn, and a tree of xor adds the lanes.
class FlashCombine {
 public:
  FlashCombine(const FlashPlan& plan, const FlashParts& parts)
      : plan_(plan), parts_(parts), all_rows_(plan.heads() * plan.r.queries), cast_(named_cast("cuda", plan.r.type)) {
    const std::size_t block_rows = plan.dim % 128 == 0 ? 4 : plan.dim % 64 == 0 ? 8 : 16;
    std::size_t padded = 2;  // splits
    while (padded < plan.splits) padded *= 2;
    lanes_ = std::min(128 / block_rows, padded);
  }

  // Gives the logarithm of the sum of exponentials over all splits.
  float row(std::size_t row, std::span<float> sum, std::span<std::uint16_t> o) const {
    float weights[128];
    const float lse = weigh(row, weights);
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (std::size_t split = 0; split < plan_.splits; ++split) {
      const float* part = parts_.o.data() + (split * all_rows_ + row) * plan_.r.dim;
      for (std::size_t j = 0; j < plan_.r.dim; ++j) sum[j] = std::fma(weights[split], part[j], sum[j]);
    }
    encode_array(std::span<const float>(sum), plan_.r.type, cast_, o, 0, 1);
    return lse;
  }

 private:
  float weigh(std::size_t row, float* weights) const {
    const auto lse = [&](std::size_t split) { return parts_.lse[split * all_rows_ + row]; };
    float max = -attention_inf;
    for (std::size_t split = 0; split < plan_.splits; ++split) max = std::max(max, lse(split));
    if (max == -attention_inf) max = 0;
    float sums[32] = {};
    for (std::size_t split = 0; split < plan_.splits; ++split) sums[split % lanes_] += attention_exp(lse(split) - max);
    for (std::size_t half = lanes_ / 2; half > 0; half /= 2)
      for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    const float sum = sums[0];
    const float total = sum == 0 || sum != sum ? attention_inf : cuda_logf(sum, FusedHost{}) + max;
    for (std::size_t split = 0; split < plan_.splits; ++split) weights[split] = attention_exp(lse(split) - total);
    return total;
  }

  const FlashPlan& plan_;
  const FlashParts& parts_;
  std::size_t all_rows_, lanes_;
  const Cast cast_;
};

void run_flash_whole(const FlashPlan& plan, std::span<std::uint16_t> o, std::span<float> lse) {
  for_attention_tiles(plan.r, plan.rows, [&](const AttentionHead& head, std::size_t first, std::size_t rows) {
    FlashTile tile(plan);
    tile.run(head, first, 0);
    tile.tile().store_o(o.subspan(head.o + first * plan.r.dim));
    if (lse.empty()) return;
    for (std::size_t i = 0; i < rows; ++i) lse[head.o / plan.r.dim + first + i] = tile.lse(i);
  });
}

void run_flash_split(const FlashPlan& plan, std::span<std::uint16_t> o, std::span<float> lse) {
  const std::size_t dim = plan.r.dim, all_rows = plan.heads() * plan.r.queries;
  FlashParts parts{std::vector<float>(plan.splits * all_rows * dim),
                   std::vector<float>(plan.splits * all_rows, -attention_inf)};
  parallel_parts(plan.heads() * plan.row_tiles * plan.splits, 1, plan.r.threads, [&](std::size_t unit, std::size_t) {
    const std::size_t split = unit % plan.splits, number = unit / plan.splits;
    const AttentionHead head(plan.r, number / plan.row_tiles);
    const std::size_t first = number % plan.row_tiles * plan.rows;
    FlashTile tile(plan);
    if (!tile.run(head, first, split)) return;
    for (std::size_t i = 0; i < tile.tile().rows(); ++i) {
      const std::size_t row = split * all_rows + head.o / dim + first + i;
      for (std::size_t j = 0; j < dim; ++j) parts.o[row * dim + j] = tile.tile().o_at(i, j);
      parts.lse[row] = tile.lse(i);
    }
  });
  const FlashCombine combine(plan, parts);
  parallel_parts(all_rows, 64, plan.r.threads, [&](std::size_t begin, std::size_t end) {
    std::vector<float> sum(dim);
    for (std::size_t row = begin; row < end; ++row) {
      const float total = combine.row(row, sum, o.subspan(row * dim, dim));
      if (!lse.empty()) lse[row] = total;
    }
  });
}

}  // namespace

std::string flash_attention_kernel(const AttentionRequest& r) {
  const DefaultFloats guard;
  // PyTorch asks flash for causal attention only where both lengths are equal.
  if (r.dim == 0 || r.dim > 256 || r.kv_heads == 0 || r.multiprocessors < 1 || (r.causal && r.queries != r.keys))
    return {};
  const FlashPlan plan(r);
  const auto tile =
      "<" + std::to_string(plan.dim) + ", " + std::to_string(plan.rows) + ", " + std::to_string(plan.cols) + ">";
  if (plan.splits == 1) return "flash_fwd_kernel" + tile;
  return "flash_fwd_splitkv_kernel" + tile + ", " + std::to_string(plan.splits) + " splits";
}

void run_flash_forward(const AttentionRequest& r, std::span<std::uint16_t> o, std::span<float> lse) {
  const FlashPlan plan(r);
  plan.splits == 1 ? run_flash_whole(plan, o, lse) : run_flash_split(plan, o, lse);
}

void run_flash_attention(const AttentionRequest& r, std::span<std::uint16_t> o) { run_flash_forward(r, o, {}); }

}  // namespace narrow::detail
