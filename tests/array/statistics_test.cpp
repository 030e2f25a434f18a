// Are the statistics those of a plain loop, for any length, scale, format and cast, and the same bits on any threads?
#include "narrow/array/statistics.hpp"

#include <doctest/doctest.h>

#include "array/naive_statistics.hpp"
#include "narrow/base/error.hpp"

using narrow::Cast;
using narrow::FormatCast;
using narrow::Overflow;
using narrow::Rounding;
using narrow::Statistics;
using narrow::Subnormals;

namespace {

struct Named {
  const char* format;
  Cast cast = {};
};

std::vector<FormatCast> format_casts(std::span<const Named> list) {
  std::vector<FormatCast> formats;
  for (const Named& n : list) formats.push_back({test::row_of(n.format).format, n.cast});
  return formats;
}

const std::vector<FormatCast>& many_formats() {
  static const std::vector<FormatCast> all = [] {
    const Named list[] = {
        {"fp16"},
        {"bf16"},
        {"tf32"},
        {"fp32"},
        {"e4m3"},
        {"e4m3", {.overflow = Overflow::saturate}},
        {"e5m2", {.rounding = Rounding::toward_zero}},
        {"e5m2", {.rounding = Rounding::up, .overflow = Overflow::saturate_finite}},
        {"e4m3fnuz", {.rounding = Rounding::down}},
        {"e5m2fnuz"},
        {"e3m4", {.rounding = Rounding::nearest_away}},
        {"e2m3", {.rounding = Rounding::nearest_to_zero}},
        {"e3m2", {.rounding = Rounding::to_odd}},
        {"e2m1"},
        {"int8"},
        {"int8", {.rounding = Rounding::down}},
        {"e8m0"},
        {"e8m0", {.rounding = Rounding::up, .negative = narrow::Negative::to_magnitude}},
        {"e8m0", {.near_zero = narrow::NearZero::by_field_no_zero}},
        {"e9m10"},
        {"e8m3fn"},
        {"e3m0f"},
        {"bf16", {.subnormals = Subnormals::flush_results}},
        {"fp16", {.subnormals = Subnormals::flush_results}},
        {"bf16", {.subnormals = Subnormals::flush_inputs}},
        {"fp16", {.rounding = Rounding::stochastic}},
        {"e4m3", {.rounding = Rounding::stochastic, .overflow = Overflow::saturate, .random_bits = 7}},
        {"bf16", {.rounding = Rounding::stochastic, .random_bits = 64}}};
    return format_casts(list);
  }();
  return all;
}

constexpr double scales[] = {1, 0x1p10, 0.1, 0x1p100, 0x1p-30};
constexpr std::uint64_t seed = 17;

template <class T>
void check(const std::vector<T>& data, std::span<const FormatCast> formats, double scale) {
  INFO("scale " << scale << " length " << data.size());
  test::NaiveSums sums;
  const Statistics want = test::naive_statistics<T>(data, formats, scale, seed, sums);
  const Statistics got = narrow::statistics(data, formats, scale, seed, 1);
  CHECK(test::differences(want, got, sums) == "");
}

// Values between 2^-2 and 2 of both signs.
std::vector<float> moderate(std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = test::from_bits<float>(0x3E800000u + (test::mix(i) & 0x817FFFFFu));
  return data;
}

std::vector<float> mixed(std::size_t count, std::uint64_t start = 0) {
  return test::sprinkled<float>(count, test::row_of("e5m2").format, start);
}

}  // namespace

TEST_CASE("array: the statistics of every short length are those of a loop over the definitions") {
  for (const double scale : scales)
    for (std::size_t length = 0; length <= 67; ++length) check(mixed(length, 2 * length), many_formats(), scale);
}

TEST_CASE("array: the statistics around the sizes of blocks and parts are those of a loop over the definitions") {
  for (const double scale : scales) {
    for (const std::size_t length : {2047u, 2048u, 2049u, 2050u}) check(mixed(length), many_formats(), scale);
    check(mixed(65536 + 2049), many_formats(), scale);
  }
}

TEST_CASE("array: statistics of data without special values or overflow are those of a loop") {
  for (const double scale : scales) check(moderate(5000), many_formats(), scale);
}

