#include "narrow/special/special.hpp"

#include <cmath>

#include "narrow/base/float_environment.hpp"
#include "narrow/special/coefficients.hpp"
#include "narrow/special/cuda_math.hpp"

namespace narrow {

namespace {

constexpr detail::SfuTables sfu_tables{detail::ex2_rows,   detail::lg2_rows,  detail::rcp_rows,
                                       detail::rsqrt_rows, detail::sqrt_rows, detail::sin_rows};
constexpr auto fused = [](float a, float b, float c) { return std::fma(a, b, c); };

}  // namespace

float sfu_ex2(float x, bool ftz) {
  const DefaultFloats guard;
  return detail::sfu_ex2(x, ftz, sfu_tables);
}
float sfu_lg2(float x, bool ftz) {
  const DefaultFloats guard;
  return detail::sfu_lg2(x, ftz, sfu_tables);
}
float sfu_rcp(float x, bool ftz) {
  const DefaultFloats guard;
  return detail::sfu_rcp(x, ftz, sfu_tables);
}
float sfu_rsqrt(float x, bool ftz) {
  const DefaultFloats guard;
  return detail::sfu_rsqrt(x, ftz, sfu_tables);
}
float sfu_sqrt(float x, bool ftz) {
  const DefaultFloats guard;
  return detail::sfu_sqrt(x, ftz, sfu_tables);
}
float sfu_sin(float x) {
  const DefaultFloats guard;
  return detail::sfu_sin(x, sfu_tables);
}
float sfu_cos(float x) {
  const DefaultFloats guard;
  return detail::sfu_cos(x, sfu_tables);
}

float cuda_expf(float x) {
  const DefaultFloats guard;
  return detail::cuda_expf(x, sfu_tables, fused);
}
float cuda_logf(float x) {
  const DefaultFloats guard;
  return detail::cuda_logf(x, fused);
}
float cuda_tanhf(float x) {
  const DefaultFloats guard;
  return detail::cuda_tanhf(x, sfu_tables, fused);
}
float cuda_erff(float x) {
  const DefaultFloats guard;
  return detail::cuda_erff(x, sfu_tables, fused);
}

}  // namespace narrow
