// Section 1: the conversions of the GPU (cvt) and of the toolkit's functions against encode, over every input.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

#include "narrow/cuda/compare.cuh"
#include "narrow/round/convert.hpp"
#include "narrow/round/named_cast.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow {

namespace {

using detail::compare;

__device__ inline float float_of(unsigned long long bits) { return __uint_as_float(static_cast<unsigned>(bits)); }

// One instruction with a 16-bit result, a 32-bit result, or two packed bytes of which the lower one is asked for.
#define NARROW_CVT16(NAME, TEXT)               \
  struct NAME {                                \
    __device__ static unsigned of(float x) {   \
      unsigned short h;                        \
      asm(TEXT " %0, %1;" : "=h"(h) : "f"(x)); \
      return h;                                \
    }                                          \
  };
#define NARROW_CVT32(NAME, SM, TEXT)           \
  struct NAME {                                \
    static constexpr int minimum_sm = SM;      \
    __device__ static unsigned of(float x) {   \
      unsigned w;                              \
      asm(TEXT " %0, %1;" : "=r"(w) : "f"(x)); \
      return w >> 13;                          \
    }                                          \
  };
#define NARROW_CVT8(NAME, TEXT)                               \
  struct NAME {                                               \
    static constexpr int minimum_sm = 89;                     \
    __device__ static unsigned of(float x) {                  \
      unsigned short h;                                       \
      asm(TEXT " %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(x)); \
      return h & 255u;                                        \
    }                                                         \
  };
#define NARROW_CVT_INT8(NAME, TEXT)            \
  struct NAME {                                \
    __device__ static unsigned of(float x) {   \
      unsigned w;                              \
      asm(TEXT " %0, %1;" : "=r"(w) : "f"(x)); \
      return w & 255u;                         \
    }                                          \
  };
#define NARROW_FUNCTION(NAME, EXPRESSION)                                                \
  struct NAME {                                                                          \
    __device__ static unsigned of(float x) { return static_cast<unsigned>(EXPRESSION); } \
  };

NARROW_CVT16(HalfRn, "cvt.rn.f16.f32")
NARROW_CVT16(HalfRz, "cvt.rz.f16.f32")
NARROW_CVT16(HalfSat, "cvt.rn.satfinite.f16.f32")
NARROW_FUNCTION(HalfRu, __half_as_ushort(__float2half_ru(x)))
NARROW_FUNCTION(HalfRd, __half_as_ushort(__float2half_rd(x)))
NARROW_CVT16(Bf16Rn, "cvt.rn.bf16.f32")
NARROW_CVT16(Bf16Rz, "cvt.rz.bf16.f32")
NARROW_CVT16(Bf16Sat, "cvt.rn.satfinite.bf16.f32")
NARROW_FUNCTION(Bf16Ru, __bfloat16_as_ushort(__float2bfloat16_ru(x)))
NARROW_FUNCTION(Bf16Rd, __bfloat16_as_ushort(__float2bfloat16_rd(x)))
NARROW_CVT32(Tf32Rna, 80, "cvt.rna.tf32.f32")
NARROW_CVT32(Tf32Rn, 90, "cvt.rn.tf32.f32")
NARROW_CVT32(Tf32Rz, 90, "cvt.rz.tf32.f32")
NARROW_CVT8(E4m3Sat, "cvt.rn.satfinite.e4m3x2.f32")
NARROW_CVT8(E5m2Sat, "cvt.rn.satfinite.e5m2x2.f32")
NARROW_CVT8(E4m3Relu, "cvt.rn.satfinite.relu.e4m3x2.f32")
NARROW_CVT8(E5m2Relu, "cvt.rn.satfinite.relu.e5m2x2.f32")
NARROW_FUNCTION(E4m3NoSat, __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E4M3))
NARROW_FUNCTION(E5m2NoSat, __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E5M2))
NARROW_FUNCTION(E2m3, __nv_cvt_float_to_fp6(x, __NV_E2M3, cudaRoundNearest))
NARROW_FUNCTION(E3m2, __nv_cvt_float_to_fp6(x, __NV_E3M2, cudaRoundNearest))
NARROW_FUNCTION(E2m1, __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest))
NARROW_FUNCTION(E8m0Zero, __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundZero))
NARROW_FUNCTION(E8m0Up, __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf))
NARROW_FUNCTION(E8m0ZeroNoSat, __nv_cvt_float_to_e8m0(x, __NV_NOSAT, cudaRoundZero))
NARROW_FUNCTION(E8m0UpNoSat, __nv_cvt_float_to_e8m0(x, __NV_NOSAT, cudaRoundPosInf))
NARROW_CVT_INT8(Int8Rn, "cvt.rni.sat.s8.f32")
NARROW_CVT_INT8(Int8Rz, "cvt.rzi.sat.s8.f32")
NARROW_CVT_INT8(Int8Rd, "cvt.rmi.sat.s8.f32")
NARROW_CVT_INT8(Int8Ru, "cvt.rpi.sat.s8.f32")

