// CUTLASS's fused attention as PyTorch builds it: N/transformers/cuda/mem_eff_attention/kernel_forward.h. Keys
// ascending, mma.sync of 8 products, exponents of two.
#include "narrow/special/attention_tile.hpp"

namespace narrow::detail {

namespace {

struct EfficientPlan {
  std::size_t rows, cols;
  bool keeps_output;  // in registers; else in memory, and the product of every block starts at zero

  explicit EfficientPlan(const AttentionRequest& r)
      : rows(r.dim <= 128 ? 64 : 32), cols(r.dim <= 64 ? 64 : 128), keeps_output(r.dim <= 128) {}
};

struct EfficientRow {
  float max = -attention_inf, sum = 0, rescale = 1;
};

class EfficientTile {
 public:
  // What the dimension leaves over from steps of 32 comes first.
  EfficientTile(const AttentionRequest& r, const EfficientPlan& plan)
      : r_(r),
        plan_(plan),
        scale_(static_cast<float>(attention_scale(r))),
        tile_(r, attention_model(r.type, 8), plan.rows, plan.cols, 32),
        in_memory_(plan.keeps_output ? 0 : plan.rows * r.dim) {}

  void run(const AttentionHead& head, std::size_t first, std::size_t rows, std::span<std::uint16_t> o) {
    // Keys that no row of the tile sees are left out.
    const std::size_t keys = r_.causal ? std::min(r_.keys, first + plan_.rows) : r_.keys;
    tile_.start(head, first, rows);
    for (std::size_t key = 0; key < keys; key += plan_.cols) {
      tile_.score(key, std::min(plan_.cols, keys - key));
      for (std::size_t i = 0; i < rows; ++i) {
        soften(i);
        if (plan_.keeps_output && key > 0) tile_.scale_o(i, state_[i].rescale);
      }
      tile_.multiply(!plan_.keeps_output);
      if (!plan_.keeps_output)
        for (std::size_t i = 0; i < rows; ++i) add_to_memory(i, key == 0, key + plan_.cols >= keys);
    }
    if (plan_.keeps_output) {
      for (std::size_t i = 0; i < rows; ++i) tile_.scale_o(i, reciprocal(i));
      return tile_.store_o(o);
    }
    encode_array(std::span<const float>(in_memory_).first(rows * r_.dim), r_.type, named_cast("cuda", r_.type),
                 o.first(rows * r_.dim), 0, 1);
  }

 private:
  float reciprocal(std::size_t i) const { return 1 / (state_[i].sum == 0 ? 1 : state_[i].sum); }

  // Scores of a row become exponentials, and its sum grows.
  void soften(std::size_t i) {
    constexpr std::size_t warp_cols = 32;
    const std::size_t seen = tile_.seen(i), cols = tile_.cols();
    EfficientRow& row = state_[i];
    float* p = tile_.p(i);
    const float old = row.max;
    for (std::size_t j = 0; j < seen; ++j) {
      p[j] = (tile_.score_at(i, j) * scale_) * 0x1.715476p+0f;
      row.max = p[j] > row.max ? p[j] : row.max;
    }
    row.rescale = 1;
    if (old < row.max) row.rescale = attention_ex2(old - row.max), row.sum *= row.rescale;
    const float max = row.max == -attention_inf ? 0 : row.max;
    for (std::size_t j = 0; j < seen; ++j) p[j] = attention_ex2(p[j] - max);
    std::fill(p + seen, p + cols, 0.0f);
    for (std::size_t at = 0; at < cols; at += warp_cols) row.sum += warp_sum(p + at, std::min(warp_cols, cols - at));
  }

  // Four threads share a row of a warp's columns: each adds up its pairs, then they meet.
  static float warp_sum(const float* p, std::size_t cols) {
    float sums[4] = {};
    for (std::size_t n = 0; n < cols; ++n) sums[n % 8 / 2] += p[n];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  void add_to_memory(std::size_t i, bool is_first, bool is_last) {
    const float rescale = state_[i].rescale, factor = is_last ? reciprocal(i) : 1;
    float* o = in_memory_.data() + i * r_.dim;
    for (std::size_t j = 0; j < r_.dim; ++j) {
      const float product = tile_.o_at(i, j);
      if (is_first) o[j] = product * factor;
      else if (is_last) o[j] = std::fma(factor, product, factor * rescale * o[j]);
      else o[j] = std::fma(rescale, o[j], product);
    }
  }

  const AttentionRequest& r_;
  const EfficientPlan plan_;
  const float scale_;
  AttentionTile tile_;
  std::vector<float> in_memory_;
  EfficientRow state_[64];
};

}  // namespace

std::string efficient_attention_kernel(const AttentionRequest& r) {
  if (r.dim % 8 != 0 || r.heads != r.kv_heads) return {};
  const std::string type = r.type == "bf16"_fmt ? "bf16" : "f16";
  return "fmha_cutlassF_" + type + "_aligned_" +
         (r.dim <= 64    ? "64x64_rf_sm80"
          : r.dim <= 128 ? "64x128_rf_sm80"
                         : "32x128_gmem_sm80");
}

void run_efficient_attention(const AttentionRequest& r, std::span<std::uint16_t> o) {
  const EfficientPlan plan(r);
  for_attention_tiles(r, plan.rows, [&](const AttentionHead& head, std::size_t first, std::size_t rows) {
    EfficientTile(r, plan).run(head, first, rows, o.subspan(head.o + first * r.dim));
  });
}

}  // namespace narrow::detail
