// Question: which code does CUDA (PTX cvt on sm_90, or the toolkit header) give for every float32,
// and for sampled float64? Build: nvcc -O3 -arch=sm_90a -o record_cuda record_cuda.cu; run: record_cuda edge_inputs.txt
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

using u16 = unsigned short;
using u32 = uint32_t;
using u64 = unsigned long long;

__host__ __device__ inline u64 mix(u64 z) {
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
__host__ __device__ inline u64 random_bits(u64 seed, u64 i) { return mix(seed + i * 0x9E3779B97F4A7C15ull); }

// ---- inputs -----------------------------------------------------------------------------------
// Exact widening on bit patterns; NaN payloads are moved, never quieted.
__device__ inline u64 widen(u32 p) {
  if (((p >> 23) & 255) == 255) return (u64)(p >> 31) << 63 | 0x7FF0000000000000ull | (u64)(p & 0x7FFFFF) << 29;
  return __double_as_longlong((double)__uint_as_float(p));
}
// which = 1: the sample "f64-sample"; which = 2: "f64-mid" (midpoints at bit j = 10..22 of the mantissa).
__device__ inline u64 sample(int which, u64 i) {
  u64 r = random_bits(which, i);
  u32 p = (u32)r;
  if (which == 1) {
    if (i & 1) p = (p & 0xFFFFE000u) | 0x1000u;
  } else {
    u32 j = 10 + (u32)((r >> 32) % 13);
    p = ((p >> (j + 1)) << (j + 1)) | (1u << j);
  }
  u64 d = widen(p);
  if (((p >> 23) & 255) != 255 && (p & 0x7FFFFFFF) != 0) d += (u64)((long long)((r >> 40) % 5) - 2);
  return d;
}
// Round to odd: rounding the result again to any narrow format rounds the double once.
__device__ inline float to_float_odd(double d) {
  float z = __double2float_rz(d);
  return (double)z == d ? z : __uint_as_float(__float_as_uint(z) | 1u);
}

// ---- conversions ------------------------------------------------------------------------------
#define PTX16(name, instr) \
  struct name { static __device__ u32 f(float x) { u16 h; asm(instr " %0, %1;" : "=h"(h) : "f"(x)); return h; } };
#define PTX32(name, instr) \
  struct name { static __device__ u32 f(float x) { u32 w; asm(instr " %0, %1;" : "=r"(w) : "f"(x)); return w; } };
#define PTXX2(name, instr) \
  struct name { static __device__ u32 f(float x) { u16 h; asm(instr " %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(x)); return h & 255u; } };
#define FUNC(name, type, expr) struct name { static __device__ u32 f(type x) { return (u32)(expr); } };

PTX16(h_rn, "cvt.rn.f16.f32") PTX16(h_rz, "cvt.rz.f16.f32") PTX16(h_sat, "cvt.rn.satfinite.f16.f32")
PTX16(b_rn, "cvt.rn.bf16.f32") PTX16(b_rz, "cvt.rz.bf16.f32") PTX16(b_sat, "cvt.rn.satfinite.bf16.f32")
FUNC(h_ru, float, __half_as_ushort(__float2half_ru(x)))
FUNC(h_rd, float, __half_as_ushort(__float2half_rd(x)))
FUNC(b_ru, float, __bfloat16_as_ushort(__float2bfloat16_ru(x)))
FUNC(b_rd, float, __bfloat16_as_ushort(__float2bfloat16_rd(x)))
PTX32(w_rna, "cvt.rna.tf32.f32") PTX32(w_rn, "cvt.rn.tf32.f32") PTX32(w_rz, "cvt.rz.tf32.f32")
// The tf32 code is the word >> 13; tlow_* reports the bits below it, which should be 0.
FUNC(t_rna, float, w_rna::f(x) >> 13) FUNC(t_rn, float, w_rn::f(x) >> 13) FUNC(t_rz, float, w_rz::f(x) >> 13)
FUNC(tlow_rna, float, w_rna::f(x) & 0x1FFF) FUNC(tlow_rn, float, w_rn::f(x) & 0x1FFF) FUNC(tlow_rz, float, w_rz::f(x) & 0x1FFF)
PTXX2(e4_sat, "cvt.rn.satfinite.e4m3x2.f32") PTXX2(e5_sat, "cvt.rn.satfinite.e5m2x2.f32")
FUNC(e4_no, float, __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E4M3))
FUNC(e5_no, float, __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E5M2))
FUNC(e23, float, __nv_cvt_float_to_fp6(x, __NV_E2M3, cudaRoundNearest))
FUNC(e32, float, __nv_cvt_float_to_fp6(x, __NV_E3M2, cudaRoundNearest))
FUNC(e21, float, __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest))
FUNC(e8_sz, float, __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundZero))
FUNC(e8_sp, float, __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf))
FUNC(e8_nz, float, __nv_cvt_float_to_e8m0(x, __NV_NOSAT, cudaRoundZero))
FUNC(e8_np, float, __nv_cvt_float_to_e8m0(x, __NV_NOSAT, cudaRoundPosInf))
#define INT8(name, mode) \
  struct name { static __device__ u32 f(float x) { u32 w; asm("cvt." mode ".sat.s8.f32 %0, %1;" : "=r"(w) : "f"(x)); return w & 255u; } };
