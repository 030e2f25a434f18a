#include "narrow/cluster/reduce_error.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace narrow::cluster;
using narrow::operator""_fmt;

namespace {

ReduceError error_of(const std::vector<std::vector<float>>& ranks, std::uint32_t divisor,
                     const std::vector<double>& got) {
  const auto row = [&](std::size_t rank) { return ranks[rank].data(); };
  return reduce_error(exact_sums(ranks.size(), got.size(), read_rows(row)), divisor, got, "bf16"_fmt);
}

}  // namespace

TEST_CASE("cluster: the error of a sum is that against the exact one, its distances against that rounded once") {
  // 257 lies half way between 256 and 258 of bf16; 0.001 tips it.
  const ReduceError e = error_of({{256, 256, 1, -0.0f}, {1, 1, 1, 0}, {0, 0.001f, 0, 0}}, 1, {256, 256, 2.5, -0.0});
  CHECK(e.elements == 4);
  CHECK(e.not_nearest == 2);  // 258 and 2; zeros of unlike sign are one value
  CHECK(e.max_ulp == 32);     // 2 to 2.5 in steps of 1/64
  CHECK(e.overflow == 0);
  const double first = 1, second = 1 + static_cast<double>(0.001f), third = 0.5;
  CHECK(e.mean_square == (first * first + second * second + third * third) / 4);
  CHECK(e.signal == (257.0 * 257 + (256 + second) * (256 + second) + 4) / 4);
  CHECK(error_of({{1}, {2}}, 3, {1}).sqnr_db() == HUGE_VAL);
}

TEST_CASE("cluster: what overflowed has no error, and what is Inf or NaN exactly is left out") {
  constexpr float inf = HUGE_VALF;
  const ReduceError e = error_of({{inf, 1, 3e38f}, {-inf, 2, 3e38f}}, 2, {std::nan(""), 1.5, inf});
  CHECK((e.elements == 2 && e.special == 1 && e.overflow == 1 && e.not_nearest == 1));
  CHECK((std::isnan(e.mean_square) && std::isnan(e.sqnr_db())));
  const ReduceError none = error_of({{}}, 1, {});
  CHECK((none.elements == 0 && std::isnan(none.mean_square)));
  const ReduceError zero = error_of({{0}, {0}}, 2, {0});
  CHECK((zero.mean_square == 0 && std::isnan(zero.sqnr_db())));
}
