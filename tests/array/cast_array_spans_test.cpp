// Lengths, places in memory, threads and random words of round_array and encode_array; and what they refuse.
#include <doctest/doctest.h>

#include "array/against_scalar.hpp"
#include "narrow/array/array.hpp"
#include "narrow/array/pack.hpp"
#include "narrow/base/error.hpp"

using narrow::Cast;
using narrow::Rounding;
using test::Mismatches;
using test::Row;

namespace {

constexpr std::size_t longest = 67;  // more than two blocks of eight lanes

// One of each kind of kernel: hardware, field, anchor, no -0, integer, power of two, none.
constexpr const char* kinds[] = {"fp16", "bf16", "e4m3", "e4m3fnuz", "int8", "e8m0", "e2m1", "e9m10"};

const Cast some_casts[] = {{},
                           {.overflow = narrow::Overflow::saturate},
                           {.rounding = Rounding::up},
                           {.rounding = Rounding::to_odd, .subnormals = narrow::Subnormals::flush_results},
                           {.rounding = Rounding::stochastic},
                           {.rounding = Rounding::stochastic, .random_bits = 64}};

template <class T>
void check_lengths() {
  for (const char* name : kinds) {
    const Row row = test::row_of(name);
    Mismatches wrong;
    const std::vector<T> inputs = test::sprinkled<T>(3 * 64 + longest, row.format);
    for (const Cast& cast : some_casts)
      for (std::size_t length = 0; length <= longest; ++length)
        for (std::size_t offset = 0; offset < 4; ++offset)
          for (const std::size_t start : {0u, 64u, 128u})  // without, with one, with many special values
            test::compare_with_scalar<T>(std::span<const T>(inputs).subspan(start, length),
                                         {row.name, row.format, cast, length, offset, 1}, wrong);
    wrong.require_none(row.name);
  }
}

template <class Out>
std::vector<Out> encoded(std::span<const float> in, const Row& row, const Cast& cast, int threads) {
  std::vector<Out> out(in.size());
  narrow::encode_array(in, row.format, cast, std::span<Out>(out), 5, threads);
  return out;
}

}  // namespace

TEST_CASE("array: every length up to 67 floats at every alignment gives the bits of the scalar functions") {
  check_lengths<float>();
}

TEST_CASE("array: every length up to 67 doubles at every alignment gives the bits of the scalar functions") {
  check_lengths<double>();
}

// One special value at each place of an otherwise ordinary stretch: only its block leaves the lanes, and comes back.
TEST_CASE("array: a special value changes nothing for its neighbours") {
  for (const char* name : kinds) {
    const Row row = test::row_of(name);
    Mismatches wrong;
    for (const Cast& cast : some_casts)
      for (std::size_t place = 0; place < longest; ++place)
        for (const float special :
             {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::quiet_NaN(), -0x1p-140f, -0.0f}) {
          std::vector<float> inputs = test::sprinkled<float>(64, row.format);
          inputs.resize(longest, -1.25f);
          inputs[place] = special;
          test::compare_with_scalar<float>(inputs, {row.name, row.format, cast, place, place % 4, 1}, wrong);
        }
    wrong.require_none(row.name);
  }
}

TEST_CASE("array: a stochastic cast takes random_bits of the seed and the index for any number of random bits") {
  for (const Row& row : test::array_rows()) {
    Mismatches wrong;
    const auto inputs = test::sprinkled<float>(test::scaled(1 << 12, 300), row.format);
    for (const int bits : {1, 2, 7, 8, 20, 23, 31, 32, 33, 63, 64})
      for (const std::uint64_t seed : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63})
        for (const narrow::Overflow overflow : {narrow::Overflow::to_special, narrow::Overflow::saturate}) {
          const Cast cast{.rounding = Rounding::stochastic, .overflow = overflow, .random_bits = bits};
          test::compare_with_scalar<float>(inputs, {row.name, row.format, cast, seed, 0, 1}, wrong);
        }
    wrong.require_none(row.name);
  }
}

