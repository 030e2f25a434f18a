#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/special/cuda_math.hpp"
#include "narrow/special/operation.hpp"
#include "narrow/special/operation_parts.hpp"
#include "narrow/special/reduce_sum.hpp"
#include "narrow/special/special.hpp"

namespace narrow {

namespace {

using detail::float_of_word;

// CUDA's powf, read from the SASS of nvcc 13.0, for a base from 2^-126 to 1, or 0, and an exponent from 1 on: log2 of
// the base in two floats, y times that in two floats, 2 to the power of it.
float cuda_powf(float base, float y) {
  if (base == 0) return 0;
  const auto fma = [](float a, float b, float c) { return std::fma(a, b, c); };
  const auto word = std::bit_cast<std::uint32_t>(base);
  const std::uint32_t i = (word - 0x3F3504F3u) & 0xFF800000u;
  const float a = float_of_word(word - i), e = static_cast<float>(static_cast<std::int32_t>(i)) * 0x1p-23f;
  const float f = a - 1, reciprocal = sfu_rcp(a + 1, true), s = (f + f) * reciprocal, square = s * s, rest = f - s;
  const float low = reciprocal * fma(-s, f, rest + rest);  // s + low is 2 (a - 1) / (a + 1)
  const float p = detail::horner(square, detail::Terms<0x3A2C32E4, 0x3B52E7DB, 0x3C93BB73, 0x3DF6384F>{}, fma) * square;
  const float log2_e = float_of_word(0x3FB8AA3B), head = fma(s, log2_e, e);
  float tail = fma(low, log2_e, fma(s, log2_e, e - head));
  tail = fma(s, float_of_word(0x32A55E34), tail);
  tail = fma(p, s, fma(p * 3, low, tail));
  const float high = head + tail, left = tail - (high - head);
  const float x = high * y;
  const float x_left = fma(left, y, fma(high, y, -x));
  if (x < -152) return 0;
  const float whole = std::nearbyint(x), part = x_left + (x - whole);
  const float power = detail::horner(
      part, detail::Terms<0x391FCB8E, 0x3AAF85ED, 0x3C1D9856, 0x3D6357BB, 0x3E75FDEC, 0x3F317218, 0x3F800000>{}, fma);
  return std::ldexp(power, static_cast<int>(whole));
}

// All in FP32 and one rounding of each result.
void fused_step(const AdamW& adamw, const Format& type, std::uint64_t step, std::span<float> p,
                std::span<const float> g, std::span<float> m, std::span<float> v) {
  const auto lr = static_cast<float>(adamw.lr), beta1 = static_cast<float>(adamw.beta1),
             beta2 = static_cast<float>(adamw.beta2), decay = static_cast<float>(adamw.weight_decay),
             eps = static_cast<float>(adamw.eps), count = static_cast<float>(step);
  const float step_size = lr / (1 - cuda_powf(beta1, count)), root = std::sqrt(1 - cuda_powf(beta2, count));
  for (std::size_t i = 0; i < p.size(); ++i) {
    const float square = g[i] * g[i], decayed = decay != 0 ? std::fma(-(lr * decay), p[i], p[i]) : p[i];
    const float mean = std::fma(beta1, m[i], std::fma(-beta1, g[i], g[i]));
    const float variance = std::fma(beta2, v[i], std::fma(-beta2, square, square));
    const float x = decayed - step_size * mean / (std::sqrt(variance) / root + eps);
    p[i] = round_to(x, type), m[i] = round_to(mean, type), v[i] = round_to(variance, type);
  }
}

// One operation after the other, each of which rounds what it leaves. Corrections are Python's, in double.
void foreach_step(const AdamW& adamw, const Format& type, std::uint64_t step, std::span<float> p,
                  std::span<const float> g, std::span<float> m, std::span<float> v) {
  const auto count = static_cast<double>(step);
  const auto kept = static_cast<float>(1 - adamw.lr * adamw.weight_decay), weight = static_cast<float>(1 - adamw.beta1),
             beta2 = static_cast<float>(adamw.beta2), share = static_cast<float>(1 - adamw.beta2),
             eps = static_cast<float>(adamw.eps),
             root = static_cast<float>(std::pow(1 - std::pow(adamw.beta2, count), 0.5)),
             step_size = static_cast<float>(-(adamw.lr / (1 - std::pow(adamw.beta1, count))));
  const auto stored = [&](float x) { return round_to(x, type); };
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (adamw.weight_decay != 0) p[i] = stored(p[i] * kept);
    const float difference = g[i] - m[i];
    m[i] = stored(weight < 0.5f ? std::fma(weight, difference, m[i]) : std::fma(-difference, 1 - weight, g[i]));
    v[i] = stored(std::fma(share, g[i] * g[i], stored(v[i] * beta2)));
    const float denominator = stored(stored(stored(std::sqrt(v[i])) / root) + eps);
    p[i] = stored(std::fma(step_size, m[i] / denominator, p[i]));
  }
}

constexpr std::size_t chunk_threads = 512, chunk_elements = 65536, sums_of_thread = 4;

float fold_chunk(std::array<float, chunk_threads>& threads) {
  return detail::fold_block(threads.data(), chunk_threads / 32, [](float a, float b) { return a + b; });
}

// The sum of squares of up to 65536 elements. Vectors of 4 go to the threads in turn; where the tensor's last one is not
// whole, single elements do instead, in all chunks of the tensor. Either way a thread has four sums.
float chunk_squares(std::span<const float> x, bool whole) {
  std::array<float, chunk_threads * sums_of_thread> sums{};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t at = i % sums.size();
    float& sum = sums[whole ? at : at % chunk_threads * sums_of_thread + at / chunk_threads];
    sum = std::fma(x[i], x[i], sum);
  }
  std::array<float, chunk_threads> threads;
  for (std::size_t t = 0; t < chunk_threads; ++t)
    threads[t] = std::accumulate(&sums[t * sums_of_thread], &sums[t * sums_of_thread] + sums_of_thread, 0.0f);
  return fold_chunk(threads);
}

