#include "narrow/cluster/reduce.hpp"

#include <doctest/doctest.h>

#include "cluster/orders.hpp"
#include "tensor/files.hpp"

using namespace narrow::cluster;
using test::Arrays;
using test::make_ranks;

TEST_CASE("cluster: a reduction adds in the order that its row describes") {
  for (const char* format : {"fp32", "bf16", "e5m2", "int8", "mxfp4"})
    for (const std::size_t ranks : {2, 3, 4, 7, 8, 17})
      for (const Algorithm algorithm : test::fixed_orders)
        for (const std::size_t size : {5, 5001}) {
          CAPTURE(ranks);
          CAPTURE(size);
          CAPTURE(std::string(format));
          CAPTURE(std::string(name_of(algorithm)));
          const Arrays all = make_ranks(ranks, size);
          const ReduceRequest request{algorithm, require_wire(format), size == 5, 1};
          CHECK(test::same_bits(all_reduce(all, request), test::expected_sum(all, request)));
        }
}

TEST_CASE("cluster: all orders differ in a narrow format, but the two trees of 2^k ranks") {
  const Arrays all = make_ranks(8, 5000), odd = make_ranks(5, 5000);
  for (const Algorithm a : test::fixed_orders)
    for (const Algorithm b : test::fixed_orders) {
      const ReduceRequest x{a, require_wire("bf16")}, y{b, require_wire("bf16")};
      const bool trees = (a == Algorithm::tree || a == Algorithm::recursive_doubling) &&
                         (b == Algorithm::tree || b == Algorithm::recursive_doubling);
      CHECK((all_reduce(all, x) == all_reduce(all, y)) == (a == b || trees));
      CHECK((all_reduce(odd, x) == all_reduce(odd, y)) == (a == b));
    }
}

TEST_CASE("cluster: one rank is left as it is") {
  const Arrays one = make_ranks(1, 100, true);
  for (const Algorithm a : test::fixed_orders)
    CHECK(test::same_bits(all_reduce(one, {a, require_wire("e5m2")}), one[0]));
}

TEST_CASE("cluster: a reduction gives the same bits for any number of threads") {
  const Arrays all = make_ranks(4, 50001);
  for (const char* format : {"fp32", "bf16", "mxfp8_e4m3"})
    for (const bool stochastic : {false, format != std::string("fp32")})
      for (const Algorithm a : test::fixed_orders) {
        ReduceRequest request{a, require_wire(format), true, 1, 1};
        if (stochastic) request.wire.cast.rounding = narrow::Rounding::stochastic;
        const std::vector<float> one = all_reduce(all, request);
        request.threads = 3;
        CHECK(test::same_bits(one, all_reduce(all, request)));
      }
}

// The mean of the results of many steps comes closer: what one step lost the next one brings.
TEST_CASE("cluster: error feedback brings later what a rounding lost") {
  const Arrays all = make_ranks(4, 1000);
  for (const char* format : {"bf16", "e5m2", "mxfp8_e4m3"}) {
    const ReduceRequest request{Algorithm::fp32_once, require_wire(format)};
    Arrays feedback(4, std::vector<float>(1000));
    std::vector<double> with(1000), without(1000);
    for (int step = 0; step < 16; ++step) {
      // by its definition: x + e is sent, e is what remains
      const Arrays before = feedback;
      const std::vector<float> sum = all_reduce(all, request, feedback), plain = all_reduce(all, request);
      for (std::size_t r = 0; r < 4; ++r) {
        std::vector<float> x(1000);
        for (std::size_t i = 0; i < 1000; ++i) x[i] = all[r][i] / 4 + before[r][i];
        // pieces are rounded by themselves
        for (std::size_t c = 0; c < 4; ++c) {
          const std::vector<float> piece(x.begin() + static_cast<std::ptrdiff_t>(c * 250),
                                         x.begin() + static_cast<std::ptrdiff_t>(c * 250 + 250));
          const std::vector<float> sent = test::rounding_of(request.wire)(piece);
          for (std::size_t i = 0; i < 250; ++i) REQUIRE(feedback[r][c * 250 + i] == piece[i] - sent[i]);
        }
      }
      for (std::size_t i = 0; i < 1000; ++i)
        with[i] += static_cast<double>(sum[i]), without[i] += static_cast<double>(plain[i]);
    }
    double a = 0, b = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
      double exact = 0;
      for (const std::vector<float>& rank : all) exact += static_cast<double>(rank[i]) / 4;
      a += std::fabs(with[i] / 16 - exact), b += std::fabs(without[i] / 16 - exact);
    }
    CHECK(a < b);
  }
}

TEST_CASE("cluster: Inf and NaN are not kept for the next step") {
  const Arrays all = make_ranks(3, 300, true);
  Arrays feedback(3, std::vector<float>(300));
  for (int step = 0; step < 2; ++step) all_reduce(all, {Algorithm::ring, require_wire("e4m3")}, feedback);
  bool finite = true;
  for (const std::vector<float>& lost : feedback)
    for (const float e : lost) finite = finite && std::isfinite(e);
  CHECK(finite);
}

TEST_CASE("cluster: requests that cannot be met are refused with a sentence") {
  const Arrays all = make_ranks(2, 4);
  const auto error = [&](const Arrays& ranks, const ReduceRequest& r, std::span<Feedback> f = {}) {
    return test::error_of([&] { all_reduce(ranks, r, f); });
  };
  CHECK(error(all, {Algorithm::mpi}).find("not fixed by its standard") != std::string::npos);
  CHECK(error(all, {Algorithm::ring, {narrow::operator""_fmt("e8m0", 4)}}).find("a sign and a zero") !=
        std::string::npos);
  CHECK(error({{1, 2}, {1}}, {}).find("one length") != std::string::npos);
  CHECK(error({}, {}).find("at least 1") != std::string::npos);
  Arrays one(1, std::vector<float>(4));
  CHECK(error(all, {}, one).find("another number") != std::string::npos);
  CHECK(test::error_of([] { require_wire("fp64"); }).find("fits FP32") != std::string::npos);
  CHECK(test::error_of([] { require_wire("nonsense"); }).find("nonsense") != std::string::npos);
}
