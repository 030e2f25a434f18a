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

#include "narrow/format/format.hpp"

namespace narrow {

// Q: batch x heads x queries x dim, K and V: batch x kv_heads x keys x dim, as torch.nn.functional takes them; O as Q.
struct AttentionRequest {
  Format type = {};  // fp16 or bf16: codes of q, k, v and the result
  std::size_t batch = 1, heads = 1, kv_heads = 1, queries = 0, keys = 0, dim = 0;
  std::span<const std::uint16_t> q = {}, k = {}, v = {};
  bool causal = false;
  std::optional<double> scale = {};  // 1 / sqrt(dim) when not given
  int multiprocessors = 132;         // of the GPU: decides how FlashAttention splits the keys
  int threads = 0;
};

// A kernel.
struct AttentionRow {
  std::string_view variant;  // "flash2"
  std::string_view what;     // a line about it
  std::string (*kernel)(const AttentionRequest&);  // what runs, with its tiles and splits; empty: it does not apply
  void (*run)(const AttentionRequest&, std::span<std::uint16_t> o);
};

std::vector<const AttentionRow*> attention_rows();  // the likeliest first

// Throws Error: an unknown variant, shapes that do not fit, a type or a dimension that the kernel does not take.
std::vector<std::uint16_t> run_attention(std::string_view variant, const AttentionRequest& request);

}  // namespace narrow
