// Is every decision of every format right: at each value, each middle, and next to them, under every policy?
#include <doctest/doctest.h>

#include "support/against_oracle.hpp"
#include "support/scale.hpp"

namespace {

template <class T>
void check_critical_inputs(const test::Row& row) {
  const auto magnitudes = test::magnitudes(row.format, test::scaled(1 << 14));
  // A scale below 1 (sanitizers) visits every n-th value of the wider formats; the small ones stay complete.
  const std::size_t stride =
      magnitudes.size() <= 256 || test::scale() >= 1 ? 1 : static_cast<std::size_t>(1 / test::scale());
  test::compare_all(row, magnitudes.size() / stride, test::all_casts(), [&](std::size_t i, const auto& emit) {
    for (const T x : test::around<T>(magnitudes[magnitudes.size() - 1 - i * stride], row.format)) emit(x);
  });
  const auto limits = test::limits<T>();
  test::compare_all(row, limits.size(), test::all_casts(), [&](std::size_t i, const auto& emit) { emit(limits[i]); });
}

}  // namespace

TEST_CASE("round: floats at and next to every value and middle go where the definition says") {
  for (const test::Row& row : test::rows()) check_critical_inputs<float>(row);
}

TEST_CASE("round: doubles at and next to every value and middle go where the definition says") {
  for (const test::Row& row : test::rows())
    if (row.name != "tf32") check_critical_inputs<double>(row);  // its 2^18 values are the floats' business
}

TEST_CASE("round: the compile-time spelling gives the value of the code") {
  using narrow::operator""_fmt;
  static_assert(narrow::round_to<"fp16"_fmt>(65520.0f) == std::numeric_limits<float>::infinity());
  static_assert(narrow::round_to<"e4m3"_fmt, narrow::Cast{.overflow = narrow::Overflow::saturate}>(1e9) == 448.0);
  static_assert(narrow::round_to<"bf16"_fmt>(1.00390625f) == 1.0f);
  for (const test::Row& row : test::rows())
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const auto x = test::spread<float>(i, row.format);
      const double value = narrow::decode(narrow::encode(x, row.format), row.format);
      CHECK(test::bits(narrow::round_to(x, row.format)) == test::bits(static_cast<float>(value)));
      const auto y = test::spread<double>(i, row.format);
      CHECK(test::bits(narrow::round_to(y, row.format)) ==
            test::bits(narrow::decode(narrow::encode(y, row.format), row.format)));
    }
}
