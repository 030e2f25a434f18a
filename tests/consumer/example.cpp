#include <cstdio>
#include <narrow/narrow.hpp>

int main() {
  using namespace narrow;
  constexpr Format e4m3 = "e4m3"_fmt;  // known at compile time; find_format("e4m3") asks at run time

  const Code plain = encode(465.0, e4m3);                                           // 0x7F: NaN, E4M3 has no Inf
  const Code cuda = encode(465.0, e4m3, named_cast("cuda", e4m3));                  // 0x7E: 448, the hardware saturates
  const double cut = round_to(0.1, e4m3, Cast{.rounding = Rounding::toward_zero});  // 0.09375

  const Number<"fp16"_fmt> a = 2048.0, b = 1.0;
  const auto sum = a + b;  // 2048: 2049 is a tie in FP16, and ties go to even

  std::printf("0x%02X 0x%02X %g %s\n", static_cast<unsigned>(plain), static_cast<unsigned>(cuda), cut,
              to_decimal(sum.code(), "fp16"_fmt).c_str());
  return plain == 0x7F && cuda == 0x7E && cut == 0.09375 && sum == a ? 0 : 1;
}
