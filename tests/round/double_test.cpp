// Is a double rounded once? Inputs that a detour through float would get wrong: a middle of the target, plus or minus
// something that double sees and float does not.
#include <doctest/doctest.h>

#include "support/against_oracle.hpp"
#include "support/scale.hpp"

namespace {

double next_to_middle(std::uint64_t index, const narrow::Format& f) {
  const std::uint64_t r = test::mix(index), s = test::mix(r);
  const narrow::Code magnitude = r % (oracle::largest_magnitude(f, false) + 1);
  const double here = test::value(magnitude, f);
  const int log2 = here == 0 ? oracle::min_exponent(f) : std::ilogb(here);
  const double middle = here + std::ldexp(0.5, oracle::quantum_exponent(log2, f));
  // A float's last place is 2^29 of a double's: anything up to a quarter of that is invisible to it.
  const std::uint64_t distance = s >> 8 & oracle::ones(static_cast<int>(s & 0xFF) % 28);
  const std::uint64_t word = test::bits(middle);
  return test::from_bits<double>((s >> 62 & 1 ? word + distance : word - distance) | s >> 63 << 63);
}

}  // namespace

TEST_CASE("round: a double next to a middle is rounded once") {
  const auto& casts = test::all_casts();
  for (const test::Row& row : test::rows())
    test::compare_all(row, test::scaled(1000000), std::span<const narrow::Cast>(casts).first(1),
                      [&](std::size_t i, const auto& emit) { emit(next_to_middle(i, row.format)); });
}

TEST_CASE("round: a double next to a middle is rounded once under every policy") {
  for (const test::Row& row : test::rows())
    test::compare_all(row, test::scaled(1 << 14), test::all_casts(),
                      [&](std::size_t i, const auto& emit) { emit(next_to_middle(i + (1u << 20), row.format)); });
}

TEST_CASE("round: the detour through fp32 differs from one rounding exactly where asked for") {
  const auto fp16 = narrow::find_format("fp16").value(), fp32 = narrow::find_format("fp32").value();
  const double x = 1.0 + 0x1p-11 + 0x1p-40;  // above the middle of fp16; float sees the middle
  CHECK(narrow::encode(x, fp16) == 0x3C01);
  CHECK(narrow::encode(x, fp16, {.through_fp32 = true}) == 0x3C00);
  std::uint64_t different = 0;
  for (std::uint64_t i = 0; i < test::scaled(1 << 16); ++i) {
    const double y = next_to_middle(i, fp16);
    const narrow::Code first = oracle::round(y, fp32);
    const narrow::Code detour = oracle::round(test::from_bits<float>(first), fp16);
    CHECK(narrow::encode(y, fp16, {.through_fp32 = true}) == detour);
    different += narrow::encode(y, fp16) != detour ? 1 : 0;
  }
  CHECK(different > 0);
}