INT8(i_rn, "rni") INT8(i_rz, "rzi") INT8(i_rm, "rmi") INT8(i_rp, "rpi")

FUNC(d_h, double, __half_as_ushort(__double2half(x)))
FUNC(d_b, double, __bfloat16_as_ushort(__double2bfloat16(x)))
FUNC(d_e4s, double, __nv_cvt_double_to_fp8(x, __NV_SATFINITE, __NV_E4M3))
FUNC(d_e5s, double, __nv_cvt_double_to_fp8(x, __NV_SATFINITE, __NV_E5M2))
FUNC(d_e4n, double, __nv_cvt_double_to_fp8(x, __NV_NOSAT, __NV_E4M3))
FUNC(d_e5n, double, __nv_cvt_double_to_fp8(x, __NV_NOSAT, __NV_E5M2))
FUNC(d_23, double, __nv_cvt_double_to_fp6(x, __NV_E2M3, cudaRoundNearest))
FUNC(d_32, double, __nv_cvt_double_to_fp6(x, __NV_E3M2, cudaRoundNearest))
FUNC(d_21, double, __nv_cvt_double_to_fp4(x, __NV_E2M1, cudaRoundNearest))
FUNC(d_8sz, double, __nv_cvt_double_to_e8m0(x, __NV_SATFINITE, cudaRoundZero))
FUNC(d_8sp, double, __nv_cvt_double_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf))
FUNC(d_8nz, double, __nv_cvt_double_to_e8m0(x, __NV_NOSAT, cudaRoundZero))
FUNC(d_8np, double, __nv_cvt_double_to_e8m0(x, __NV_NOSAT, cudaRoundPosInf))

// ---- kernels ----------------------------------------------------------------------------------
struct Totals { u64 hash, once, via, low; };

__device__ inline void add_up(u64 *to, u64 v) {
  for (int s = 16; s; s >>= 1) v += __shfl_down_sync(~0u, v, s);
  if ((threadIdx.x & 31) == 0) atomicAdd(to, v);
}
template <class F> __global__ void all_f32(Totals *t, bool low) {
  u64 h = 0, n = 0;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < (1ull << 32); i += (u64)gridDim.x * blockDim.x) {
    u32 c = F::f(__uint_as_float((u32)i));
    if (low) n += c != 0; else h += mix((u64)c << 32 | i);
  }
  add_up(&t->hash, h);
  add_up(&t->low, n);
}
// D converts the double; S is the same system's conversion from float, to test how often it rounds.
template <class D, class S> __global__ void sample_f64(Totals *t, int which) {
  u64 h = 0, once = 0, via = 0;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < (1ull << 22); i += (u64)gridDim.x * blockDim.x) {
    double d = __longlong_as_double(sample(which, i));
    u32 c = D::f(d);
    h += mix((u64)c << 32 | i);
    if (d - d == 0) {
      once += c != S::f(to_float_odd(d));
      via += c != S::f(__double2float_rn(d));
    }
  }
  add_up(&t->hash, h);
  add_up(&t->once, once);
  add_up(&t->via, via);
}
template <class F> __global__ void edges_f32(const u32 *in, u32 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = F::f(__uint_as_float(in[i]));
}
template <class D> __global__ void edges_f64(const u32 *in, u32 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = D::f(__longlong_as_double(widen(in[i])));
}

