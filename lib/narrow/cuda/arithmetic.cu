// Section 2: the GPU's arithmetic in fp16 and bf16 against the emulator's, over every pair of operands.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "narrow/arith/arith.hpp"
#include "narrow/cuda/compare.cuh"

namespace narrow {

namespace {

using detail::compare;

// One instruction each, as text: intrinsics may be built from others (bf16 add as an fma with 1).
#define NARROW_BINARY(NAME, SM, TEXT)                                   \
  struct NAME {                                                         \
    static constexpr int minimum_sm = SM;                               \
    __device__ static unsigned of(unsigned short a, unsigned short b) { \
      unsigned short d;                                                 \
      asm(TEXT " %0, %1, %2;" : "=h"(d) : "h"(a), "h"(b));              \
      return d;                                                         \
    }                                                                   \
  };
#define NARROW_TERNARY(NAME, TEXT)                                                        \
  struct NAME {                                                                           \
    __device__ static unsigned of(unsigned short a, unsigned short b, unsigned short c) { \
      unsigned short d;                                                                   \
      asm(TEXT " %0, %1, %2, %3;" : "=h"(d) : "h"(a), "h"(b), "h"(c));                    \
      return d;                                                                           \
    }                                                                                     \
  };

NARROW_BINARY(HalfAdd, 80, "add.rn.f16")
NARROW_BINARY(HalfSub, 80, "sub.rn.f16")
NARROW_BINARY(HalfMul, 80, "mul.rn.f16")
NARROW_BINARY(Bf16Add, 90, "add.rn.bf16")
NARROW_BINARY(Bf16Mul, 90, "mul.rn.bf16")
NARROW_TERNARY(HalfFma, "fma.rn.f16")
NARROW_TERNARY(Bf16Fma, "fma.rn.bf16")

struct HalfDiv {
  __device__ static unsigned of(unsigned short a, unsigned short b) {
    return __half_as_ushort(__hdiv(__ushort_as_half(a), __ushort_as_half(b)));
  }
};

struct EmulatedAdd {
  __device__ static Code of(Code a, Code b, const Format& f) { return add(a, b, f); }
};
struct EmulatedSub {
  __device__ static Code of(Code a, Code b, const Format& f) { return sub(a, b, f); }
};
struct EmulatedMul {
  __device__ static Code of(Code a, Code b, const Format& f) { return mul(a, b, f); }
};
struct EmulatedDiv {
  __device__ static Code of(Code a, Code b, const Format& f) { return div(a, b, f); }
};

template <class Native, class Emulated>
struct Pairs {
  static constexpr int minimum_sm = detail::sm_of<Native>;
  Format format;

  __device__ unsigned long long native(unsigned long long i) const {
    return Native::of(static_cast<unsigned short>(i >> 16), static_cast<unsigned short>(i));
  }
  __device__ unsigned long long emulated(unsigned long long i) const {
    return Emulated::of(i >> 16 & 0xFFFF, i & 0xFFFF, format);
  }
};

// Three codes of an index, in four kinds: any bits; exponents close to one; few bits in the mantissas, for ties; and an
// addend within two units of minus the product, so that what is left is what a second rounding would lose.
struct Triple {
  Code a, b, c;
};
__host__ __device__ inline Triple triple_of(std::uint64_t seed, std::uint64_t i, const Format& f) {
  const std::uint64_t r = random_bits(seed, i);
  Triple t{r & 0xFFFF, r >> 16 & 0xFFFF, r >> 32 & 0xFFFF};
  const int kind = static_cast<int>(r >> 48 & 3);
  if (kind >= 1) {
    const Code mantissa = f.sign_mask() | f.mantissa_mask();
    const auto field = [&](int shift) {
      return static_cast<Code>(f.bias - 4 + static_cast<int>(r >> shift & 7)) << f.mantissa_bits;
    };
    t.a = (t.a & mantissa) | field(50);
    t.b = (t.b & mantissa) | field(53);
    t.c = (t.c & mantissa) | field(56);
  }
  if (kind == 2) {
    const Code few = f.mantissa_mask() & (t.c << 3 | 1);
    t.a &= ~f.mantissa_mask() | (few ^ t.b);
    t.b &= ~f.mantissa_mask() | few;
  }
  if (kind == 3) t.c = ((mul(t.a, t.b, f) ^ f.sign_mask()) + (r >> 59) % 5 - 2) & 0xFFFF;
  return t;
}

template <class Native>
struct Triples {
  Format format;
  std::uint64_t seed;

  __device__ unsigned long long native(unsigned long long i) const {
    const Triple t = triple_of(seed, i, format);
    return Native::of(static_cast<unsigned short>(t.a), static_cast<unsigned short>(t.b),
                      static_cast<unsigned short>(t.c));
  }
  __device__ unsigned long long emulated(unsigned long long i) const {
    const Triple t = triple_of(seed, i, format);
    return fma(t.a, t.b, t.c, format);
  }
};

struct HalfSqrt {
  __device__ unsigned long long native(unsigned long long i) const {
    return __half_as_ushort(hsqrt(__ushort_as_half(static_cast<unsigned short>(i))));
  }
  __device__ unsigned long long emulated(unsigned long long i) const { return sqrt(i, ieee(5, 10)); }
};

std::string two_codes(std::uint64_t i) { return detail::hex_text(i >> 16) + ", " + detail::hex_text(i & 0xFFFF); }

}  // namespace

void check_arithmetic(const GpuCheckOptions& options, const GpuReport& report) {
  const auto scaled = [&](std::uint64_t count) {
    return options.scale >= 1 ? count : static_cast<std::uint64_t>(static_cast<double>(count) * options.scale);
  };
  const Format half = ieee(5, 10), bf16 = ieee(8, 7);
  const auto pairs = [&](const std::string& name, const auto& operation) {
    if (is_wanted(options, name, detail::sm_of<std::decay_t<decltype(operation)>>))
      report(compare(name, "pairs", operation, scaled(1ull << 32), two_codes));
  };
  const auto triples = [&](const std::string& name, const auto& operation) {
    if (is_wanted(options, name))
      report(compare(name, "triples", operation, scaled(1ull << 34), [&](std::uint64_t i) {
        const Triple t = triple_of(operation.seed, i, operation.format);
        return detail::hex_text(t.a) + ", " + detail::hex_text(t.b) + ", " + detail::hex_text(t.c);
      }));
  };
  pairs("arith add.rn.f16", Pairs<HalfAdd, EmulatedAdd>{half});
  pairs("arith sub.rn.f16", Pairs<HalfSub, EmulatedSub>{half});
  pairs("arith mul.rn.f16", Pairs<HalfMul, EmulatedMul>{half});
  pairs("arith add.rn.bf16", Pairs<Bf16Add, EmulatedAdd>{bf16});
  pairs("arith mul.rn.bf16", Pairs<Bf16Mul, EmulatedMul>{bf16});
  pairs("arith __hdiv f16", Pairs<HalfDiv, EmulatedDiv>{half});
  triples("arith fma.rn.f16", Triples<HalfFma>{half, options.seed});
  triples("arith fma.rn.bf16", Triples<Bf16Fma>{bf16, options.seed});
  if (is_wanted(options, "arith hsqrt f16"))
    report(
        compare("arith hsqrt f16", "inputs", HalfSqrt{}, 65536, [](std::uint64_t i) { return detail::hex_text(i); }));
}

}  // namespace narrow
