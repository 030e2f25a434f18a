// Whole operations exactly as a GPU's library computes them: softmax, norms, activations, sums, backward passes. What
// decides the bits is in which order a kernel adds, which functions it calls and where it rounds; a variant of an
// operation is a row that says so.
//
//   const float values[] = {1, 2, 3, 4};
//   OperationRequest request{.type = "bf16"_fmt, .rows = 1, .cols = 4, .x = values};
//   const std::vector<std::uint32_t> codes = run_operation("softmax", "torch", request);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/dot/gemm.hpp"
#include "narrow/format/format.hpp"

namespace narrow {

// x is a matrix whose rows the operation works along; elementwise operations do not care for its shape. Backward
// operations take the x of the forward one; softmax_backward and log_softmax_backward its result instead, as kernels
// do; layer_norm_backward_b and embedding_backward none.
struct OperationRequest {
  Format type = {};  // of x, w, b, g and the result: fp32, fp16 or bf16
  std::size_t rows = 0, cols = 0;
  std::span<const float> x = {};              // rows * cols values of `type`
  std::span<const float> w = {}, b = {};      // norms: cols values each, or empty
  std::span<const float> g = {};              // backward: the gradient of the result; of a loss one number, or 1
  std::span<const std::int64_t> target = {};  // for each row a column, or ignore_index; embedding_backward: a word
  std::int64_t ignore_index = -100;
  std::size_t words = 0;           // embedding_backward: rows of the table
  std::optional<double> eps = {};  // norms; empty: the default of the library
  int threads = 0;
};

// A way to compute an operation.
struct OperationRow {
  std::string_view operation;  // "softmax"
  std::string_view variant;    // "torch": what torch.softmax runs for this type and shape
  std::string_view what;       // a line about it: versions, sources
  // Which kernel of the variant takes this request ("softmax_warp_forward"); empty where the variant does not apply.
  std::string (*kernel)(const OperationRequest&);
  void (*run)(const OperationRequest&, std::span<std::uint32_t> codes);
};

// The variants of an operation, the likeliest first; all operations when no name is given.
std::vector<const OperationRow*> operation_rows(std::string_view operation = {});

// How many numbers result: rows * cols, rows (sum, mean), cols (sum_rows, gradients of w and b), words * cols or 1
// (cross_entropy). Throws Error for an unknown operation.
std::size_t operation_outputs(std::string_view operation, const OperationRequest& request);

// Codes of request.type; a NaN is the GPU's (all bits of exponent and mantissa set, positive). Throws Error: an unknown
// name, operands that are missing, unexpected or of the wrong size, a type that it does not know, a target out of
// range.
std::vector<std::uint32_t> run_operation(std::string_view operation, std::string_view variant,
                                         const OperationRequest& request);

// What the epilogue of a product may apply (GemmOptions::function): relu, and gelu, gelu_tanh and silu as the
// operations' variant "torch" computes them, before its rounding.
std::span<const EpilogueFunction> epilogue_functions() noexcept;

// A step of PyTorch's AdamW and the norm that clips gradients, exactly as an H200 computes them.
//
//   std::vector<float> p = {1, 2}, m(2), v(2);
//   const float g[] = {0.5f, -1};
//   adamw_step({.fused = true}, "fp32"_fmt, 1, p, g, m, v);  // torch.optim.AdamW(.., fused=True).step()
struct AdamW {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  bool fused = false;  // one kernel; else the foreach ones, with a rounding to the type after each
};

// Step number `step`, from 1 on, of parameters p with gradients g and moments m and v, all of `type` (fp32, fp16 or
// bf16) and of the same size. Torch 2.11 without amsgrad, maximize and capturable. Throws Error where sizes differ or
// the step is 0.
void adamw_step(const AdamW& adamw, const Format& type, std::uint64_t step, std::span<float> p,
                std::span<const float> g, std::span<float> m, std::span<float> v);

// torch.nn.utils.get_total_norm of tensors of `type`, each of which starts at an aligned address: the norm of their
// norms, every one rounded to the type.
float grad_norm(const Format& type, std::span<const std::span<const float>> tensors);

}  // namespace narrow
