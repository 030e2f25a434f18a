// The processor's own conversions, where it has them. Rounding follows the mode that fesetround set; the conversions
// are volatile assembly so that no compiler moves them across it or does them itself.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

namespace test::cpu {

#if defined(__aarch64__)

inline bool has_fp16() { return true; }  // FCVT between all three sizes is in the base architecture
inline bool has_double_to_fp16() { return true; }
inline bool has_bf16() { return (getauxval(AT_HWCAP2) & (1ul << 14)) != 0; }  // HWCAP2_BF16
inline bool has_to_odd() { return true; }

inline std::uint16_t to_fp16(float x) {
  float h;
  asm volatile("fcvt %h0, %s1" : "=w"(h) : "w"(x) : "memory");
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(h));
}
inline std::uint16_t to_fp16(double x) {
  float h;
  asm volatile("fcvt %h0, %d1" : "=w"(h) : "w"(x) : "memory");
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(h));
}
inline std::uint32_t to_fp32(double x) {
  float s;
  asm volatile("fcvt %s0, %d1" : "=w"(s) : "w"(x) : "memory");
  return std::bit_cast<std::uint32_t>(s);
}
inline std::uint32_t to_fp32_odd(double x) {
  float s;
  asm volatile("fcvtxn %s0, %d1" : "=w"(s) : "w"(x) : "memory");
  return std::bit_cast<std::uint32_t>(s);
}
inline std::uint16_t to_bf16(float x) {
  float h;
  asm volatile(".arch_extension bf16\n\tbfcvt %h0, %s1" : "=w"(h) : "w"(x) : "memory");
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(h));
}

#elif defined(__x86_64__)

inline bool has_fp16() { return __builtin_cpu_supports("f16c") != 0; }
inline bool has_double_to_fp16() { return false; }
inline bool has_bf16() { return false; }  // AVX512-BF16 flushes subnormals: another function
inline bool has_to_odd() { return false; }

__attribute__((target("f16c"))) inline std::uint16_t to_fp16(float x) {
  __m128i h;
  // Immediate 4: the mode of MXCSR, which fesetround sets.
  asm volatile("vcvtps2ph $4, %1, %0" : "=x"(h) : "x"(_mm_set_ss(x)) : "memory");
  return static_cast<std::uint16_t>(_mm_cvtsi128_si32(h));
}
inline std::uint16_t to_fp16(double) { return 0; }
inline std::uint32_t to_fp32(double x) {
  float s;
  asm volatile("cvtsd2ss %1, %0" : "=x"(s) : "x"(x) : "memory");
  return std::bit_cast<std::uint32_t>(s);
}
inline std::uint32_t to_fp32_odd(double) { return 0; }
inline std::uint16_t to_bf16(float) { return 0; }

#else

inline bool has_fp16() { return false; }
inline bool has_double_to_fp16() { return false; }
inline bool has_bf16() { return false; }
inline bool has_to_odd() { return false; }
inline std::uint16_t to_fp16(float) { return 0; }
inline std::uint16_t to_fp16(double) { return 0; }
inline std::uint32_t to_fp32(double x) {
  const volatile float s = static_cast<float>(x);
  return std::bit_cast<std::uint32_t>(static_cast<float>(s));
}
inline std::uint32_t to_fp32_odd(double) { return 0; }
inline std::uint16_t to_bf16(float) { return 0; }

#endif

}  // namespace test::cpu
