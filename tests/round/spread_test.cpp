// Do inputs spread over the whole carrier go where the definition says, in every row and under every policy?
#include <doctest/doctest.h>

#include "support/against_oracle.hpp"
#include "support/scale.hpp"

namespace {

template <class T>
void check_spread(std::uint64_t count, std::span<const narrow::Cast> casts) {
  for (const test::Row& row : test::rows())
    test::compare_all(row, count, casts,
                      [&](std::size_t i, const auto& emit) { emit(test::spread<T>(i, row.format)); });
}

}  // namespace

TEST_CASE("round: spread floats go where the definition says under every policy") {
  check_spread<float>(test::scaled(1 << 16), test::all_casts());
}

TEST_CASE("round: spread doubles go where the definition says under every policy") {
  check_spread<double>(test::scaled(1 << 14), test::all_casts());
}

TEST_CASE("round: spread floats go where the definition says under the default cast") {
  const narrow::Cast casts[] = {{}};
  check_spread<float>(test::scaled(1 << 22), casts);
}
