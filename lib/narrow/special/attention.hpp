// Attention exactly as a GPU's kernels compute it: softmax(Q K^T * scale) V with the tiles, the order of sums and the
// roundings of one kernel.
//
//   const std::vector<std::uint16_t> codes(128 * 64, 0x3F80);
//   AttentionRequest request{.type = "bf16"_fmt, .queries = 128, .keys = 128, .dim = 64};
//   request.q = request.k = request.v = codes;
//   const std::vector<std::uint16_t> o = run_attention("flash2", request);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/dot/plan.hpp"
#include "narrow/format/format.hpp"

namespace narrow {

// In which orders "math" adds: its scores over the dimension, its results over the keys.
struct AttentionPlans {
  Plan scores = {}, values = {};
};

// Q: batch x heads x queries x dim, K and V: batch x kv_heads x keys x dim, as torch.nn.functional takes them; O as Q.
struct AttentionRequest {
  Format type = {};  // fp16 or bf16: codes of q, k, v and the result
  std::size_t batch = 1, heads = 1, kv_heads = 1, queries = 0, keys = 0, dim = 0;
  std::span<const std::uint16_t> q = {}, k = {}, v = {};
  bool causal = false;
  std::optional<double> scale = {};  // 1 / sqrt(dim) when not given
  // "math": needed where cuBLAS runs no batched product (one head, one query, one key), else one chain each.
  std::optional<AttentionPlans> plans = {};
  int multiprocessors = 132;         // of the GPU: decides how FlashAttention splits the keys
  int threads = 0;
};

// Of q, k and v, in their shapes.
struct AttentionGradients {
  std::vector<std::uint16_t> q, k, v;
};

// A kernel.
struct AttentionRow {
  std::string_view variant;                        // "flash2"
  std::string_view what;                           // a line about it
  std::string (*kernel)(const AttentionRequest&);  // what runs, with its tiles and splits; empty: it does not apply
  void (*run)(const AttentionRequest&, std::span<std::uint16_t> o);
  // The same for the backward pass; null where no kernel of it is known.
  std::string (*backward_kernel)(const AttentionRequest&) = nullptr;
  void (*run_backward)(const AttentionRequest&, std::span<const std::uint16_t> d_o, AttentionGradients&) = nullptr;
};

std::vector<const AttentionRow*> attention_rows();  // the likeliest first

// Throws Error: an unknown variant, shapes that do not fit, a type or a dimension that the kernel does not take.
std::vector<std::uint16_t> run_attention(std::string_view variant, const AttentionRequest& request);

// Why "math" cannot add so; empty when it can: parts are FP32, and K is cut alike for all outputs.
std::string attention_plans_problem(const AttentionPlans& plans);

// The orders with which "math" gives o: those that give every bit, the likeliest first, else the nearest that was found.
struct FoundPlans {
  std::vector<AttentionPlans> plans;
  bool exact = false;
};
// Empty where no orders are needed, or o tells nothing. Of long keys a part of the queries and heads is looked at:
// run_attention tells what holds for all. Throws as above.
FoundPlans find_attention_plans(const AttentionRequest& request, std::span<const std::uint16_t> o);

// What runs in the backward pass; empty: the variant's is not known, or it does not apply. Throws as above.
std::string attention_backward_kernel(std::string_view variant, const AttentionRequest& request);

// The gradients of q, k and v where d_o, in the shape of o, is that of o; o is what the variant's own forward pass
// gives. "flash2": the kernel that runs under torch.use_deterministic_algorithms(True). The usual one adds to dQ in the
// order in which blocks happen to end: the same as long as there are at most two tiles of keys. Throws as above.
AttentionGradients run_attention_backward(std::string_view variant, const AttentionRequest& request,
                                          std::span<const std::uint16_t> d_o);

}  // namespace narrow
