// cuDNN's fused attention for Hopper (cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma). Its source is closed:
// the order of operations was found by comparing hypotheses with outputs of cuDNN 9.19 on an H200.
#include "narrow/special/attention_tile.hpp"

namespace narrow::detail {

namespace {

constexpr std::size_t cudnn_rows = 64, cudnn_cols = 128;

// Four threads share a row of scores, each with its own sum over all blocks.
struct CudnnRow {
  float max = -attention_inf;  // of scores, times scale and log2(e)
  float sums[4] = {};
};

// Keys ascending; the maximum is scaled before it is subtracted.
class CudnnTile {
 public:
  explicit CudnnTile(const AttentionRequest& r)
      : r_(r),
        scale_log2_(static_cast<float>(attention_scale(r)) * 0x1.715476p+0f),
        tile_(r, cudnn_model(r.type), cudnn_rows, cudnn_cols) {}

  void run(const AttentionHead& head, std::size_t first, std::size_t rows, std::span<std::uint16_t> o) {
    const std::size_t keys = r_.causal ? std::min(r_.keys, first + cudnn_rows) : r_.keys;
    tile_.start(head, first, rows);
    for (std::size_t key = 0; key < keys; key += cudnn_cols) {
      tile_.score(key, std::min(cudnn_cols, r_.keys - key));
      for (std::size_t i = 0; i < rows; ++i) soften(i, key == 0);
      tile_.multiply();
    }
    for (std::size_t i = 0; i < rows; ++i) {
      const float* s = state_[i].sums;
      tile_.scale_o(i, sfu_rcp((s[0] + s[1]) + (s[2] + s[3]), false, attention_tables));
    }
    tile_.store_o(o);
  }

 private:
  static const DotModel& cudnn_model(const Format& type) {
    return *find_dot_model(type == "bf16"_fmt ? "hopper.wgmma.f32.bf16.bf16" : "hopper.wgmma.f32.f16.f16");
  }

  void soften(std::size_t i, bool is_first) {
    const std::size_t seen = tile_.seen(i), cols = tile_.cols();
    CudnnRow& row = state_[i];
    float* p = tile_.p(i);
    const float old = row.max;
    for (std::size_t j = 0; j < seen; ++j) {
      p[j] = tile_.score_at(i, j) * scale_log2_;
      row.max = p[j] > row.max ? p[j] : row.max;
    }
    const float max = row.max == -attention_inf ? 0 : row.max;
    for (std::size_t j = 0; j < seen; ++j) p[j] = attention_ex2(p[j] - max);
    std::fill(p + seen, p + cols, 0.0f);
    const float factor = is_first ? 0 : attention_ex2(old - max);
    if (!is_first) tile_.scale_o(i, factor);
    float sums[4] = {};
    for (std::size_t n = 0; n < cols; ++n) sums[n % 8 / 2] += p[n];
    for (std::size_t c = 0; c < 4; ++c) row.sums[c] = std::fma(row.sums[c], factor, sums[c]);
  }

  const AttentionRequest& r_;
  const float scale_log2_;
  AttentionTile tile_;
  CudnnRow state_[cudnn_rows];
};

}  // namespace

// One query: another kernel, which is not modelled. One key: PyTorch does not ask cuDNN.
std::string cudnn_attention_kernel(const AttentionRequest& r) {
  if (r.dim % 8 != 0 || r.dim > 256 || r.queries == 1 || r.keys == 1) return {};
  return "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x" +
         std::to_string(attention_ceil(r.dim, 64) * 64);
}

void run_cudnn_attention(const AttentionRequest& r, std::span<std::uint16_t> o) {
  for_attention_tiles(r, cudnn_rows, [&](const AttentionHead& head, std::size_t first, std::size_t rows) {
    CudnnTile(r).run(head, first, rows, o.subspan(head.o + first * r.dim));
  });
}

}  // namespace narrow::detail
