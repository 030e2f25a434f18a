// What the rows of operations call: for each family the kernel that takes a request, and its results.
#pragma once

#include "narrow/special/operation.hpp"
#include "narrow/special/reduce_sum.hpp"

namespace narrow::detail {

using OperationCodes = std::span<std::uint32_t>;

void run_gelu(const OperationRequest& request, OperationCodes codes);
void run_gelu_tanh(const OperationRequest& request, OperationCodes codes);
void run_silu(const OperationRequest& request, OperationCodes codes);
void run_gelu_double(const OperationRequest& request, OperationCodes codes);
void run_gelu_tanh_double(const OperationRequest& request, OperationCodes codes);
void run_silu_double(const OperationRequest& request, OperationCodes codes);
void run_gelu_backward(const OperationRequest& request, OperationCodes codes);
void run_gelu_tanh_backward(const OperationRequest& request, OperationCodes codes);
void run_silu_backward(const OperationRequest& request, OperationCodes codes);

std::string sum_kernel(const OperationRequest& request, const SumOrder& order);
void run_sum(const OperationRequest& request, const SumOrder& order, OperationCodes codes);
void run_mean(const OperationRequest& request, const SumOrder& order, OperationCodes codes);
void run_sum_exact(const OperationRequest& request, OperationCodes codes);
void run_mean_exact(const OperationRequest& request, OperationCodes codes);
std::string sum_columns_kernel(const OperationRequest& request);
void run_sum_columns(const OperationRequest& request, OperationCodes codes);

std::string softmax_kernel(const OperationRequest& request);
void run_softmax(const OperationRequest& request, OperationCodes codes);
void run_log_softmax(const OperationRequest& request, OperationCodes codes);
void run_softmax_double(const OperationRequest& request, OperationCodes codes);
void run_log_softmax_double(const OperationRequest& request, OperationCodes codes);
std::string softmax_backward_kernel(const OperationRequest& request);
void run_softmax_backward(const OperationRequest& request, OperationCodes codes);
void run_log_softmax_backward(const OperationRequest& request, OperationCodes codes);

std::string norm_kernel(const OperationRequest& request);
void run_layer_norm(const OperationRequest& request, OperationCodes codes);
void run_rms_norm(const OperationRequest& request, OperationCodes codes);
void run_layer_norm_double(const OperationRequest& request, OperationCodes codes);
void run_rms_norm_double(const OperationRequest& request, OperationCodes codes);

// What the forward kernels leave for the backward ones; the mean of an RMS norm is 0.
struct RowStatistics {
  float mean, rstd;
};
RowStatistics layer_norm_statistics(const OperationRequest& request, std::span<const float> row);
RowStatistics rms_norm_statistics(const OperationRequest& request, std::span<const float> row);

std::string norm_backward_kernel(const OperationRequest& request);
void run_layer_norm_backward(const OperationRequest& request, OperationCodes codes);
void run_rms_norm_backward(const OperationRequest& request, OperationCodes codes);
std::string norm_weight_kernel(const OperationRequest& request);
void run_layer_norm_weight_backward(const OperationRequest& request, OperationCodes codes);
void run_layer_norm_bias_backward(const OperationRequest& request, OperationCodes codes);
void run_rms_norm_weight_backward(const OperationRequest& request, OperationCodes codes);

// The RMS norms that are put together from other operations.
std::string composed_norm_kernel(const OperationRequest& request);
void run_composite_rms_norm(const OperationRequest& request, OperationCodes codes);
void run_huggingface_rms_norm(const OperationRequest& request, OperationCodes codes);

std::string cross_entropy_kernel(const OperationRequest& request);
void run_cross_entropy(const OperationRequest& request, OperationCodes codes);
void run_cross_entropy_double(const OperationRequest& request, OperationCodes codes);
std::string cross_entropy_backward_kernel(const OperationRequest& request);
void run_cross_entropy_backward(const OperationRequest& request, OperationCodes codes);

std::string embedding_backward_kernel(const OperationRequest& request);
void run_embedding_backward(const OperationRequest& request, OperationCodes codes);

}  // namespace narrow::detail
