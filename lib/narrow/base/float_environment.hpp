// The caller's floating-point environment put aside: rounding mode, flush-to-zero and traps are state of a thread that
// any library may have changed (a shared object linked with -ffast-math sets flush-to-zero when it is loaded).
#pragma once

#include <cstdint>

#if !defined(__SSE__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace narrow {

// While one lives: nearest even, subnormals kept, no traps. Afterwards all is as it was, sticky flags included, unless
// the environment was the default one already: then nothing is written, and flags stay raised. Costs a read of the
// control word. The compilers keep loads and stores on their side of the change, but may move arithmetic on values that
// are in registers: compute from memory, or in a function that is called.
class DefaultFloats {
 public:
  DefaultFloats() noexcept : found_(read()) {
    if (is_foreign()) write(standard);
  }
  ~DefaultFloats() {
    if (is_foreign()) write(found_);
  }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
#if defined(__SSE__)
  // MXCSR: flags in bits 0-5, DAZ in 6, masks of traps in 7-12, rounding in 13-14, FTZ in 15.
  using Word = std::uint32_t;
  static constexpr Word standard = 0x1F80, flags = 0x3F;
  static Word read() noexcept { return __builtin_ia32_stmxcsr(); }
  static void write(Word word) noexcept { __asm__ volatile("ldmxcsr %0" : : "m"(word) : "memory"); }
  bool is_foreign() const noexcept { return (found_ & ~flags) != standard; }
#elif defined(__aarch64__)
  // FPCR holds no flags; 0 is the default.
  using Word = std::uint64_t;
  static constexpr Word standard = 0;
  static Word read() noexcept {
    Word word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) noexcept { __asm__ volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
  bool is_foreign() const noexcept { return found_ != standard; }
#else
  // Rounding only: flush-to-zero has no portable name.
  using Word = int;
  static constexpr Word standard = FE_TONEAREST;
  static Word read() noexcept { return std::fegetround(); }
  static void write(Word word) noexcept { std::fesetround(word); }
  bool is_foreign() const noexcept { return found_ != standard; }
#endif

  Word found_;
};

}  // namespace narrow