// ---- driver -----------------------------------------------------------------------------------
static std::vector<u32> patterns;
static u32 *dev_in, *dev_out;
static Totals *dev_totals;

static void check(const char *what) {
  cudaError_t e = cudaDeviceSynchronize();
  if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e)); exit(1); }
}
static Totals totals(const char *what) {
  check(what);
  Totals t;
  cudaMemcpy(&t, dev_totals, sizeof t, cudaMemcpyDeviceToHost);
  cudaMemset(dev_totals, 0, sizeof t);
  return t;
}
// Lines: S system format rounding source hash note;  E system format rounding source codes...
static void print_edges(const char *id, const char *source) {
  check(id);
  std::vector<u32> out(patterns.size());
  cudaMemcpy(out.data(), dev_out, out.size() * 4, cudaMemcpyDeviceToHost);
  printf("E\t%s\t%s", id, source);
  for (u32 c : out) printf("\t%X", c);
  printf("\n");
}
template <class F> void f32(const char *id, const char *note) {
  all_f32<F><<<2112, 256>>>(dev_totals, false);
  printf("S\t%s\tf32\t%016llX\t%s\n", id, totals(id).hash, note);
  edges_f32<F><<<1, 1024>>>(dev_in, dev_out, (int)patterns.size());
  print_edges(id, "f32");
}
template <class F> void low_bits(const char *what) {
  all_f32<F><<<2112, 256>>>(dev_totals, true);
  printf("# %s: low 13 bits non-zero for %llu inputs\n", what, totals(what).low);
}
template <class D, class S> void f64(const char *id, const char *note) {
  for (int which = 1; which <= 2; ++which) {
    sample_f64<D, S><<<1024, 256>>>(dev_totals, which);
    Totals t = totals(id);
    printf("S\t%s\t%s\t%016llX\t%s; differ from rounding once %llu, via f32 %llu\n", id,
           which == 1 ? "f64-sample" : "f64-mid", t.hash, note, t.once, t.via);
  }
  edges_f64<D><<<1, 1024>>>(dev_in, dev_out, (int)patterns.size());
  print_edges(id, "f64");
}

