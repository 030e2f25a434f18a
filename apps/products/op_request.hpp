// An operation as the flags of `narrow op` and `narrow validate --op` describe it: its operands in memory, and the
// variants that take them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "products/code_matrix.hpp"

namespace app {

struct OperationFlags {
  std::string name;  // "softmax"
  std::optional<std::string> variant, model, plan, eps, scale, threads, words;
  std::optional<std::string> format;  // --x-format: what integers in the operands are codes of
  MatrixFlags x{"--x"}, w{"--w"}, b{"--b"}, g{"--g"}, target{"--target"}, q{"--q"}, k{"--k"}, v{"--v"};
  bool causal = false;

  // What `narrow validate` has for products already is left to it: --b, --model, --threads.
  void declare(Arguments& arguments, bool beside_products);
  // Flags of operations that were given, beside those that products have.
  std::vector<const char*> given() const;
};

constexpr const char* operation_names =
    "softmax, log_softmax, layer_norm, rms_norm, gelu, gelu_tanh, silu, sum, mean, cross_entropy, linear, attention; "
    "sum_rows, embedding_backward, and the others with _backward behind (the gradient of x; _backward_w and "
    "_backward_b "
    "that of a weight and a bias, attention_backward_q, _k and _v those of Q, K and V)";

// A way to compute it that takes these operands.
struct OperationVariant {
  std::string name, kernel, what;
  bool is_kernel = true;  // of a GPU; false: the definition in double, rounded once
  std::function<std::vector<std::uint32_t>()> run;
};

struct LoadedOperation {
  std::string name;
  narrow::Format format;             // of the result
  std::vector<std::uint64_t> shape;  // of the result
  // Those that apply, the likeliest first; one where the flags name it. Empty only where `found` is there.
  std::vector<OperationVariant> variants;
  // Those whose orders of sums no rule tells but the result itself, at least one.
  std::function<std::vector<OperationVariant>(const std::vector<std::uint32_t>& d)> found = {};
};

// Throws narrow::Error: an unknown name, operands that are missing, unexpected or do not fit, a variant that does not
// apply.
LoadedOperation load_operation(const OperationFlags& flags);

// x, w and b of linear as a product: A = x as a matrix, B = w transposed, C = b.
struct LinearOperands {
  narrow::Tensor x, w;  // two dimensions each, in C order
  std::optional<narrow::Tensor> b;
  std::vector<std::uint64_t> shape;  // of the result
};
LinearOperands load_linear(const OperationFlags& flags);  // throws narrow::Error

// F16, BF16 or F32, in C order, not empty. Throws narrow::Error.
narrow::Tensor load_operand(const MatrixFlags& flags);
std::vector<std::uint32_t> operand_codes(const narrow::Tensor& tensor, const char* flag);

// What there is: rows of (operation, variant, a line about it), of one operation or of all.
struct OperationLine {
  std::string operation, variant, what;
};
std::vector<OperationLine> operation_lines(const std::string& name = {});  // throws narrow::Error: an unknown name

}  // namespace app
