// Section 5: the special-function unit and the functions of CUDA's library that are built on it, against the emulator,
// over every float.
#include "narrow/cuda/compare.cuh"
#include "narrow/special/coefficients.hpp"
#include "narrow/special/cuda_math.hpp"

namespace narrow {

namespace {

using namespace detail;

struct DeviceFma {
  NARROW_ON_BOTH float operator()(float a, float b, float c) const { return fmaf(a, b, c); }  // rounded once
};

#define NARROW_UNIT(NAME, TEXT, EMULATED)                                              \
  struct NAME {                                                                        \
    __device__ static float of(float x) {                                              \
      float y;                                                                         \
      asm(TEXT " %0, %1;" : "=f"(y) : "f"(x));                                         \
      return y;                                                                        \
    }                                                                                  \
    __device__ static float emulated(float x, const SfuTables& t) { return EMULATED; } \
  };
#define NARROW_LIBRARY(NAME, FUNCTION, EMULATED)                                       \
  struct NAME {                                                                        \
    __device__ static float of(float x) { return FUNCTION(x); }                        \
    __device__ static float emulated(float x, const SfuTables& t) { return EMULATED; } \
  };

NARROW_UNIT(Ex2, "ex2.approx.f32", sfu_ex2(x, false, t))
NARROW_UNIT(Ex2Ftz, "ex2.approx.ftz.f32", sfu_ex2(x, true, t))
NARROW_UNIT(Lg2, "lg2.approx.f32", sfu_lg2(x, false, t))
NARROW_UNIT(Lg2Ftz, "lg2.approx.ftz.f32", sfu_lg2(x, true, t))
NARROW_UNIT(Rcp, "rcp.approx.f32", sfu_rcp(x, false, t))
NARROW_UNIT(RcpFtz, "rcp.approx.ftz.f32", sfu_rcp(x, true, t))
NARROW_UNIT(Rsqrt, "rsqrt.approx.f32", sfu_rsqrt(x, false, t))
NARROW_UNIT(RsqrtFtz, "rsqrt.approx.ftz.f32", sfu_rsqrt(x, true, t))
NARROW_UNIT(Sqrt, "sqrt.approx.f32", sfu_sqrt(x, false, t))
NARROW_UNIT(SqrtFtz, "sqrt.approx.ftz.f32", sfu_sqrt(x, true, t))
NARROW_UNIT(Sin, "sin.approx.f32", sfu_sin(x, t))
NARROW_UNIT(Cos, "cos.approx.f32", sfu_cos(x, t))
NARROW_UNIT(Tanh, "tanh.approx.f32", sfu_tanh(x, t))
NARROW_LIBRARY(Expf, expf, cuda_expf(x, t, DeviceFma{}))
NARROW_LIBRARY(Logf, logf, cuda_logf(x, DeviceFma{}))
NARROW_LIBRARY(Tanhf, tanhf, cuda_tanhf(x, t, DeviceFma{}))
NARROW_LIBRARY(Erff, erff, cuda_erff(x, t, DeviceFma{}))

template <class Function>
struct OnEveryFloat {
  SfuTables tables;
  __device__ unsigned long long native(unsigned long long i) const {
    return __float_as_uint(Function::of(__uint_as_float(static_cast<unsigned>(i))));
  }
  __device__ unsigned long long emulated(unsigned long long i) const {
    return __float_as_uint(Function::emulated(__uint_as_float(static_cast<unsigned>(i)), tables));
  }
};

// The coefficients in memory of the device.
class DeviceTables {
 public:
  SfuTables tables() const {
    return {ex2_.get(), lg2_.get(), rcp_.get(), rsqrt_.get(), sqrt_.get(), sin_.get(), tanh_.get()};
  }

 private:
  template <std::size_t N>
  static DeviceArray<Coefficients> copy(const Coefficients (&rows)[N]) {
    DeviceArray<Coefficients> device(N);
    device.upload(rows, N);
    return device;
  }
  DeviceArray<Coefficients> ex2_ = copy(ex2_rows), lg2_ = copy(lg2_rows), rcp_ = copy(rcp_rows),
                            rsqrt_ = copy(rsqrt_rows), sqrt_ = copy(sqrt_rows), sin_ = copy(sin_rows),
                            tanh_ = copy(tanh_rows);
};

}  // namespace

void check_special(const GpuCheckOptions& options, const GpuReport& report) {
  const DeviceTables device;
  const auto count = static_cast<std::uint64_t>(4294967296.0 * (options.scale < 1 ? options.scale : 1));
  const auto all_floats = [&]<class Function>(const char* name) {
    if (!is_wanted(options, name)) return;
    report(compare(name, "inputs", OnEveryFloat<Function>{device.tables()}, count,
                   [](unsigned long long i) { return "float " + hex_text(i); }));
  };
  all_floats.template operator()<Ex2>("ex2.approx");
  all_floats.template operator()<Ex2Ftz>("ex2.approx.ftz");
  all_floats.template operator()<Lg2>("lg2.approx");
  all_floats.template operator()<Lg2Ftz>("lg2.approx.ftz");
  all_floats.template operator()<Rcp>("rcp.approx");
  all_floats.template operator()<RcpFtz>("rcp.approx.ftz");
  all_floats.template operator()<Rsqrt>("rsqrt.approx");
  all_floats.template operator()<RsqrtFtz>("rsqrt.approx.ftz");
  all_floats.template operator()<Sqrt>("sqrt.approx");
  all_floats.template operator()<SqrtFtz>("sqrt.approx.ftz");
  all_floats.template operator()<Sin>("sin.approx");
  all_floats.template operator()<Cos>("cos.approx");
  all_floats.template operator()<Tanh>("tanh.approx");
  all_floats.template operator()<Expf>("expf");
  all_floats.template operator()<Logf>("logf");
  all_floats.template operator()<Tanhf>("tanhf");
  all_floats.template operator()<Erff>("erff");
}

}  // namespace narrow