float tensor_norm(std::span<const float> x) {
  std::array<float, chunk_threads> threads{};
  for (std::size_t chunk = 0; chunk * chunk_elements < x.size(); ++chunk) {
    const std::size_t first = chunk * chunk_elements;
    threads[chunk % chunk_threads] +=
        chunk_squares(x.subspan(first, std::min(chunk_elements, x.size() - first)), x.size() % sums_of_thread == 0);
  }
  return std::sqrt(fold_chunk(threads));
}

}  // namespace

void adamw_step(const AdamW& adamw, const Format& type, std::uint64_t step, std::span<float> p,
                std::span<const float> g, std::span<float> m, std::span<float> v) {
  if (!detail::is_operation_type(type)) throw Error("adamw_step: the type is fp32, fp16 or bf16");
  if (step == 0) throw Error("adamw_step: the first step is 1");
  if (g.size() != p.size() || m.size() != p.size() || v.size() != p.size())
    throw Error("adamw_step: " + std::to_string(p.size()) + " parameters, " + std::to_string(g.size()) +
                " gradients, " + std::to_string(m.size()) + " and " + std::to_string(v.size()) + " moments");
  const DefaultFloats guard;
  (adamw.fused ? fused_step : foreach_step)(adamw, type, step, p, g, m, v);
}

float grad_norm(const Format& type, std::span<const std::span<const float>> tensors) {
  if (!detail::is_operation_type(type)) throw Error("grad_norm: the type is fp32, fp16 or bf16");
  const DefaultFloats guard;
  std::vector<float> norms;
  for (const std::span<const float> tensor : tensors) norms.push_back(round_to(tensor_norm(tensor), type));
  if (norms.empty()) return 0;
  return norms.size() == 1 ? norms[0] : round_to(detail::norm_of(norms), type);
}

}  // namespace narrow