// relu: what is negative becomes +0, and so does -0; NaN stays NaN.
template <class Native, bool Relu>
struct FloatToCode {
  static constexpr int minimum_sm = detail::sm_of<Native>;
  Format format;
  Cast cast;

  __device__ unsigned long long native(unsigned long long i) const { return Native::of(float_of(i)); }
  __device__ unsigned long long emulated(unsigned long long i) const {
    if (Relu && (i >> 31) != 0 && (i & 0x7FFFFFFF) <= 0x7F800000) return 0;
    return encode(float_of(i), format, cast);
  }
};

struct HalfToFp8 {
  Format format;
  Cast cast;
  __nv_fp8_interpretation_t kind;

  __device__ unsigned long long native(unsigned long long i) const {
    const auto saturation = cast.overflow == Overflow::saturate ? __NV_SATFINITE : __NV_NOSAT;
    return __nv_cvt_halfraw_to_fp8(static_cast<__half_raw>(__ushort_as_half(static_cast<unsigned short>(i))),
                                   saturation, kind);
  }
  __device__ unsigned long long emulated(unsigned long long i) const { return convert(i, ieee(5, 10), format, cast); }
};

struct Fp8ToHalf {
  Format format;
  __nv_fp8_interpretation_t kind;

  __device__ unsigned long long native(unsigned long long i) const {
    return __half_raw(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(i), kind)).x;
  }
  __device__ unsigned long long emulated(unsigned long long i) const { return convert(i, format, ieee(5, 10)); }
};

// The packed instruction reads the upper input into the upper byte and the lower into the lower.
template <bool E5m2>
struct PackedOrder {
  static constexpr int minimum_sm = 89;
  __device__ unsigned long long native(unsigned long long i) const {
    const float upper = __uint_as_float(static_cast<unsigned>(mix_bits(i))), lower = float_of(i);
    unsigned short h;
    if constexpr (E5m2) asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(h) : "f"(upper), "f"(lower));
    else asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(h) : "f"(upper), "f"(lower));
    return h;
  }
  __device__ unsigned long long emulated(unsigned long long i) const {
    constexpr Cast cast{.overflow = Overflow::saturate};
    const Format format = E5m2 ? ieee(5, 2) : finite(4, 3, Specials::nan_only);
    return encode(__uint_as_float(static_cast<unsigned>(mix_bits(i))), format, cast) << 8 |
           encode(float_of(i), format, cast);
  }
};

class Conversions {
 public:
  Conversions(const GpuCheckOptions& options, const GpuReport& report) : options_(options), report_(report) {}

  template <class Native, bool Relu = false>
  void all_floats(const char* native, const char* system, const char* format, Rounding rounding) {
    const std::string name = std::string("cvt ") + native;
    if (!is_wanted(options_, name, detail::sm_of<Native>)) return;
    const Format to = *find_format(format);
    report_(compare(name, "inputs", FloatToCode<Native, Relu>{to, named_cast(system, to, rounding)}, full(1ull << 32),
                    [](std::uint64_t i) { return "float " + detail::hex_text(i); }));
  }
  template <class Operation>
  void other(const std::string& name, const Operation& operation, std::uint64_t count, const char* operand) {
    if (!is_wanted(options_, name, detail::sm_of<Operation>)) return;
    report_(compare(name, "inputs", operation, count > 65536 ? full(count) : count,
                    [&](std::uint64_t i) { return operand + (" " + detail::hex_text(i)); }));
  }

 private:
  std::uint64_t full(std::uint64_t count) const {
    return options_.scale >= 1 ? count : static_cast<std::uint64_t>(static_cast<double>(count) * options_.scale);
  }

  const GpuCheckOptions& options_;
  const GpuReport& report_;
};

}  // namespace

