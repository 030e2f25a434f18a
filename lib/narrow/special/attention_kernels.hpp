// What the kernels of attention share: the models of their tensor cores, tables of the special-function unit, one head.
#pragma once

#include <algorithm>
#include <cmath>

#include "narrow/dot/gemm.hpp"
#include "narrow/dot/model.hpp"
#include "narrow/round/named_cast.hpp"
#include "narrow/special/attention.hpp"
#include "narrow/special/coefficients.hpp"
#include "narrow/special/cuda_math.hpp"

namespace narrow::detail {

inline constexpr SfuTables attention_tables{ex2_rows, lg2_rows, rcp_rows, rsqrt_rows, sqrt_rows, sin_rows, tanh_rows};

struct FusedHost {
  float operator()(float a, float b, float c) const { return std::fma(a, b, c); }
};

// exp2f, expf, __logf as a kernel without fast math has them.
inline float attention_ex2(float x) { return sfu_ex2(x, false, attention_tables); }
inline float attention_exp(float x) { return cuda_expf(x, attention_tables, FusedHost{}); }
inline float attention_fast_log(float x) { return sfu_lg2(x, false, attention_tables) * float_of_word(0x3F317218); }

inline std::size_t attention_ceil(std::size_t a, std::size_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// mma.sync of Hopper with FP32 accumulators; products: of one instruction, 8 or 16.
inline const DotModel& attention_model(const Format& type, int products) {
  const std::string name = type == "bf16"_fmt ? "bf16" : "f16";
  return *find_dot_model("hopper.mma.f32." + name + "." + name + ".k" + std::to_string(products));
}

inline double attention_scale(const AttentionRequest& r) {
  return r.scale.value_or(1 / std::sqrt(static_cast<double>(r.dim)));
}

// FlashAttention-2 has kernels for these dimensions; others are padded with zeros.
inline std::size_t flash_dim(std::size_t dim) {
  constexpr std::size_t dims[] = {32, 64, 96, 128, 192, 256};
  return *std::lower_bound(std::begin(dims), std::end(dims), dim);
}

// Where one head of one batch lies.
struct AttentionHead {
  const std::uint16_t *q, *k, *v;
  std::size_t o;  // the first of its results

  AttentionHead(const AttentionRequest& r, std::size_t head) {
    const std::size_t batch = head / r.heads, group = r.heads / r.kv_heads;
    const std::size_t keys = (batch * r.kv_heads + head % r.heads / group) * r.keys * r.dim;
    o = head * r.queries * r.dim;
    q = r.q.data() + o, k = r.k.data() + keys, v = r.v.data() + keys;
  }
};

// How many of the keys a query sees, where those after its own position are masked.
inline std::size_t keys_seen(const AttentionRequest& r, std::size_t query) {
  return r.causal ? std::min(r.keys, query + 1) : r.keys;
}

// The rows of the table, one file each. kernel: which of the variant's kernels runs, empty where none does.
std::string flash_attention_kernel(const AttentionRequest& request);
void run_flash_attention(const AttentionRequest& request, std::span<std::uint16_t> o);
// lse: for each query the logarithm of the sum of exponentials of its scores, what the backward pass needs; or empty.
void run_flash_forward(const AttentionRequest& request, std::span<std::uint16_t> o, std::span<float> lse);
std::string flash_backward_kernel(const AttentionRequest& request);
void run_flash_backward(const AttentionRequest& request, std::span<const std::uint16_t> d_o, AttentionGradients& d);
std::string efficient_attention_kernel(const AttentionRequest& request);
void run_efficient_attention(const AttentionRequest& request, std::span<std::uint16_t> o);
std::string cudnn_attention_kernel(const AttentionRequest& request);
void run_cudnn_attention(const AttentionRequest& request, std::span<std::uint16_t> o);
std::string math_attention_kernel(const AttentionRequest& request);
void run_math_attention(const AttentionRequest& request, std::span<std::uint16_t> o);
std::string math_plan_problem(const Plan& plan);
FoundPlans find_math_plans(const AttentionRequest& request, std::span<const std::uint16_t> o);
std::string double_attention_kernel(const AttentionRequest& request);
void run_double_attention(const AttentionRequest& request, std::span<std::uint16_t> o);

}  // namespace narrow::detail
