// Floating-point environments that a caller may have left behind, and whether a computation notices.
#pragma once

#include <doctest/doctest.h>

#include <bit>
#include <cfenv>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace test {

inline std::uint64_t float_control() {
#if defined(__SSE__)
  return _mm_getcsr() & 0xFFC0u;  // without the sticky flags
#elif defined(__aarch64__)
  std::uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
#else
  return static_cast<std::uint64_t>(std::fegetround());
#endif
}

inline void flush_subnormals() {
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | 0x8040u);  // results and operands
#elif defined(__aarch64__)
  const std::uint64_t word = float_control() | 1u << 24;
  __asm__ volatile("msr fpcr, %0" : : "r"(word));
#endif
}

// Bits of whatever a computation gave, to be compared in the default environment.
struct Digest {
  std::vector<std::uint64_t> words;

  template <class T>
  void add(T x) {
    if constexpr (std::is_same_v<T, float>) words.push_back(std::bit_cast<std::uint32_t>(x));
    else if constexpr (std::is_same_v<T, double>) words.push_back(std::bit_cast<std::uint64_t>(x));
    else words.push_back(static_cast<std::uint64_t>(x));
  }
  template <class Range>
  void add_all(const Range& range) {
    for (const auto x : range) add(x);
  }
};

// The same bits in every environment, and the environment is the caller's again afterwards. No floating-point work but
// that of `compute` happens in it.
inline void check_environments(const char* what, const std::function<void(Digest&)>& compute) {
  const std::pair<const char*, void (*)()> environments[] = {
      {"upward", [] { std::fesetround(FE_UPWARD); }},
      {"downward", [] { std::fesetround(FE_DOWNWARD); }},
      {"toward zero", [] { std::fesetround(FE_TOWARDZERO); }},
      {"subnormals flushed", flush_subnormals},
      {"upward with subnormals flushed", [] { flush_subnormals(), std::fesetround(FE_UPWARD); }}};
  std::fenv_t usual;
  std::fegetenv(&usual);
  Digest expected;
  compute(expected);
  for (const auto& [name, set] : environments) {
    Digest got;
    set();
    const std::uint64_t before = float_control();
    compute(got);
    const std::uint64_t after = float_control();
    std::fesetenv(&usual);
    CAPTURE(what);
    CAPTURE(name);
    CHECK(after == before);
    REQUIRE(got.words.size() == expected.words.size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < got.words.size(); ++i) different += got.words[i] != expected.words[i] ? 1 : 0;
    CHECK(different == 0);
  }
}

}  // namespace test