void check_conversions(const GpuCheckOptions& options, const GpuReport& report) {
  Conversions c(options, report);
  using enum Rounding;
  c.all_floats<HalfRn>("cvt.rn.f16.f32", "cuda", "fp16", nearest_even);
  c.all_floats<HalfRz>("cvt.rz.f16.f32", "cuda", "fp16", toward_zero);
  c.all_floats<HalfRu>("__float2half_ru", "cuda", "fp16", up);
  c.all_floats<HalfRd>("__float2half_rd", "cuda", "fp16", down);
  c.all_floats<HalfSat>("cvt.rn.satfinite.f16.f32", "cuda-sat", "fp16", nearest_even);
  c.all_floats<Bf16Rn>("cvt.rn.bf16.f32", "cuda", "bf16", nearest_even);
  c.all_floats<Bf16Rz>("cvt.rz.bf16.f32", "cuda", "bf16", toward_zero);
  c.all_floats<Bf16Ru>("__float2bfloat16_ru", "cuda", "bf16", up);
  c.all_floats<Bf16Rd>("__float2bfloat16_rd", "cuda", "bf16", down);
  c.all_floats<Bf16Sat>("cvt.rn.satfinite.bf16.f32", "cuda-sat", "bf16", nearest_even);
  c.all_floats<Tf32Rna>("cvt.rna.tf32.f32", "cuda", "tf32", nearest_away);
  c.all_floats<Tf32Rn>("cvt.rn.tf32.f32", "cuda", "tf32", nearest_even);
  c.all_floats<Tf32Rz>("cvt.rz.tf32.f32", "cuda", "tf32", toward_zero);
  c.all_floats<E4m3Sat>("cvt.rn.satfinite.e4m3x2.f32", "cuda", "e4m3", nearest_even);
  c.all_floats<E5m2Sat>("cvt.rn.satfinite.e5m2x2.f32", "cuda", "e5m2", nearest_even);
  c.all_floats<E4m3Relu, true>("cvt.rn.satfinite.relu.e4m3x2.f32", "cuda", "e4m3", nearest_even);
  c.all_floats<E5m2Relu, true>("cvt.rn.satfinite.relu.e5m2x2.f32", "cuda", "e5m2", nearest_even);
  c.all_floats<E4m3NoSat>("__nv_cvt_float_to_fp8 NOSAT E4M3", "cuda-nosat", "e4m3", nearest_even);
  c.all_floats<E5m2NoSat>("__nv_cvt_float_to_fp8 NOSAT E5M2", "cuda-nosat", "e5m2", nearest_even);
  c.all_floats<E2m3>("__nv_cvt_float_to_fp6 E2M3", "cuda", "e2m3", nearest_even);
  c.all_floats<E3m2>("__nv_cvt_float_to_fp6 E3M2", "cuda", "e3m2", nearest_even);
  c.all_floats<E2m1>("__nv_cvt_float_to_fp4 E2M1", "cuda", "e2m1", nearest_even);
  c.all_floats<E8m0Zero>("__nv_cvt_float_to_e8m0 SATFINITE rz", "cuda", "e8m0", toward_zero);
  c.all_floats<E8m0Up>("__nv_cvt_float_to_e8m0 SATFINITE rp", "cuda", "e8m0", up);
  c.all_floats<E8m0ZeroNoSat>("__nv_cvt_float_to_e8m0 NOSAT rz", "cuda-nosat", "e8m0", toward_zero);
  c.all_floats<E8m0UpNoSat>("__nv_cvt_float_to_e8m0 NOSAT rp", "cuda-nosat", "e8m0", up);
  c.all_floats<Int8Rn>("cvt.rni.sat.s8.f32", "cuda", "int8", nearest_even);
  c.all_floats<Int8Rz>("cvt.rzi.sat.s8.f32", "cuda", "int8", toward_zero);
  c.all_floats<Int8Rd>("cvt.rmi.sat.s8.f32", "cuda", "int8", down);
  c.all_floats<Int8Ru>("cvt.rpi.sat.s8.f32", "cuda", "int8", up);
  c.other("cvt e4m3x2 both halves", PackedOrder<false>{}, 1ull << 32, "float");
  c.other("cvt e5m2x2 both halves", PackedOrder<true>{}, 1ull << 32, "float");
  const Format e4m3 = "e4m3"_fmt, e5m2 = "e5m2"_fmt;
  const Cast saturate{.overflow = Overflow::saturate};
  c.other("cvt f16 to e4m3 satfinite", HalfToFp8{e4m3, saturate, __NV_E4M3}, 65536, "fp16");
  c.other("cvt f16 to e5m2 satfinite", HalfToFp8{e5m2, saturate, __NV_E5M2}, 65536, "fp16");
  c.other("cvt f16 to e4m3 NOSAT", HalfToFp8{e4m3, {}, __NV_E4M3}, 65536, "fp16");
  c.other("cvt f16 to e5m2 NOSAT", HalfToFp8{e5m2, {}, __NV_E5M2}, 65536, "fp16");
  c.other("cvt e4m3 to f16", Fp8ToHalf{e4m3, __NV_E4M3}, 256, "e4m3");
  c.other("cvt e5m2 to f16", Fp8ToHalf{e5m2, __NV_E5M2}, 256, "e5m2");
}

bool is_wanted(const GpuCheckOptions& options, const std::string& name, int minimum_sm) {
  if (options.capability < minimum_sm) return false;
  if (options.only.empty()) return true;
  for (const std::string& word : options.only)
    if (name.find(word) != std::string::npos) return true;
  return false;
}

}  // namespace narrow
