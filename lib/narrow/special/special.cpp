#include "narrow/special/special.hpp"

#include <cmath>

#include "narrow/base/float_environment.hpp"
#include "narrow/special/coefficients.hpp"
#include "narrow/special/cuda_math.hpp"

namespace narrow {

namespace {

constexpr detail::SfuTables sfu_tables{detail::ex2_rows,   detail::lg2_rows,  detail::rcp_rows,
                                       detail::rsqrt_rows, detail::sqrt_rows, detail::sin_rows};
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

float cuda_expf(float x) { return guarded(detail::cuda_expf<Fused>, x, sfu_tables, Fused{}); }
float cuda_logf(float x) { return guarded(detail::cuda_logf<Fused>, x, Fused{}); }
float cuda_tanhf(float x) { return guarded(detail::cuda_tanhf<Fused>, x, sfu_tables, Fused{}); }
float cuda_erff(float x) { return guarded(detail::cuda_erff<Fused>, x, sfu_tables, Fused{}); }

}  // namespace narrow
