// Do the processor's own conversions agree?
#include <doctest/doctest.h>

#include <cfenv>

#include "support/cpu_converts.hpp"
#include "support/opinions.hpp"
#include "support/scale.hpp"

using narrow::Cast;
using narrow::Nan;
using narrow::Rounding;

namespace {

struct Mode {
  int fenv;
  Rounding rounding;
};
constexpr Mode modes[] = {{FE_TONEAREST, Rounding::nearest_even},
                          {FE_TOWARDZERO, Rounding::toward_zero},
                          {FE_UPWARD, Rounding::up},
                          {FE_DOWNWARD, Rounding::down}};

// Holds only while the one conversion runs: everything else in the test expects the default mode.
template <class Convert>
auto in_mode(int fenv, const Convert& convert) {
  std::fesetround(fenv);
  const auto result = convert();
  std::fesetround(FE_TONEAREST);
  return result;
}

template <class T, class Convert>
void compare_modes(const char* who, const char* format, const Convert& convert) {
  std::uint64_t count = 0;
  for (const Mode& mode : modes)
    count +=
        test::compare_opinion<T>(format, {.rounding = mode.rounding, .nan = Nan::keep_payload}, test::scaled(1 << 18),
                                 [&](T x) { return in_mode(mode.fenv, [&] { return convert(x); }); });
  test::heard(who, count);
}

}  // namespace

TEST_CASE("round: the processor's float to fp16 agrees in four modes") {
  if (!test::cpu::has_fp16()) return test::not_heard("CPU float to fp16", "no such instruction");
  compare_modes<float>("CPU float to fp16", "fp16", [](float x) { return test::cpu::to_fp16(x); });
}

TEST_CASE("round: the processor's double to fp16 agrees in four modes") {
  if (!test::cpu::has_double_to_fp16()) return test::not_heard("CPU double to fp16", "no such instruction");
  compare_modes<double>("CPU double to fp16", "fp16", [](double x) { return test::cpu::to_fp16(x); });
}

TEST_CASE("round: the processor's double to float agrees in four modes") {
  compare_modes<double>("CPU double to fp32", "fp32", [](double x) { return test::cpu::to_fp32(x); });
}

TEST_CASE("round: the processor's double to float rounded to odd agrees") {
  if (!test::cpu::has_to_odd()) return test::not_heard("CPU double to fp32 to odd", "no such instruction");
  const Cast cast{.rounding = Rounding::to_odd, .nan = Nan::keep_payload};
  test::heard("CPU double to fp32 to odd",
              test::compare_opinion<double>("fp32", cast, test::scaled(1 << 18),
                                            [](double x) { return test::cpu::to_fp32_odd(x); }));
}

TEST_CASE("round: the processor's float to bf16 agrees") {
  if (!test::cpu::has_bf16()) return test::not_heard("CPU float to bf16", "no such instruction");
  const Cast cast{.nan = Nan::keep_payload};
  test::heard("CPU float to bf16", test::compare_opinion<float>("bf16", cast, test::scaled(1 << 18),
                                                                [](float x) { return test::cpu::to_bf16(x); }));
}
