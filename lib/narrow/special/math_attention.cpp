// PyTorch's attention of single operations (N/transformers/attention.cpp, _scaled_dot_product_attention_math): operands
// in FP32, both scaled by the root of the scale, two SGEMMs with a softmax between them.
#include "narrow/special/attention_tile.hpp"
#include "narrow/special/operation_kernels.hpp"

namespace narrow::detail {

namespace {

constexpr std::size_t math_rows = 128;  // of one part of the work; no bit depends on it

// Values of codes, each times a factor.
std::vector<float> scaled_values(const std::uint16_t* codes, std::size_t count, const Format& type, float factor) {
  std::vector<float> values(count);
  decode_array(std::span(codes, count), type, std::span(values), 1);
  if (factor != 1)
    for (float& value : values) value *= factor;
  return values;
}

// d = a b, each output one chain of fused multiply-adds; b: k x n.
void sgemm(const std::vector<float>& a, const std::vector<float>& b, std::size_t k, Layout b_layout,
           std::vector<float>& d) {
  static const DotModel chain_of_fma =
      software_model(Unit::fma, {"f32", "fp32"_fmt}, {"f32", "fp32"_fmt}, {"f32", "fp32"_fmt});
  const auto words = [](const std::vector<float>& x) {
    std::vector<std::uint32_t> out(x.size());
    std::transform(x.begin(), x.end(), out.begin(), [](float value) { return std::bit_cast<std::uint32_t>(value); });
    return out;
  };
  const std::vector<std::uint32_t> wa = words(a), wb = words(b);
  const std::size_t rows = a.size() / k, cols = b.size() / k;
  std::vector<std::uint32_t> wd(rows * cols);
  gemm(chain_of_fma, Plan{}, MatrixView<const std::uint32_t>{wa.data(), rows, k},
       MatrixView<const std::uint32_t>{wb.data(), k, cols, 0, b_layout}, MatrixView<const std::uint32_t>{},
       MatrixView<std::uint32_t>{wd.data(), rows, cols}, {.threads = 1});
  d.resize(wd.size());
  std::transform(wd.begin(), wd.end(), d.begin(), [](std::uint32_t word) { return std::bit_cast<float>(word); });
}

// _safe_softmax: a row that is masked as a whole weighs nothing. Scores become weights.
void keep_safe(float* scores, const std::uint32_t* weights, std::size_t cols) {
  const bool is_masked = std::all_of(scores, scores + cols, [](float score) { return score == -attention_inf; });
  for (std::size_t j = 0; j < cols; ++j) scores[j] = is_masked ? 0 : std::bit_cast<float>(weights[j]);
}

void math_part(const AttentionRequest& r, const AttentionHead& head, std::size_t first, std::size_t rows,
               std::span<std::uint16_t> o) {
  const double scale = attention_scale(r);
  const auto root = static_cast<float>(std::sqrt(std::abs(scale)));
  const std::vector<float> q = scaled_values(head.q + first * r.dim, rows * r.dim, r.type, scale < 0 ? -root : root);
  std::vector<float> attention;
  sgemm(q, scaled_values(head.k, r.keys * r.dim, r.type, root), r.dim, Layout::column_major, attention);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = keys_seen(r, first + i); j < r.keys; ++j) attention[i * r.keys + j] -= attention_inf;
  std::vector<std::uint32_t> weights(attention.size());
  run_softmax({.type = "fp32"_fmt, .rows = rows, .cols = r.keys, .x = attention, .threads = 1}, weights);
  for (std::size_t i = 0; i < rows; ++i) keep_safe(attention.data() + i * r.keys, weights.data() + i * r.keys, r.keys);
  std::vector<float> sums;
  sgemm(attention, scaled_values(head.v, r.keys * r.dim, r.type, 1), r.keys, Layout::row_major, sums);
  encode_array(std::span<const float>(sums), r.type, named_cast("cuda", r.type), o, 0, 1);
}

}  // namespace

// One batched SGEMM adds in one chain. A vector goes to GEMV kernels, and one head to a product that cuBLAS may split:
// both add in other orders.
std::string math_attention_kernel(const AttentionRequest& r) {
  return r.queries == 1 || r.keys == 1 || r.batch * r.heads == 1 ? "" : "batched sgemm, softmax, batched sgemm";
}

void run_math_attention(const AttentionRequest& r, std::span<std::uint16_t> o) {
  for_attention_tiles(r, math_rows, [&](const AttentionHead& head, std::size_t first, std::size_t rows) {
    math_part(r, head, first, rows, o.subspan(head.o + first * r.dim, rows * r.dim));
  });
}

}  // namespace narrow::detail
