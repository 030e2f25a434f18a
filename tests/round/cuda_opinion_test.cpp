// Do the host functions of the CUDA headers agree? They run on the CPU; no GPU is needed.
#include <doctest/doctest.h>

#include "support/opinions.hpp"
#include "support/scale.hpp"

#ifdef NARROW_TEST_CUDA_HEADERS
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

using narrow::Cast;
using narrow::Overflow;
using narrow::Rounding;

namespace {

std::uint64_t volume() { return test::scaled(1 << 17); }
std::uint16_t code(__half h) { return std::bit_cast<__half_raw>(h).x; }
std::uint16_t code(__nv_bfloat16 h) { return std::bit_cast<__nv_bfloat16_raw>(h).x; }

template <class T, class Theirs>
void compare(const std::string& what, const char* format, const Cast& cast, const Theirs& theirs) {
  test::heard("CUDA headers " + what, test::compare_opinion<T>(format, cast, volume(), theirs));
}

constexpr Cast saturate{.overflow = Overflow::saturate};

}  // namespace

TEST_CASE("round: the CUDA headers agree on fp16") {
  compare<float>("float to fp16 rn", "fp16", {}, [](float x) { return code(__float2half_rn(x)); });
  compare<float>("float to fp16 rz", "fp16", {.rounding = Rounding::toward_zero},
                 [](float x) { return code(__float2half_rz(x)); });
  compare<float>("float to fp16 ru", "fp16", {.rounding = Rounding::up},
                 [](float x) { return code(__float2half_ru(x)); });
  compare<float>("float to fp16 rd", "fp16", {.rounding = Rounding::down},
                 [](float x) { return code(__float2half_rd(x)); });
  compare<double>("double to fp16 rn", "fp16", {}, [](double x) { return code(__double2half(x)); });
}

TEST_CASE("round: the CUDA headers agree on bf16") {
  compare<float>("float to bf16 rn", "bf16", {}, [](float x) { return code(__float2bfloat16_rn(x)); });
  compare<float>("float to bf16 rz", "bf16", {.rounding = Rounding::toward_zero},
                 [](float x) { return code(__float2bfloat16_rz(x)); });
  compare<float>("float to bf16 ru", "bf16", {.rounding = Rounding::up},
                 [](float x) { return code(__float2bfloat16_ru(x)); });
  compare<float>("float to bf16 rd", "bf16", {.rounding = Rounding::down},
                 [](float x) { return code(__float2bfloat16_rd(x)); });
  compare<double>("double to bf16 rn", "bf16", {}, [](double x) { return code(__double2bfloat16(x)); });
}

template <class T, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind>
auto to_fp8(T x) {
  if constexpr (sizeof(T) == 4) return __nv_cvt_float_to_fp8(x, saturation, kind);
  else return __nv_cvt_double_to_fp8(x, saturation, kind);
}

TEST_CASE("round: the CUDA headers agree on fp8") {
  compare<float>("float to e4m3 satfinite", "e4m3", saturate, to_fp8<float, __NV_SATFINITE, __NV_E4M3>);
  compare<float>("float to e5m2 satfinite", "e5m2", saturate, to_fp8<float, __NV_SATFINITE, __NV_E5M2>);
  compare<float>("float to e4m3 nosat", "e4m3", {}, to_fp8<float, __NV_NOSAT, __NV_E4M3>);
  compare<float>("float to e5m2 nosat", "e5m2", {}, to_fp8<float, __NV_NOSAT, __NV_E5M2>);
  // From double the header keeps sign and payload of a NaN, from float it does not.
  Cast saturate_double = saturate, nosat_double;
  saturate_double.double_keeps_nan = nosat_double.double_keeps_nan = true;
  compare<double>("double to e4m3 satfinite", "e4m3", saturate_double, to_fp8<double, __NV_SATFINITE, __NV_E4M3>);
  compare<double>("double to e5m2 satfinite", "e5m2", saturate_double, to_fp8<double, __NV_SATFINITE, __NV_E5M2>);
  compare<double>("double to e4m3 nosat", "e4m3", nosat_double, to_fp8<double, __NV_NOSAT, __NV_E4M3>);
  compare<double>("double to e5m2 nosat", "e5m2", nosat_double, to_fp8<double, __NV_NOSAT, __NV_E5M2>);
}

TEST_CASE("round: the CUDA headers agree on fp6 and fp4") {
  compare<float>("float to e2m3", "e2m3", saturate,
                 [](float x) { return __nv_cvt_float_to_fp6(x, __NV_E2M3, cudaRoundNearest); });
  compare<float>("float to e3m2", "e3m2", saturate,
                 [](float x) { return __nv_cvt_float_to_fp6(x, __NV_E3M2, cudaRoundNearest); });
  compare<float>("float to e2m1", "e2m1", saturate,
                 [](float x) { return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest); });
  compare<double>("double to e2m3", "e2m3", saturate,
                  [](double x) { return __nv_cvt_double_to_fp6(x, __NV_E2M3, cudaRoundNearest); });
  compare<double>("double to e3m2", "e3m2", saturate,
                  [](double x) { return __nv_cvt_double_to_fp6(x, __NV_E3M2, cudaRoundNearest); });
  compare<double>("double to e2m1", "e2m1", saturate,
                  [](double x) { return __nv_cvt_double_to_fp4(x, __NV_E2M1, cudaRoundNearest); });
}

TEST_CASE("round: the CUDA headers agree on the e8m0 scales of positive numbers") {
  // What a scale does with a sign is each system's own choice; magnitudes are not.
  Cast cast = saturate;
  cast.rounding = Rounding::toward_zero;
  compare<float>("float to e8m0 rz", "e8m0", cast,
                 [](float x) { return x < 0 ? 0xFF : __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundZero); });
  cast.rounding = Rounding::up;
  compare<float>("float to e8m0 rp", "e8m0", cast,
                 [](float x) { return x < 0 ? 0xFF : __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf); });
}

#else

TEST_CASE("round: the CUDA headers are not here") {
  test::not_heard("CUDA headers", "not found when this was configured");
}

#endif
