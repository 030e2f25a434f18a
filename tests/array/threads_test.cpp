// Threads over shared arrays: small, so that the thread sanitizer can watch every function that starts them.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "array/naive_statistics.hpp"
#include "narrow/array/array.hpp"
#include "narrow/array/blocks.hpp"
#include "narrow/array/histogram.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"

using narrow::Cast;
using narrow::Rounding;

namespace {

// Five parts, the last one short.
std::vector<float> data() { return test::sprinkled<float>(4 * 65536 + 33, test::row_of("e4m3").format); }

const narrow::Format e4m3 = test::row_of("e4m3").format, fp16 = test::row_of("fp16").format;

}  // namespace

TEST_CASE("array: threads that round and encode and decode do not meet") {
  const auto in = data();
  for (const Cast& cast : {Cast{}, Cast{.rounding = Rounding::stochastic}}) {
    std::vector<float> one(in.size()), many(in.size()), back(in.size());
    std::vector<std::uint8_t> bytes(in.size()), other(in.size());
    std::vector<std::uint16_t> halves(in.size());
    narrow::round_array(in, one, e4m3, cast, 1, 1);
    narrow::encode_array(in, e4m3, cast, std::span(bytes), 1, 1);
    for (const int threads : {2, 3, 4}) {
      CAPTURE(threads);
      many = in;
      narrow::round_array(many, many, e4m3, cast, 1, threads);
      CHECK(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)) == 0);
      narrow::encode_array(in, e4m3, cast, std::span(other), 1, threads);
      CHECK(bytes == other);
      narrow::decode_array(std::span<const std::uint8_t>(other), e4m3, back, threads);
      CHECK(std::memcmp(one.data(), back.data(), one.size() * sizeof(float)) == 0);
      narrow::convert_array<std::uint8_t, std::uint16_t>(bytes, e4m3, halves, fp16, {}, 0, threads);
      narrow::decode_array(std::span<const std::uint16_t>(halves), fp16, back, threads);
      for (std::size_t i = 0; i < one.size(); i += 97) CHECK((std::isnan(one[i]) || one[i] == back[i]));
    }
  }
}

TEST_CASE("array: threads that gather statistics and histograms give the numbers of one thread") {
  const auto in = data();
  const narrow::FormatCast formats[] = {{e4m3, {}}, {fp16, {.rounding = Rounding::stochastic}}};
  const narrow::ScaledFormat scaled[] = {{{e4m3, {}}, 2}};
  const auto one = test::all_bits(narrow::statistics(in, formats, 0.5, 3, 1));
  const std::vector<double> wide(in.begin(), in.begin() + 70000);
  const auto wide_one = test::all_bits(narrow::statistics(wide, formats, 0.5, 3, 1));
  const auto histogram = narrow::exponent_histogram(in, scaled, 1);
  for (const int threads : {2, 3, 4}) {
    CAPTURE(threads);
    CHECK(one == test::all_bits(narrow::statistics(in, formats, 0.5, 3, threads)));
    CHECK(wide_one == test::all_bits(narrow::statistics(wide, formats, 0.5, 3, threads)));
    const auto other = narrow::exponent_histogram(in, scaled, threads);
    CHECK(histogram.histogram.binade(0).total() == other.histogram.binade(0).total());
    CHECK(histogram.histogram.count() == other.histogram.count());
    CHECK(histogram.shares[0].underflow == other.shares[0].underflow);
  }
}

TEST_CASE("array: threads that go through the blocks of a matrix give the numbers of one thread") {
  const auto in = data();
  const auto shape = narrow::BlockShape::by_tile(200, 300, 16);
  const narrow::FormatCast formats[] = {{e4m3, {}}};
  const auto amax = narrow::block_amax(in, shape, 1);
  const auto one = narrow::block_statistics(in, shape, formats, 1, 1);
  for (const int threads : {2, 4}) {
    CHECK(amax == narrow::block_amax(in, shape, threads));
    const auto many = narrow::block_statistics(in, shape, formats, 1, threads);
    REQUIRE(many.size() == one.size());
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(test::all_bits(one[i]) == test::all_bits(many[i]));
  }
}

TEST_CASE("parallel: what a part throws leaves, that of the first part, and the threads can be used again") {
  for (const int threads : {1, 2, 3, 7}) {
    CAPTURE(threads);
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<int> done(100);
      std::string said;
      try {
        narrow::parallel_parts(100, 1, threads, [&](std::size_t i, std::size_t) {
          if (i % 10 == 7) throw narrow::Error("part " + std::to_string(i));
          done[i] = 1;
        });
      } catch (const narrow::Error& error) {
        said = error.what();
      }
      CHECK(said == "part 7");
      CHECK(std::count(done.begin(), done.begin() + 7, 1) == 7);
    }
    CHECK_THROWS_AS(narrow::parallel_parts(9, 1, threads, [](std::size_t, std::size_t) { throw std::bad_alloc(); }),
                    std::bad_alloc);
  }
}

TEST_CASE("parallel: parts inside parts, several callers at once, and the child of a fork do all of their work") {
  std::atomic<int> inner = 0;
  narrow::parallel_parts(6, 1, 3, [&](std::size_t, std::size_t) {
    narrow::parallel_parts(50, 7, 3,
                           [&](std::size_t begin, std::size_t end) { inner += static_cast<int>(end - begin); });
  });
  CHECK(inner == 300);

  std::atomic<int> all = 0;
  std::vector<std::thread> callers;
  for (int k = 0; k < 4; ++k)
    callers.emplace_back([&] {
      for (int turn = 0; turn < 50; ++turn) narrow::parallel_parts(40, 1, 3, [&](std::size_t, std::size_t) { ++all; });
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(all == 4 * 50 * 40);

#ifndef __SANITIZE_THREAD__  // which refuses to fork a program with threads
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> parts = 0;
    narrow::parallel_parts(40, 1, 3, [&](std::size_t, std::size_t) { ++parts; });
    _exit(parts == 40 ? 0 : 1);
  }
  int state = -1;
  CHECK(waitpid(child, &state, 0) == child);
  CHECK(state == 0);
#endif
}