int main(int argc, char **argv) {
  if (argc < 2) { fprintf(stderr, "usage: record_cuda edge_inputs.txt\n"); return 1; }
  FILE *file = fopen(argv[1], "r");
  if (!file) { perror(argv[1]); return 1; }
  char line[256];
  while (fgets(line, sizeof line, file))
    if (line[0] != '#') patterns.push_back((u32)strtoul(line, nullptr, 16));
  fclose(file);
  cudaMalloc(&dev_in, patterns.size() * 4);
  cudaMalloc(&dev_out, patterns.size() * 4);
  cudaMalloc(&dev_totals, sizeof(Totals));
  cudaMemset(dev_totals, 0, sizeof(Totals));
  cudaMemcpy(dev_in, patterns.data(), patterns.size() * 4, cudaMemcpyHostToDevice);

  f32<h_rn>("cuda\tfp16\tnearest_even", "cvt.rn.f16.f32");
  f32<h_rz>("cuda\tfp16\ttoward_zero", "cvt.rz.f16.f32");
  f32<h_ru>("cuda\tfp16\tup", "__float2half_ru");
  f32<h_rd>("cuda\tfp16\tdown", "__float2half_rd");
  f32<h_sat>("cuda-sat\tfp16\tnearest_even", "cvt.rn.satfinite.f16.f32");
  f32<b_rn>("cuda\tbf16\tnearest_even", "cvt.rn.bf16.f32");
  f32<b_rz>("cuda\tbf16\ttoward_zero", "cvt.rz.bf16.f32");
  f32<b_ru>("cuda\tbf16\tup", "__float2bfloat16_ru");
  f32<b_rd>("cuda\tbf16\tdown", "__float2bfloat16_rd");
  f32<b_sat>("cuda-sat\tbf16\tnearest_even", "cvt.rn.satfinite.bf16.f32");
  f32<t_rna>("cuda\ttf32\tnearest_away", "cvt.rna.tf32.f32; code = word >> 13");
  f32<t_rn>("cuda\ttf32\tnearest_even", "cvt.rn.tf32.f32; code = word >> 13");
  f32<t_rz>("cuda\ttf32\ttoward_zero", "cvt.rz.tf32.f32; code = word >> 13");
  low_bits<tlow_rna>("cvt.rna.tf32.f32");
  low_bits<tlow_rn>("cvt.rn.tf32.f32");
  low_bits<tlow_rz>("cvt.rz.tf32.f32");
  f32<e4_sat>("cuda\te4m3\tnearest_even", "cvt.rn.satfinite.e4m3x2.f32");
  f32<e5_sat>("cuda\te5m2\tnearest_even", "cvt.rn.satfinite.e5m2x2.f32");
  f32<e4_no>("cuda-nosat\te4m3\tnearest_even", "__nv_cvt_float_to_fp8 NOSAT");
  f32<e5_no>("cuda-nosat\te5m2\tnearest_even", "__nv_cvt_float_to_fp8 NOSAT");
  f32<e23>("cuda\te2m3\tnearest_even", "__nv_cvt_float_to_fp6");
  f32<e32>("cuda\te3m2\tnearest_even", "__nv_cvt_float_to_fp6");
  f32<e21>("cuda\te2m1\tnearest_even", "__nv_cvt_float_to_fp4");
  f32<e8_sz>("cuda\te8m0\ttoward_zero", "__nv_cvt_float_to_e8m0 SATFINITE");
  f32<e8_sp>("cuda\te8m0\tup", "__nv_cvt_float_to_e8m0 SATFINITE; the class's default");
  f32<e8_nz>("cuda-nosat\te8m0\ttoward_zero", "__nv_cvt_float_to_e8m0 NOSAT");
  f32<e8_np>("cuda-nosat\te8m0\tup", "__nv_cvt_float_to_e8m0 NOSAT");
  f32<i_rn>("cuda\tint8\tnearest_even", "cvt.rni.sat.s8.f32");
  f32<i_rz>("cuda\tint8\ttoward_zero", "cvt.rzi.sat.s8.f32");
  f32<i_rm>("cuda\tint8\tdown", "cvt.rmi.sat.s8.f32");
  f32<i_rp>("cuda\tint8\tup", "cvt.rpi.sat.s8.f32");

  f64<d_h, h_rn>("cuda\tfp16\tnearest_even", "__double2half");
  f64<d_b, b_rn>("cuda\tbf16\tnearest_even", "__double2bfloat16");
  f64<d_e4s, e4_sat>("cuda\te4m3\tnearest_even", "__nv_cvt_double_to_fp8 SATFINITE");
  f64<d_e5s, e5_sat>("cuda\te5m2\tnearest_even", "__nv_cvt_double_to_fp8 SATFINITE");
  f64<d_e4n, e4_no>("cuda-nosat\te4m3\tnearest_even", "__nv_cvt_double_to_fp8 NOSAT");
  f64<d_e5n, e5_no>("cuda-nosat\te5m2\tnearest_even", "__nv_cvt_double_to_fp8 NOSAT");
  f64<d_23, e23>("cuda\te2m3\tnearest_even", "__nv_cvt_double_to_fp6");
  f64<d_32, e32>("cuda\te3m2\tnearest_even", "__nv_cvt_double_to_fp6");
  f64<d_21, e21>("cuda\te2m1\tnearest_even", "__nv_cvt_double_to_fp4");
  f64<d_8sz, e8_sz>("cuda\te8m0\ttoward_zero", "__nv_cvt_double_to_e8m0 SATFINITE");
  f64<d_8sp, e8_sp>("cuda\te8m0\tup", "__nv_cvt_double_to_e8m0 SATFINITE");
  f64<d_8nz, e8_nz>("cuda-nosat\te8m0\ttoward_zero", "__nv_cvt_double_to_e8m0 NOSAT");
  f64<d_8np, e8_np>("cuda-nosat\te8m0\tup", "__nv_cvt_double_to_e8m0 NOSAT");
  return 0;
}