TEST_CASE("array: statistics of each single value are those of the definitions") {
  std::vector<float> values = test::limits<float>();
  for (const char* name : {"fp16", "e4m3", "e5m2", "e2m1", "int8", "bf16", "e8m0"})
    values = test::joined(values, test::near_limits<float>(test::row_of(name).format));
  for (const double scale : {1.0, 0x1p-30, 0.1})
    for (const float x : values) {
      CAPTURE(test::hex_float(static_cast<double>(x)));
      check(std::vector<float>{x}, many_formats(), scale);
    }
}

// A float product that underflows loses the value before the format sees it: the loss counts, and so does its error.
TEST_CASE("array: what the scale itself loses counts as underflow and as a relative error of one") {
  const FormatCast formats[] = {{test::row_of("bf16").format, {}}};
  const std::vector<float> data = {1, 0x1p-140f, 1, 1};
  const Statistics s = narrow::statistics(data, formats, 0x1p-30);
  CHECK(s.formats[0].underflow == 1);
  CHECK(s.formats[0].max_relative_error == 1);
  check(std::vector<float>{1, 0x1.8p-120f, 0x1.23456p-100f}, formats, 0x1p-30);
}

TEST_CASE("array: one kind of value alone is counted as that kind") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const float x : {0.0f, -0.0f, inf, -inf, std::numeric_limits<float>::quiet_NaN(), 0x1p-149f, 0x1.fffffep127f})
    for (const std::size_t length : {1u, 8u, 15u, 16u, 33u, 2048u, 3000u})
      for (const double scale : scales) check(std::vector<float>(length, x), many_formats(), scale);
}

TEST_CASE("array: the statistics of doubles are those of a loop over the definitions") {
  const narrow::Format f = test::row_of("e5m2").format;
  std::vector<FormatCast> formats = many_formats();
  formats.push_back({test::row_of("fp64").format, {.rounding = Rounding::toward_zero}});
  for (const double scale : scales) {
    for (std::size_t length = 0; length <= 67; length += 3)
      check(test::sprinkled<double>(length, f, length), formats, scale);
    check(test::sprinkled<double>(test::scaled(5000, 300), f), formats, scale);
  }
}

// 65519.999 is below the tie of fp16 but FP32 makes 65520 of it, and that is Inf.
TEST_CASE("array: a double that goes through FP32 overflows as the float does") {
  const FormatCast formats[] = {{test::row_of("fp16").format, {.through_fp32 = true}},
                                {test::row_of("fp16").format, {}}};
  const std::vector<double> data = {0x1.ffdfffffffp15, 1e300};
  const Statistics s = narrow::statistics(data, formats);
  CHECK(s.formats[0].overflow == 2);
  CHECK(s.formats[0].compared == 0);
  CHECK(s.formats[1].overflow == 1);
  check(data, formats, 1);
}

TEST_CASE("array: statistics have the same bits for any number of threads") {
  const auto data = mixed(5 * 65536 + 77);
  for (const double scale : {1.0, 0.1}) {
    const auto one = test::all_bits(narrow::statistics(data, many_formats(), scale, seed, 1));
    for (const int threads : {2, 3, 7}) {
      CAPTURE(threads);
      CHECK(one == test::all_bits(narrow::statistics(data, many_formats(), scale, seed, threads)));
    }
  }
}

TEST_CASE("array: statistics of pieces that start at multiples of 65536 add up to the bits of one call") {
  const auto data = mixed(6 * 65536 + 77);
  const std::span<const float> all = data;
  for (const double scale : {1.0, 0.1}) {
    const auto one = test::all_bits(narrow::statistics(data, many_formats(), scale, seed, 1));
    const narrow::StatisticsPass pass(many_formats(), scale, seed);
    for (const std::size_t parts : {1u, 2u, 3u, 5u}) {
      CAPTURE(parts);
      Statistics merged;
      for (std::size_t begin = 0; begin < all.size(); begin += parts * 65536)
        pass.add(merged, all.subspan(begin, std::min(parts * 65536, all.size() - begin)), begin, 2);
      CHECK(one == test::all_bits(merged));
    }
  }
}

