#include "narrow/simd/target.hpp"

#include <atomic>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"

namespace narrow::simd {

namespace {

#define NARROW_NAME(name) #name,
constexpr std::string_view names[] = {NARROW_TARGETS(NARROW_NAME)};
#undef NARROW_NAME

bool is_here(std::string_view name) {
#if defined(__x86_64__)
  // All that CMake's flags let the compiler use in the files of a target.
  __builtin_cpu_init();
  if (name == "avx2") {
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;  // no compiler's function knows it
    return has_f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  }
  if (name == "avx512")
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && is_here("avx2");
#endif
  return name == names[0];
}

std::atomic<int> current{-1};

}  // namespace

std::string_view name_of(Target target) { return names[target]; }

std::vector<Target> targets_here() {
  std::vector<Target> here;
  for (Target t = 0; t < std::size(names); ++t)
    if (is_here(names[t])) here.push_back(t);
  return here;
}

Target target_named(const char* asked) {
  const std::vector<Target> here = targets_here();
  if (asked == nullptr || *asked == '\0') return here.back();
  std::string list;
  for (const Target t : here) {
    if (name_of(t) == asked) return t;
    list += (list.empty() ? "" : ", ") + std::string(name_of(t));
  }
  throw Error("NARROW_SIMD=" + quote(asked) + ": no instruction set of this machine; it has " + list);
}

Target current_target() {
  if (const int target = current.load(std::memory_order_relaxed); target >= 0) return static_cast<Target>(target);
  const Target target = target_named(std::getenv("NARROW_SIMD"));
  current.store(target, std::memory_order_relaxed);
  return target;
}

void use_target(Target target) { current.store(target, std::memory_order_relaxed); }

}  // namespace narrow::simd
