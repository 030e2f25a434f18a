#include "narrow/special/operation.hpp"

#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/special/operation_kernels.hpp"
#include "narrow/special/operation_parts.hpp"

namespace narrow {

namespace {

using detail::OperationCodes;
using Request = OperationRequest;

enum class Outputs { as_x, one_per_row, one_per_column, one_per_word, one };
// Operands, as bits; an operation that takes x, g or a target needs them.
enum Operand : unsigned {
  takes_x = 1,
  takes_w = 2,
  takes_b = 4,
  takes_eps = 8,
  takes_target = 16,
  takes_g = 32,
  takes_loss_g = 64,  // one number, which may be left out
  takes_words = 128
};
struct Operation {
  std::string_view name;
  Outputs outputs;
  unsigned operands = takes_x;
};
constexpr unsigned backward = takes_x | takes_g;
constexpr Operation operations[] = {
    {"gelu", Outputs::as_x},
    {"gelu_tanh", Outputs::as_x},
    {"silu", Outputs::as_x},
    {"softmax", Outputs::as_x},
    {"log_softmax", Outputs::as_x},
    {"sum", Outputs::one_per_row},
    {"mean", Outputs::one_per_row},
    {"layer_norm", Outputs::as_x, takes_x | takes_w | takes_b | takes_eps},
    {"rms_norm", Outputs::as_x, takes_x | takes_w | takes_eps},
    {"cross_entropy", Outputs::one, takes_x | takes_target},
    {"gelu_backward", Outputs::as_x, backward},
    {"gelu_tanh_backward", Outputs::as_x, backward},
    {"silu_backward", Outputs::as_x, backward},
    {"softmax_backward", Outputs::as_x, backward},
    {"log_softmax_backward", Outputs::as_x, backward},
    {"layer_norm_backward", Outputs::as_x, backward | takes_w | takes_eps},
    {"layer_norm_backward_w", Outputs::one_per_column, backward | takes_eps},
    {"layer_norm_backward_b", Outputs::one_per_column, takes_g},
    {"rms_norm_backward", Outputs::as_x, backward | takes_w | takes_eps},
    {"rms_norm_backward_w", Outputs::one_per_column, backward | takes_eps},
    {"cross_entropy_backward", Outputs::as_x, takes_x | takes_target | takes_loss_g},
    {"sum_rows", Outputs::one_per_column},
    {"embedding_backward", Outputs::one_per_word, takes_g | takes_target | takes_words},
};

std::string elementwise_kernel(const Request& r) {
  return detail::is_operation_type(r.type) ? "vectorized_elementwise_kernel" : "";
}
std::string double_kernel(const Request& r) { return detail::is_operation_type(r.type) ? "double" : ""; }
std::string exact_kernel(const Request& r) { return detail::is_operation_type(r.type) ? "exact" : ""; }
std::string newer_sum(const Request& r) { return detail::sum_kernel(r, detail::torch_2_10_sum); }
std::string older_sum(const Request& r) { return detail::sum_kernel(r, detail::torch_2_9_sum); }

constexpr std::string_view in_double = "the definition in double, rounded once";
constexpr std::string_view eager = "torch 2.11, eager";
constexpr std::string_view norm_columns = "torch 2.11, eager: up to 32 threads add a column, 8 rows each in turn";
constexpr std::string_view exactly = "the exact result, rounded once";
constexpr std::string_view sum_2_10 =
    "torch 2.10 and 2.11, eager: 8 elements of 16 bits at once, trees along x first, lanes by 16, 8, 4, 2, 1";
constexpr std::string_view sum_2_9 =
    "torch 2.9 and older, eager: 4 elements at once, trees along y first, lanes by 1, 2, 4, 8, 16";

const OperationRow table[] = {
    {"gelu", "torch", "torch 2.11, eager: x/2 * (1 + erff(x / sqrt 2))", elementwise_kernel, detail::run_gelu},
    {"gelu", "double", in_double, double_kernel, detail::run_gelu_double},
    {"gelu_tanh", "torch", "torch 2.11, eager: x/2 * (1 + tanhf(..))", elementwise_kernel, detail::run_gelu_tanh},
    {"gelu_tanh", "double", in_double, double_kernel, detail::run_gelu_tanh_double},
    {"silu", "torch", "torch 2.11, eager: x / (1 + expf(-x))", elementwise_kernel, detail::run_silu},
    {"silu", "double", in_double, double_kernel, detail::run_silu_double},
    {"softmax", "torch", "torch 2.7 to 2.11, eager: expf(x - max) / sum", detail::softmax_kernel, detail::run_softmax},
    {"softmax", "double", in_double, double_kernel, detail::run_softmax_double},
    {"log_softmax", "torch", "torch 2.7 to 2.11, eager: x - max - logf(sum)", detail::softmax_kernel,
     detail::run_log_softmax},
    {"log_softmax", "double", in_double, double_kernel, detail::run_log_softmax_double},
    {"sum", "torch", sum_2_10, newer_sum,
     [](const Request& r, OperationCodes codes) { detail::run_sum(r, detail::torch_2_10_sum, codes); }},
    {"sum", "torch-2.9", sum_2_9, older_sum,
     [](const Request& r, OperationCodes codes) { detail::run_sum(r, detail::torch_2_9_sum, codes); }},
    {"sum", "exact", exactly, exact_kernel, detail::run_sum_exact},
    {"mean", "torch", sum_2_10, newer_sum,
     [](const Request& r, OperationCodes codes) { detail::run_mean(r, detail::torch_2_10_sum, codes); }},
    {"mean", "torch-2.9", sum_2_9, older_sum,
     [](const Request& r, OperationCodes codes) { detail::run_mean(r, detail::torch_2_9_sum, codes); }},
    {"mean", "exact", exactly, exact_kernel, detail::run_mean_exact},
    {"layer_norm", "torch", "torch 2.11, eager: moments of 128 threads, combined", detail::norm_kernel,
     detail::run_layer_norm},
    {"layer_norm", "double", in_double, double_kernel, detail::run_layer_norm_double},
    {"rms_norm", "torch", "torch 2.9 to 2.11, F.rms_norm: squares of 128 threads, added", detail::norm_kernel,
     detail::run_rms_norm},
    {"rms_norm", "torch-composite", "torch 2.11, F.rms_norm with a weight of another type: operation by operation",
     detail::composed_norm_kernel, detail::run_composite_rms_norm},
    {"rms_norm", "huggingface", "LlamaRMSNorm of transformers: rounded before the weight and after it",
     detail::composed_norm_kernel, detail::run_huggingface_rms_norm},
    {"rms_norm", "double", in_double, double_kernel, detail::run_rms_norm_double},
    {"cross_entropy", "torch", "torch 2.11, eager: log_softmax rounded to the type, then the mean in one block",
     detail::cross_entropy_kernel, detail::run_cross_entropy},
    {"cross_entropy", "double", in_double, double_kernel, detail::run_cross_entropy_double},
    {"gelu_backward", "torch", eager, elementwise_kernel, detail::run_gelu_backward},
    {"gelu_tanh_backward", "torch", eager, elementwise_kernel, detail::run_gelu_tanh_backward},
    {"silu_backward", "torch", eager, elementwise_kernel, detail::run_silu_backward},
    {"softmax_backward", "torch", "torch 2.11, eager: y * g rounded to the type, then less y times its sum",
     detail::softmax_backward_kernel, detail::run_softmax_backward},
    {"log_softmax_backward", "torch", "torch 2.11, eager: g - expf(y) * sum", detail::softmax_backward_kernel,
     detail::run_log_softmax_backward},
    {"layer_norm_backward", "torch", "torch 2.11, eager: two sums of 128 threads", detail::norm_backward_kernel,
     detail::run_layer_norm_backward},
    {"layer_norm_backward_w", "torch", norm_columns, detail::norm_weight_kernel,
     detail::run_layer_norm_weight_backward},
    {"layer_norm_backward_b", "torch", norm_columns, detail::norm_weight_kernel, detail::run_layer_norm_bias_backward},
    {"rms_norm_backward", "torch", "torch 2.11, F.rms_norm: a sum of 128 threads", detail::norm_backward_kernel,
     detail::run_rms_norm_backward},
    {"rms_norm_backward_w", "torch", norm_columns, detail::norm_weight_kernel, detail::run_rms_norm_weight_backward},
    {"cross_entropy_backward", "torch", "torch 2.11, eager: nll_loss, then log_softmax, both rounded to the type",
     detail::cross_entropy_backward_kernel, detail::run_cross_entropy_backward},
    {"sum_rows", "torch", "torch 2.11, eager, x.sum(0): up to 4 columns in a thread", detail::sum_columns_kernel,
     detail::run_sum_columns},
    {"embedding_backward", "torch", "torch 2.11, deterministic: rows in order, in groups",
     detail::embedding_backward_kernel, detail::run_embedding_backward},
};

// "a, b, c"
template <class Range, class Name>
std::string listed(const Range& range, const Name& name) {
  std::string text;
  for (const auto& item : range) text += (text.empty() ? "" : ", ") + std::string(name(item));
  return text;
}

const Operation& require_operation(std::string_view name) {
  for (const Operation& operation : operations)
    if (operation.name == name) return operation;
  throw Error("operation '" + std::string(name) + "': known are " +
              listed(operations, [](const Operation& o) { return o.name; }));
}

[[noreturn]] void reject(const Operation& operation, const std::string& why) {
  throw Error(std::string(operation.name) + ": " + why);
}

// An operand that may be left out has no numbers then.
void check_operand(const Operation& operation, std::string_view name, unsigned operand, std::size_t size,
                   std::size_t expected, bool required) {
  const bool takes = (operation.operands & operand) != 0;
  if (size == 0 && !(takes && required && expected != 0)) return;
  if (!takes) reject(operation, "takes no " + std::string(name));
  if (size != expected)
    reject(operation, std::string(name) + " has " + std::to_string(size) + " numbers, not " + std::to_string(expected));
}

std::size_t outputs_of(const Operation& operation, const Request& r) {
  switch (operation.outputs) {
    case Outputs::as_x: return r.rows * r.cols;
    case Outputs::one_per_row: return r.rows;
    case Outputs::one_per_column: return r.cols;
    case Outputs::one_per_word: return r.words * r.cols;
    case Outputs::one: break;
  }
  return 1;
}

void check_size(const Operation& operation, std::size_t rows, std::size_t cols) {
  if (cols != 0 && rows > static_cast<std::size_t>(-1) / cols / 4) reject(operation, "too many elements");
}

void check_request(const Operation& operation, const Request& r) {
  if (!detail::is_operation_type(r.type)) reject(operation, "the type is fp32, fp16 or bf16");
  check_size(operation, r.rows, r.cols);
  check_size(operation, r.words, r.cols);
  const bool of_words = (operation.operands & takes_words) != 0, of_loss = (operation.operands & takes_loss_g) != 0;
  check_operand(operation, "x", takes_x, r.x.size(), r.rows * r.cols, true);
  check_operand(operation, "w", takes_w, r.w.size(), r.cols, false);
  check_operand(operation, "b", takes_b, r.b.size(), r.cols, false);
  check_operand(operation, "g", takes_g | takes_loss_g, r.g.size(), of_loss ? 1 : r.rows * r.cols, !of_loss);
  check_operand(operation, "target", takes_target, r.target.size(), r.rows, true);
  if (r.eps.has_value() && (operation.operands & takes_eps) == 0) reject(operation, "takes no eps");
  if (r.words != 0 && !of_words) reject(operation, "takes no words");
  const std::size_t targets = of_words ? r.words : r.cols;
  for (const std::int64_t t : r.target)
    if ((of_words || t != r.ignore_index) && (t < 0 || static_cast<std::uint64_t>(t) >= targets))
      reject(operation, "target " + std::to_string(t) + (of_words ? " is no word of " : " is no column of ") +
                            std::to_string(targets));
}

}  // namespace

std::vector<const OperationRow*> operation_rows(std::string_view operation) {
  std::vector<const OperationRow*> rows;
  for (const OperationRow& row : table)
    if (operation.empty() || row.operation == operation) rows.push_back(&row);
  return rows;
}

std::size_t operation_outputs(std::string_view operation, const Request& request) {
  return outputs_of(require_operation(operation), request);
}

std::vector<std::uint32_t> run_operation(std::string_view operation, std::string_view variant, const Request& request) {
  const Operation& known = require_operation(operation);
  check_request(known, request);
  const std::vector<const OperationRow*> rows = operation_rows(operation);
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const OperationRow* row) { return row->variant == variant; });
  if (found == rows.end())
    reject(known, "no variant '" + std::string(variant) + "'; there are " +
                      listed(rows, [](const OperationRow* row) { return row->variant; }));
  if ((*found)->kernel(request).empty())
    reject(known, "variant '" + std::string(variant) + "' does not take this shape");
  std::vector<std::uint32_t> codes(outputs_of(known, request));
  const DefaultFloats guard;
  (*found)->run(request, codes);
  return codes;
}

}  // namespace narrow
