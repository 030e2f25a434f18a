// Activations and their derivatives: FP32 arithmetic on each element and one rounding, whatever the shape.
#include <cmath>
#include <numbers>
#include <vector>

#include "narrow/special/operation_kernels.hpp"
#include "narrow/special/operation_parts.hpp"
#include "narrow/special/special.hpp"

namespace narrow::detail {

namespace {

constexpr std::size_t codes_of_16_bits = 65536, elements_of_part = 4096;
constexpr float root_half = 0x1.6a09e6p-1f;
constexpr float beta = std::bit_cast<float>(0x3F4C422Au), kappa = std::bit_cast<float>(0x3D372713u);  // gelu_tanh

float gelu(float x) { return x * 0.5f * (1 + narrow::cuda_erff(x * root_half)); }

float gelu_tanh(float x) {
  const float inner = beta * std::fma(x * x * x, kappa, x);
  return 0.5f * x * (1 + narrow::cuda_tanhf(inner));
}

float silu(float x) { return x / (1 + narrow::cuda_expf(-x)); }

float relu(float x) { return x <= 0 ? 0 : x; }  // NaN stays, -0 becomes +0

// Derivatives, contracted as nvcc contracts them. Of a sum of two products the left one is fused.
float gelu_derivative(float x) {
  constexpr float density = std::bit_cast<float>(0x3ECC422Au);  // 1 / sqrt(2 pi)
  const float left = 1 + narrow::cuda_erff(x * root_half);
  return std::fma(left, 0.5f, narrow::cuda_expf(x * -0.5f * x) * density * x);
}

float gelu_tanh_derivative(float x) {
  constexpr float three_kappa = std::bit_cast<float>(0x3E095D4Eu);
  const float square = x * x, t = narrow::cuda_tanhf(beta * std::fma(square * x, kappa, x));
  const float right = 0.5f * x * std::fma(-t, t, 1.0f) * (std::fma(square, three_kappa, 1.0f) * beta);
  return std::fma(1 + t, 0.5f, right);
}

constexpr EpilogueFunction functions[] = {{"relu", relu}, {"gelu", gelu}, {"gelu_tanh", gelu_tanh}, {"silu", silu}};

// function(x) of all elements, rounded. Where elements of 16 bits are many, every code is computed once instead.
template <class Function>
void run_elementwise(const OperationRequest& request, OperationCodes codes, const Function& function) {
  const Format& type = request.type;
  const std::span<const float> x = request.x;
  if (type == "fp32"_fmt || x.size() <= codes_of_16_bits) {
    parallel_parts(x.size(), elements_of_part, request.threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) codes[i] = store_code(function(x[i]), type);
    });
    return;
  }
  std::vector<std::uint32_t> results(codes_of_16_bits);
  parallel_parts(results.size(), elements_of_part, request.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t code = begin; code < end; ++code)
      results[code] = store_code(function(static_cast<float>(decode(code, type))), type);
  });
  parallel_parts(x.size(), codes_of_16_bits, request.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) codes[i] = results[store_code(x[i], type)];
  });
}

// function(x, g) of all elements, rounded.
template <class Function>
void run_derivative(const OperationRequest& request, OperationCodes codes, const Function& function) {
  parallel_parts(request.x.size(), elements_of_part, request.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) codes[i] = store_code(function(request.x[i], request.g[i]), request.type);
  });
}

}  // namespace

void run_gelu(const OperationRequest& request, OperationCodes codes) { run_elementwise(request, codes, gelu); }
void run_gelu_tanh(const OperationRequest& request, OperationCodes codes) {
  run_elementwise(request, codes, gelu_tanh);
}
void run_silu(const OperationRequest& request, OperationCodes codes) { run_elementwise(request, codes, silu); }

void run_gelu_backward(const OperationRequest& request, OperationCodes codes) {
  run_derivative(request, codes, [](float x, float g) { return g * gelu_derivative(x); });
}
void run_gelu_tanh_backward(const OperationRequest& request, OperationCodes codes) {
  run_derivative(request, codes, [](float x, float g) { return g * gelu_tanh_derivative(x); });
}
void run_silu_backward(const OperationRequest& request, OperationCodes codes) {
  run_derivative(request, codes, [](float x, float g) {
    const float sigmoid = 1 / (1 + narrow::cuda_expf(-x));
    return g * sigmoid * std::fma(x, 1 - sigmoid, 1.0f);
  });
}

// In forms that lose nothing where 1 + tanh or 1 + erf is next to 0.
void run_gelu_double(const OperationRequest& request, OperationCodes codes) {
  run_elementwise(request, codes, [](float x) {
    const auto wide = static_cast<double>(x);
    return 0.5 * wide * std::erfc(-wide / std::numbers::sqrt2);
  });
}

void run_gelu_tanh_double(const OperationRequest& request, OperationCodes codes) {
  run_elementwise(request, codes, [](float x) {
    const auto wide = static_cast<double>(x);
    const double inner = std::sqrt(2 * std::numbers::inv_pi) * (wide + 0.044715 * wide * wide * wide);
    return wide / (1 + std::exp(-2 * inner));
  });
}

void run_silu_double(const OperationRequest& request, OperationCodes codes) {
  run_elementwise(request, codes, [](float x) {
    const auto wide = static_cast<double>(x);
    return wide / (1 + std::exp(-wide));
  });
}

}  // namespace narrow::detail

namespace narrow {

std::span<const EpilogueFunction> epilogue_functions() noexcept { return detail::functions; }

}  // namespace narrow
