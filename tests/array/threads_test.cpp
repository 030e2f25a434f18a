// Threads over shared arrays: small, so that the thread sanitizer can watch every function that starts them.
#include <doctest/doctest.h>

#include <cstring>

#include "array/naive_statistics.hpp"
#include "narrow/array/array.hpp"
#include "narrow/array/blocks.hpp"
#include "narrow/array/convert_array.hpp"
#include "narrow/array/histogram.hpp"

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