TEST_CASE("array: a share is given of all elements and of those that are not zero") {
  const FormatCast formats[] = {{test::row_of("e4m3").format, {}}};
  const std::vector<float> data = {0, -0.0f, 0x1p-30f, 1, std::numeric_limits<float>::infinity(), 448, 1e6f, 0};
  const Statistics s = narrow::statistics(data, formats);
  CHECK(s.formats[0].underflow == 1);
  CHECK(s.input.share(1).of_all == 1.0 / 8);
  CHECK(s.input.share(1).of_nonzero == 1.0 / 5);
  CHECK(s.input.share(0).of_all == 0);
  CHECK(s.input.finite() == 7);
  CHECK(narrow::InputStatistics{}.share(0).of_nonzero == 0);
  CHECK(narrow::InputStatistics{}.mean() == 0);
}

TEST_CASE("array: SQNR is infinite without error and not a number without signal") {
  const FormatCast formats[] = {{test::row_of("e4m3").format, {}}};
  CHECK(std::isinf(narrow::statistics(std::vector<float>{1, 2}, formats).formats[0].sqnr_db()));
  CHECK(std::isnan(narrow::statistics(std::vector<float>{0, 0}, formats).formats[0].sqnr_db()));
  // 1.0625 becomes 1: signal 1.0625^2, error 2^-8, 10 log10(289) by the definition.
  const auto one = narrow::statistics(std::vector<float>{1.0625f}, formats).formats[0];
  CHECK(one.mse() == 0x1p-8);
  CHECK(one.sqnr_db() == 10 * std::log10(289.0));
}

TEST_CASE("array: errors are undefined once an element that was finite overflowed or became NaN") {
  constexpr Cast saturate{.overflow = Overflow::saturate};
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    const char* format;
    Cast cast;
    std::vector<float> data;
    bool defined, clipped;
  };
  const Case cases[] = {{"fp16", {}, {1.1f, 2}, true, true},
                        {"fp16", {}, {1.1f, 2, inf, nan}, true, true},  // these were not finite before
                        {"fp16", {}, {1.1f, 1e6f}, false, false},
                        {"fp16", {}, {1e6f, -1e6f}, false, false},
                        {"e4m3", saturate, {1.1f, 1000}, false, true},  // saturated is an overflow as well
                        {"e2m1", {}, {1.1f, 10}, false, true},          // a format without Inf saturates by itself
                        {"e8m0", {}, {2.1f, -1}, false, false},         // no overflow, but NaN
                        {"fp16", {}, {}, false, false}};
  for (const Case& c : cases) {
    CAPTURE(c.format);
    CAPTURE(c.data.size());
    const FormatCast to[] = {{test::row_of(c.format).format, c.cast}};
    const std::vector<double> wide(c.data.begin(), c.data.end());
    for (const Statistics& s : {narrow::statistics(c.data, to), narrow::statistics(wide, to)}) {
      const narrow::FormatStatistics& f = s.formats[0];
      CHECK(f.has_error() == c.defined);
      for (const double figure : {f.mse(), f.sqnr_db(), f.relative_error()}) CHECK(std::isnan(figure) != c.defined);
      CHECK(std::isnan(f.clipped_sqnr_db()) != c.clipped);
      if (c.clipped) CHECK(f.clipped_sqnr_db() == 10 * std::log10(f.signal / f.squared_error));
      Statistics both = narrow::statistics(std::vector<float>{1, 1}, to);
      both.merge(s);
      CHECK(both.formats[0].has_error() == (c.defined || c.data.empty()));
    }
  }
}

TEST_CASE("array: a scale that is not a positive finite number of the carrier is refused") {
  const FormatCast formats[] = {{test::row_of("e4m3").format, {}}};
  const std::vector<float> floats = {1};
  const std::vector<double> doubles = {1};
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double scale : {0.0, -1.0, inf, -inf, nan}) {
    CHECK_THROWS_AS(narrow::statistics(floats, formats, scale), narrow::Error);
    CHECK_THROWS_AS(narrow::statistics(doubles, formats, scale), narrow::Error);
    CHECK_THROWS_AS(narrow::StatisticsPass(formats, scale), narrow::Error);
  }
  for (const double scale : {1e60, 1e-60}) {
    CHECK_THROWS_AS(narrow::statistics(floats, formats, scale), narrow::Error);
    CHECK_NOTHROW(narrow::statistics(doubles, formats, scale));
  }
  const FormatCast bad[] = {{test::row_of("e4m3").format, {.rounding = Rounding::stochastic, .random_bits = 0}}};
  CHECK_THROWS_AS(narrow::statistics(floats, bad), narrow::Error);
}
