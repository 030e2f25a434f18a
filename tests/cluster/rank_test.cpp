#include <doctest/doctest.h>

#include "cluster/orders.hpp"
#include "cluster/threads.hpp"

using namespace narrow::cluster;
using test::Arrays;

namespace {

constexpr const char* formats[] = {"fp32", "bf16", "fp16", "e5m2", "e2m1", "mxfp8_e5m2", "nvfp4"};

// What every rank ends with.
Arrays by_messages(Arrays ranks, const ReduceRequest& request, Arrays* feedback = nullptr,
                   std::size_t* bytes = nullptr) {
  const std::size_t sent = test::on_ranks(ranks.size(), [&](Messages& m) {
    all_reduce(m, ranks[m.rank()], request,
               feedback == nullptr ? std::span<float>() : std::span<float>((*feedback)[m.rank()]));
  });
  if (bytes != nullptr) *bytes = sent;
  return ranks;
}

bool all_equal(const Arrays& got, const std::vector<float>& expected) {
  for (const std::vector<float>& rank : got)
    if (!test::same_bits(rank, expected)) return false;
  return true;
}

}  // namespace

TEST_CASE("cluster: ranks that send messages get the bits of one process, and of the order written out") {
  for (const std::size_t n : {1, 2, 3, 4, 5, 7, 8})
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, n - 1, std::size_t{1001}})
      for (const char* format : formats)
        for (const Algorithm algorithm : test::fixed_orders) {
          CAPTURE(n);
          CAPTURE(size);
          CAPTURE(std::string(format));
          CAPTURE(std::string(name_of(algorithm)));
          const ReduceRequest request{algorithm, require_wire(format), size % 2 == 1, 5, 1};
          const Arrays ranks = test::make_ranks(n, size, true);
          const std::vector<float> serial = all_reduce(ranks, request);
          CHECK(test::same_bits(serial, test::expected_sum(ranks, request)));
          CHECK(all_equal(by_messages(ranks, request), serial));
        }
}

TEST_CASE("cluster: random bits and error feedback are those of one process too") {
  ReduceRequest request{.seed = 9, .threads = 1};
  for (const char* format : {"bf16", "e5m2", "mxfp8_e4m3"})
    for (const std::size_t n : {2, 5, 6})
      for (const Algorithm algorithm : test::fixed_orders) {
        CAPTURE(n);
        CAPTURE(std::string(format));
        CAPTURE(std::string(name_of(algorithm)));
        request.algorithm = algorithm;
        request.wire = require_wire(format);
        request.wire.cast.rounding = narrow::Rounding::stochastic;
        const Arrays ranks = test::make_ranks(n, 1000, true);
        Arrays here(n, std::vector<float>(1000)), there = here;
        for (int step = 0; step < 3; ++step)
          CHECK(all_equal(by_messages(ranks, request, &there), all_reduce(ranks, request, here)));
        for (std::size_t r = 0; r < n; ++r) CHECK(test::same_bits(here[r], there[r]));
      }
}

TEST_CASE("cluster: what travels is as narrow as the format") {
  const auto bytes = [](Algorithm algorithm, const char* format) {
    std::size_t sent = 0;
    by_messages(test::make_ranks(4, 1024), {algorithm, require_wire(format), true, 0, 1}, nullptr, &sent);
    return sent;
  };
  // A ring sends all but one of four pieces of 256, twice, from each of four ranks.
  for (const auto& [format, piece] :
       {std::pair("fp32", 1024), {"bf16", 512}, {"e5m2", 256}, {"e3m2", 192}, {"e2m1", 128}, {"mxfp8_e5m2", 264}})
    CHECK(bytes(Algorithm::ring, format) == 2u * 3 * 4 * static_cast<std::size_t>(piece));
  CHECK(bytes(Algorithm::tree, "bf16") == 2u * 3 * 2048);
  CHECK(bytes(Algorithm::recursive_doubling, "bf16") == 2u * 4 * 2048);
  CHECK(bytes(Algorithm::fp32_once, "bf16") == 2u * 3 * 4 * 512);
  CHECK(bytes(Algorithm::linear, "bf16") == 2u * 3 * 2048);
}

TEST_CASE("cluster: an order that only the transport knows is asked of the transport") {
  struct Linear : test::Mailbox {
    using Mailbox::Mailbox;
    // To rank 0 one after the other, and back.
    void reduce_as_it_likes(std::span<std::byte> values, std::size_t unit, const Add& add) override {
      CHECK(values.size() % unit == 0);
      std::vector<std::byte> theirs(values.size());
      for (std::size_t r = 1; r < size(); ++r) {
        if (rank() == 0) {
          exchange(0, {}, r, theirs);
          for (std::size_t at = 0; at < theirs.size(); at += unit)
            add(std::span(theirs).subspan(at, unit), values.subspan(at, unit));
          continue;
        }
        if (rank() == r) exchange(0, values, 0, {});
      }
      for (std::size_t r = 1; r < size(); ++r) {
        if (rank() == 0) exchange(r, values, 0, {});
        if (rank() == r) exchange(0, {}, 0, values);
      }
    }
  };
  for (const char* format : formats) {
    CAPTURE(std::string(format));
    const ReduceRequest free{Algorithm::mpi, require_wire(format), true, 0, 1},
        linear{Algorithm::linear, require_wire(format), true, 0, 1};
    Arrays ranks = test::make_ranks(3, 100, true);
    const std::vector<float> expected = all_reduce(ranks, linear);
    test::Post post;
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < 3; ++r)
      threads.emplace_back([&, r] {
        Linear messages(r, 3, post);
        all_reduce(messages, ranks[r], free);
      });
    for (std::thread& t : threads) t.join();
    CHECK(all_equal(ranks, expected));
  }
  test::Post post;
  test::Mailbox alone(0, 2, post);
  std::vector<float> own(3);
  CHECK_THROWS_AS(all_reduce(alone, own, {Algorithm::mpi}), narrow::Error);
}
