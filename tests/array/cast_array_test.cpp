// Do arrays go where the scalar functions say, for every format under every policy?
#include <doctest/doctest.h>

#include "array/against_scalar.hpp"
#include "narrow/array/array.hpp"

using test::array_casts;
using test::array_rows;
using test::Mismatches;
using test::Row;

namespace {

// Each cast with another seed, another offset and other threads.
template <class T>
void check_all_casts(const Row& row, const std::vector<T>& inputs) {
  Mismatches wrong;
  std::size_t k = 0;
  for (const narrow::Cast& cast : array_casts()) {
    test::compare_with_scalar<T>(inputs, {row.name, row.format, cast, test::mix(k), k % 4, 1}, wrong);
    ++k;
  }
  wrong.require_none(row.name);
}

template <class T>
std::vector<T> for_policies(const narrow::Format& f, std::uint64_t count) {
  const std::vector<T> seams = test::joined(test::near_limits<T>(f), test::critical<T>(f));
  return test::joined(seams, test::sprinkled<T>(count, f));
}

}  // namespace

TEST_CASE("array: floats go where the scalar functions say in every format under every policy") {
  for (const Row& row : array_rows()) check_all_casts(row, for_policies<float>(row.format, test::scaled(6000, 600)));
}

TEST_CASE("array: doubles go where the scalar functions say in every format under every policy") {
  for (const Row& row : array_rows()) check_all_casts(row, for_policies<double>(row.format, test::scaled(2000, 600)));
}

TEST_CASE("array: the casts of real systems give the codes of the scalar functions") {
  Mismatches wrong;
  for (const test::FormatAndCast& named : test::named_casts()) {
    const auto floats = for_policies<float>(named.format, test::scaled(1 << 14, 600));
    test::compare_with_scalar<float>(floats, {named.name, named.format, named.cast, 0, 1, 1}, wrong);
    const auto doubles = for_policies<double>(named.format, test::scaled(1 << 12, 600));
    test::compare_with_scalar<double>(doubles, {named.name, named.format, named.cast, 0, 3, 1}, wrong);
  }
  wrong.require_none("named casts");
}

// A format without zero or sign has three policies of its own.
TEST_CASE("array: e8m0 treats negatives and what is near zero as the scalar functions do") {
  const Row row = test::row_of("e8m0");
  Mismatches wrong;
  const auto inputs = for_policies<float>(row.format, test::scaled(1 << 12, 600));
  for (const narrow::Negative negative : {narrow::Negative::to_nan, narrow::Negative::to_magnitude})
    for (const narrow::NearZero near_zero :
         {narrow::NearZero::by_value, narrow::NearZero::by_field, narrow::NearZero::by_field_no_zero})
      for (narrow::Cast cast : array_casts()) {
        cast.negative = negative, cast.near_zero = near_zero;
        test::compare_with_scalar<float>(inputs, {row.name, row.format, cast, 9, 0, 1}, wrong);
      }
  wrong.require_none(row.name);
}

TEST_CASE("array: millions of spread floats go where the scalar functions say under the default cast") {
  const std::uint64_t count = test::scaled(1 << 24), piece = 1 << 18;
  for (const char* name : {"fp16", "bf16", "tf32", "e4m3", "e5m2"}) {
    const Row row = test::row_of(name);
    Mismatches wrong;
    for (std::uint64_t begin = 0; begin < count; begin += piece) {
      const auto inputs = test::sprinkled<float>(std::min(piece, count - begin), row.format, begin);
      test::compare_with_scalar<float>(inputs, {row.name, row.format, {}, 0, begin / piece % 4, 1}, wrong);
    }
    wrong.require_none(row.name);
  }
}

TEST_CASE("array: random words and spread values of the other formats go where the scalar functions say") {
  for (const Row& row : array_rows()) {
    Mismatches wrong;
    const auto inputs = test::sprinkled<float>(test::scaled(1 << 17), row.format, std::uint64_t{1} << 40);
    for (const narrow::Overflow overflow : {narrow::Overflow::to_special, narrow::Overflow::saturate})
      test::compare_with_scalar<float>(inputs, {row.name, row.format, {.overflow = overflow}, 0, 2, 1}, wrong);
    wrong.require_none(row.name);
  }
}
