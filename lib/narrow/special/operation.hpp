// Whole operations exactly as a GPU's library computes them: softmax, norms, activations, sums. What decides the bits is in
// which order a kernel adds, which functions it calls and where it rounds; a variant of an operation is a row that says so.
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

// x is a matrix whose rows the operation works along; elementwise operations do not care for its shape.
struct OperationRequest {
  Format type = {};                            // of x, w, b and the result: fp32, fp16 or bf16
  std::size_t rows = 0, cols = 0;
  std::span<const float> x = {};               // rows * cols values of `type`
  std::span<const float> w = {}, b = {};       // norms: cols values each, or empty
  std::span<const std::int64_t> target = {};   // cross_entropy: a column for each row, or ignore_index
  std::int64_t ignore_index = -100;
  std::optional<double> eps = {};              // norms; empty: the default of the library
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

// How many numbers result: rows * cols, rows (sum, mean) or 1 (cross_entropy). Throws Error for an unknown operation.
std::size_t operation_outputs(std::string_view operation, const OperationRequest& request);

// Codes of request.type; a NaN is the GPU's (all bits of exponent and mantissa set, positive). Throws Error: an unknown name, operands
// that are missing, unexpected or of the wrong size, a type that it does not know, a target out of range.
std::vector<std::uint32_t> run_operation(std::string_view operation, std::string_view variant,
                                         const OperationRequest& request);

// What the epilogue of a product may apply (GemmOptions::function): relu, and gelu, gelu_tanh and silu as the operations'
// variant "torch" computes them, before its rounding.
std::span<const EpilogueFunction> epilogue_functions() noexcept;

}  // namespace narrow
