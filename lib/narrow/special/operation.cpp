#include "narrow/special/operation.hpp"

#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/special/operation_kernels.hpp"
#include "narrow/special/operation_parts.hpp"

namespace narrow {

namespace {

using detail::OperationCodes;
using Request = OperationRequest;

// What an operation takes beside x, and how many numbers it gives.
enum class Outputs { as_x, one_per_row, one };
struct Operation {
  std::string_view name;
  Outputs outputs;
  bool takes_w = false, takes_b = false, takes_target = false;
};
constexpr Operation operations[] = {
    {"gelu", Outputs::as_x},           {"gelu_tanh", Outputs::as_x},
    {"silu", Outputs::as_x},           {"softmax", Outputs::as_x},
    {"log_softmax", Outputs::as_x},    {"sum", Outputs::one_per_row},
    {"mean", Outputs::one_per_row},    {"layer_norm", Outputs::as_x, true, true},
    {"rms_norm", Outputs::as_x, true}, {"cross_entropy", Outputs::one, false, false, true},
};

std::string elementwise_kernel(const Request& r) {
  return detail::is_operation_type(r.type) ? "vectorized_elementwise_kernel" : "";
}
std::string double_kernel(const Request& r) { return detail::is_operation_type(r.type) ? "double" : ""; }
std::string exact_kernel(const Request& r) { return detail::is_operation_type(r.type) ? "exact" : ""; }
std::string newer_sum(const Request& r) { return detail::sum_kernel(r, detail::torch_2_10_sum); }
std::string older_sum(const Request& r) { return detail::sum_kernel(r, detail::torch_2_9_sum); }

constexpr std::string_view in_double = "the definition in double, rounded once";
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

void check_operand(const Operation& operation, std::string_view name, bool takes, std::size_t size,
                   std::size_t expected, bool required) {
  if (size == 0 && (!required || expected == 0)) return;
  if (!takes) reject(operation, "takes no " + std::string(name));
  if (size != expected)
    reject(operation, std::string(name) + " has " + std::to_string(size) + " numbers, not " + std::to_string(expected));
}

void check_request(const Operation& operation, const Request& r) {
  if (!detail::is_operation_type(r.type)) reject(operation, "the type is fp32, fp16 or bf16");
  if (r.cols != 0 && r.rows > static_cast<std::size_t>(-1) / r.cols / 4) reject(operation, "too many elements");
  check_operand(operation, "x", true, r.x.size(), r.rows * r.cols, true);
  check_operand(operation, "w", operation.takes_w, r.w.size(), r.cols, false);
  check_operand(operation, "b", operation.takes_b, r.b.size(), r.cols, false);
  check_operand(operation, "target", operation.takes_target, r.target.size(), r.rows, operation.takes_target);
  if (r.eps.has_value() && !operation.takes_w) reject(operation, "takes no eps");
  for (const std::int64_t t : r.target)
    if (t != r.ignore_index && (t < 0 || static_cast<std::uint64_t>(t) >= r.cols))
      reject(operation, "target " + std::to_string(t) + " is no column of " + std::to_string(r.cols));
}

std::size_t outputs_of(const Operation& operation, const Request& r) {
  switch (operation.outputs) {
    case Outputs::as_x: return r.rows * r.cols;
    case Outputs::one_per_row: return r.rows;
    case Outputs::one: break;
  }
  return 1;
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