TEST_CASE("array: any number of threads gives the same bytes") {
  const Row fp16 = test::row_of("fp16"), e4m3 = test::row_of("e4m3");
  const auto inputs = test::sprinkled<float>(3 * 65536 + 1001, fp16.format);
  for (const Cast& cast : some_casts) {
    const auto half = encoded<std::uint16_t>(inputs, fp16, cast, 1);
    const auto byte = encoded<std::uint8_t>(inputs, e4m3, cast, 1);
    std::vector<float> one(inputs.size()), many(inputs.size());
    narrow::round_array(inputs, one, e4m3.format, cast, 5, 1);
    for (const int threads : {2, 3, 7}) {
      CAPTURE(threads);
      CHECK(half == encoded<std::uint16_t>(inputs, fp16, cast, threads));
      CHECK(byte == encoded<std::uint8_t>(inputs, e4m3, cast, threads));
      narrow::round_array(inputs, many, e4m3.format, cast, 5, threads);
      CHECK(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("array: threads agree with the scalar functions beyond the first part") {
  Mismatches wrong;
  for (const char* name : kinds) {
    const Row row = test::row_of(name);
    const auto inputs = test::sprinkled<float>(65536 + 300, row.format);
    test::compare_with_scalar<float>(inputs, {row.name, row.format, {.rounding = Rounding::stochastic}, 3, 1, 3},
                                     wrong);
  }
  wrong.require_none("threads");
}

TEST_CASE("array: sizes that differ and codes that do not fit and bad random_bits are refused") {
  const narrow::Format fp16 = test::row_of("fp16").format, tf32 = test::row_of("tf32").format;
  std::vector<float> in(20), out(19);
  std::vector<double> wide_in(20), wide_out(21);
  std::vector<std::uint8_t> bytes(20);
  std::vector<std::uint16_t> halves(20), too_few(19);
  CHECK_THROWS_AS(narrow::round_array(in, out, fp16), narrow::Error);
  CHECK_THROWS_AS(narrow::round_array(wide_in, wide_out, fp16), narrow::Error);
  CHECK_THROWS_AS(narrow::encode_array(in, fp16, {}, std::span(too_few)), narrow::Error);
  CHECK_THROWS_AS(narrow::encode_array(in, fp16, {}, std::span(bytes)), narrow::Error);
  CHECK_THROWS_AS(narrow::encode_array(in, tf32, {}, std::span(halves)), narrow::Error);
  CHECK_THROWS_AS(narrow::encode_array(wide_in, tf32, {}, std::span(halves)), narrow::Error);
  for (const int random_bits : {-1, 0, 65}) {
    const Cast cast{.rounding = Rounding::stochastic, .random_bits = random_bits};
    CHECK_THROWS_AS(narrow::round_array(in, in, fp16, cast), narrow::Error);
    CHECK_THROWS_AS(narrow::round_array(wide_in, wide_in, fp16, cast), narrow::Error);
    CHECK_THROWS_AS(narrow::encode_array(in, fp16, cast, std::span(halves)), narrow::Error);
  }
  CHECK_THROWS_AS(narrow::round_array(in, in, narrow::Format{12, 10, 2047}), narrow::Error);
}

TEST_CASE("array: input and output are one span or lie apart; what would be read after it was written is refused") {
  const Row fp16 = test::row_of("fp16");
  std::vector<float> floats(200000, 1.5f);
  std::vector<double> doubles(1000, 1.5);
  const std::span all(floats);
  CHECK_THROWS_AS(narrow::round_array(all.first(1000), all.subspan(1, 1000), fp16.format), narrow::Error);
  CHECK_THROWS_AS(narrow::round_array(all.subspan(999, 1000), all.first(1000), fp16.format), narrow::Error);
  CHECK_THROWS_AS(narrow::round_array(std::span(doubles).first(9), std::span(doubles).subspan(8, 9), fp16.format),
                  narrow::Error);
  const std::span halves(reinterpret_cast<std::uint16_t*>(floats.data()), floats.size());
  CHECK_THROWS_AS(narrow::encode_array(floats, fp16.format, {}, halves), narrow::Error);
  CHECK_THROWS_AS(narrow::decode_array(std::span<const std::uint16_t>(halves), fp16.format, all), narrow::Error);
  const std::span bytes(reinterpret_cast<std::uint8_t*>(floats.data()), 1000);
  CHECK_THROWS_AS((narrow::convert_array<std::uint8_t, std::uint16_t>(bytes, test::row_of("e4m3").format,
                                                                      halves.first(1000), fp16.format)),
                  narrow::Error);
  CHECK_THROWS_AS(narrow::pack_codes(bytes, 4, bytes.first(500)), narrow::Error);
  CHECK_THROWS_AS(narrow::unpack_codes(bytes.first(500), 4, bytes), narrow::Error);
  CHECK_NOTHROW(narrow::round_array(all, all, fp16.format));
  CHECK_NOTHROW(narrow::round_array(all.first(1000), all.subspan(1000, 1000), fp16.format));
  const std::span words(reinterpret_cast<std::uint32_t*>(floats.data()), floats.size());
  CHECK_NOTHROW(narrow::encode_array(floats, fp16.format, {}, words));
}
