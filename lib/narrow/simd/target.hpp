// The instruction sets that the lane kernels are compiled for, and which of them runs. A target is a row of CMake's list
// (NarrowLanes.cmake) and one here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// X(name) for every target of this architecture, from the one that all its machines have to the best.
#if defined(__x86_64__)
#define NARROW_TARGETS(X) X(sse2) X(avx2) X(avx512)
#elif defined(__aarch64__)
#define NARROW_TARGETS(X) X(neon)
#elif defined(__wasm_simd128__)
#define NARROW_TARGETS(X) X(wasm128)
#else
#define NARROW_TARGETS(X) X(plain)
#endif

namespace narrow::simd {

// The place of a target in that list.
using Target = std::uint8_t;

std::string_view name_of(Target target);
std::vector<Target> targets_here();  // those that this CPU has, the best last
// The one of this name; the best where there is none (nullptr or ""). Throws Error where this machine has no such.
Target target_named(const char* name);

// What the kernels use: the one that NARROW_SIMD names in the environment.
Target current_target();
// From now on, for comparisons within one program; not while others compute.
void use_target(Target target);

}  // namespace narrow::simd
