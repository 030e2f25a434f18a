#include "narrow/special/special.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/array/parts.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/special/coefficients.hpp"
#include "narrow/special/cuda_math.hpp"
#include "narrow/special/kernels.hpp"

namespace narrow {

namespace {

constexpr detail::SfuTables sfu_tables{detail::ex2_rows,  detail::lg2_rows, detail::rcp_rows, detail::rsqrt_rows,
                                       detail::sqrt_rows, detail::sin_rows, detail::tanh_rows};
struct Fused {
  float operator()(float a, float b, float c) const { return std::fma(a, b, c); }
};

// In the floating-point environment that the bits ask for, whatever the caller's is.
template <class Function, class... Arguments>
float guarded(const Function& function, const Arguments&... arguments) {
  const DefaultFloats guard;
  return function(arguments...);
}

}  // namespace

float sfu_ex2(float x, bool ftz) { return guarded(detail::sfu_ex2, x, ftz, sfu_tables); }
float sfu_lg2(float x, bool ftz) { return guarded(detail::sfu_lg2, x, ftz, sfu_tables); }
float sfu_rcp(float x, bool ftz) { return guarded(detail::sfu_rcp, x, ftz, sfu_tables); }
float sfu_rsqrt(float x, bool ftz) { return guarded(detail::sfu_rsqrt, x, ftz, sfu_tables); }
float sfu_sqrt(float x, bool ftz) { return guarded(detail::sfu_sqrt, x, ftz, sfu_tables); }
float sfu_sin(float x) { return guarded(detail::sfu_sin, x, sfu_tables); }
float sfu_cos(float x) { return guarded(detail::sfu_cos, x, sfu_tables); }
float sfu_tanh(float x) { return guarded(detail::sfu_tanh, x, sfu_tables); }

float cuda_expf(float x) { return guarded(detail::cuda_expf<Fused>, x, sfu_tables, Fused{}); }
float cuda_logf(float x) { return guarded(detail::cuda_logf<Fused>, x, Fused{}); }
float cuda_tanhf(float x) { return guarded(detail::cuda_tanhf<Fused>, x, sfu_tables, Fused{}); }
float cuda_erff(float x) { return guarded(detail::cuda_erff<Fused>, x, sfu_tables, Fused{}); }

namespace {

// What lanes leave is done by the function itself.
template <class Function>
void over_array(detail::SpecialKernel kernel, const float* x, std::size_t count, float* out, const Function& function) {
  const detail::SpecialTables& tables = detail::special_tables();
  for (std::size_t i = 0; i < count;) {
    if (kernel != nullptr) i += kernel(tables, x + i, count - i, out + i);
    const std::size_t stop = kernel == nullptr ? count : std::min(count, i + detail::special_block);
    for (; i < stop; ++i) out[i] = function(x[i]);
  }
}

// ftz decides nothing in lanes: ex2 of a subnormal is one either way, the others take none and return none.
void special_part(Special f, const float* x, std::size_t count, float* out, bool ftz) {
  const detail::SpecialKernels& k = detail::special_kernels();
  const auto run = [&](detail::SpecialKernel kernel, const auto& function) {
    over_array(kernel, x, count, out, function);
  };
  const Fused fma;
  switch (f) {
    case Special::sfu_ex2: return run(k.ex2, [&](float v) { return detail::sfu_ex2(v, ftz, sfu_tables); });
    case Special::sfu_lg2: return run(k.lg2, [&](float v) { return detail::sfu_lg2(v, ftz, sfu_tables); });
    case Special::sfu_rcp: return run(k.rcp, [&](float v) { return detail::sfu_rcp(v, ftz, sfu_tables); });
    case Special::sfu_rsqrt: return run(k.rsqrt, [&](float v) { return detail::sfu_rsqrt(v, ftz, sfu_tables); });
    case Special::sfu_sqrt: return run(k.sqrt, [&](float v) { return detail::sfu_sqrt(v, ftz, sfu_tables); });
    case Special::sfu_sin: return run(nullptr, [&](float v) { return detail::sfu_sin(v, sfu_tables); });
    case Special::sfu_cos: return run(nullptr, [&](float v) { return detail::sfu_cos(v, sfu_tables); });
    case Special::sfu_tanh: return run(nullptr, [&](float v) { return detail::sfu_tanh(v, sfu_tables); });
    case Special::cuda_expf: return run(k.exp, [&](float v) { return detail::cuda_expf(v, sfu_tables, fma); });
    case Special::cuda_logf: return run(k.log, [&](float v) { return detail::cuda_logf(v, fma); });
    case Special::cuda_tanhf: return run(k.tanh, [&](float v) { return detail::cuda_tanhf(v, sfu_tables, fma); });
    case Special::cuda_erff: return run(k.erf, [&](float v) { return detail::cuda_erff(v, sfu_tables, fma); });
  }
  throw Error("special_array: no such function");
}

}  // namespace

void special_array(Special f, std::span<const float> x, std::span<float> out, bool ftz, int threads) {
  if (x.size() != out.size())
    throw Error("special_array: " + std::to_string(x.size()) + " arguments and " + std::to_string(out.size()) +
                " results");
  detail::check_overlap(x, out);
  constexpr std::size_t part = 1 << 15;
  const DefaultFloats guard;
  parallel_parts(x.size(), part, threads, [&](std::size_t begin, std::size_t end) {
    special_part(f, x.data() + begin, end - begin, out.data() + begin, ftz);
  });
}

}  // namespace narrow
