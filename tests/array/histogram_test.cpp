// Are the counts per binade, and what follows from them for formats at power-of-two scales, those of brute force?
#include "narrow/array/histogram.hpp"

#include <doctest/doctest.h>

#include "array/naive_statistics.hpp"
#include "narrow/base/error.hpp"

using narrow::Bounds;
using narrow::ExactShares;
using narrow::ExponentHistogram;
using narrow::FormatCast;
using narrow::Rounding;
using narrow::SignCounts;

namespace {

constexpr int min_scale_log2 = -20, max_scale_log2 = 40;

std::vector<float> data_of(std::size_t count) { return test::sprinkled<float>(count, test::row_of("fp16").format); }

ExponentHistogram naive_histogram(std::span<const float> data) {
  ExponentHistogram h;
  for (const float x : data) {
    SignCounts* counts = nullptr;
    switch (std::fpclassify(x)) {
      case FP_ZERO: counts = &h.zero; break;
      case FP_SUBNORMAL: counts = &h.subnormal; break;
      case FP_INFINITE: counts = &h.inf; break;
      case FP_NAN: counts = &h.nan; break;
      default: counts = &h.binade(std::ilogb(x));
    }
    ++(std::signbit(x) ? counts->negative : counts->positive);
  }
  return h;
}

std::vector<std::uint64_t> all_counts(const ExponentHistogram& h) {
  std::vector<std::uint64_t> list;
  for (const SignCounts& c : {h.zero, h.subnormal, h.inf, h.nan})
    list.push_back(c.negative), list.push_back(c.positive);
  for (const SignCounts& c : h.binades) list.push_back(c.negative), list.push_back(c.positive);
  return list;
}

// What becomes of one float that is not zero.
struct Fate {
  narrow::ValueClass kind;
  bool overflow;
  friend bool operator==(const Fate&, const Fate&) = default;
};
Fate fate(float x, const FormatCast& to, const test::Limit& limit, float scale) {
  const float scaled = x * scale;
  narrow::ValueClass kind = narrow::classify(narrow::encode(scaled, to.format, to.cast), to.format);
  if (kind != narrow::ValueClass::zero && kind != narrow::ValueClass::subnormal) kind = narrow::ValueClass::normal;
  return {kind, test::naive_overflow(static_cast<double>(scaled), limit, to.cast, 0)};
}

ExactShares naive_shares(std::span<const float> data, const FormatCast& to, const test::Limit& limit, float scale) {
  ExactShares shares;
  for (const float x : data) {
    if (x == 0 || !std::isfinite(x)) continue;
    const Fate f = fate(x, to, limit, scale);
    shares.underflow += f.kind == narrow::ValueClass::zero;
    shares.subnormal += f.kind == narrow::ValueClass::subnormal;
    shares.overflow += f.overflow;
  }
  return shares;
}

// Bounds from the ends of each binade: what becomes of a float is monotone in its magnitude, so a binade whose ends
// meet the same fate is certain and any other contains a threshold. Upper bounds count every fate between those of the
// ends.
struct EndBounds {
  Bounds underflow, subnormal, overflow;
  bool certain = true;  // no threshold in any binade that has elements
};

void add(Bounds& b, std::uint64_t n, bool certain, bool possible) {
  b.lower += certain ? n : 0;
  b.upper += possible ? n : 0;
}

EndBounds bounds_by_ends(const ExponentHistogram& h, const FormatCast& to, const test::Limit& limit, float scale) {
  using narrow::ValueClass;
  EndBounds b;
  for (const std::uint32_t sign : {0u, 0x80000000u})
    for (std::uint32_t e = 0; e < 255; ++e) {
      const SignCounts& counts = e == 0 ? h.subnormal : h.binades[e - 1];
      const std::uint64_t n = sign != 0 ? counts.negative : counts.positive;
      const Fate first = fate(test::from_bits<float>(sign | std::max(e << 23, 1u)), to, limit, scale);
      const Fate last = fate(test::from_bits<float>(sign | e << 23 | 0x7FFFFF), to, limit, scale);
      add(b.underflow, n, last.kind == ValueClass::zero, first.kind == ValueClass::zero);
      add(b.subnormal, n, first.kind == last.kind && first.kind == ValueClass::subnormal,
          first.kind <= ValueClass::subnormal && last.kind >= ValueClass::subnormal);
      add(b.overflow, n, first.overflow, last.overflow);
      if (n != 0 && first != last) b.certain = false;
    }
  return b;
}

bool are_right(const Bounds& got, const Bounds& by_ends, std::uint64_t truth, bool certain) {
  return got.lower == by_ends.lower && got.upper <= by_ends.upper && got.lower <= truth && truth <= got.upper &&
         (!certain || got.lower == got.upper);
}

std::vector<FormatCast> all_formats() {
  std::vector<FormatCast> list;
  for (const char* name : {"fp16", "bf16", "e4m3", "e5m2", "e2m1", "e4m3fnuz", "int8"})
    for (const Rounding rounding : {Rounding::nearest_even, Rounding::toward_zero, Rounding::up})
      list.push_back({test::row_of(name).format, {.rounding = rounding}});
  list.push_back({test::row_of("bf16").format, {.subnormals = narrow::Subnormals::flush_results}});
  list.push_back({test::row_of("e4m3").format, {.rounding = Rounding::to_odd, .overflow = narrow::Overflow::saturate}});
  return list;
}

// The whole comparison for one set of data: bounds and exact counts for every format at every scale.
void check_shares(const std::vector<float>& data) {
  const auto formats = all_formats();
  std::vector<narrow::ScaledFormat> requests;
  for (const FormatCast& to : formats)
    for (int scale = min_scale_log2; scale <= max_scale_log2; ++scale) requests.push_back({to, scale});
  const narrow::HistogramWithShares exact = narrow::exponent_histogram(data, requests, 1);
  const ExponentHistogram h = narrow::exponent_histogram(data, 1);
  CHECK(all_counts(exact.histogram) == all_counts(h));
  REQUIRE(exact.shares.size() == requests.size());
  for (std::size_t k = 0; k < requests.size(); ++k) {
    const narrow::ScaledFormat& r = requests[k];
    const float scale = std::ldexp(1.0f, r.scale_log2);
    const test::Limit limit = test::limit_of(r.to.format);
    const ExactShares truth = naive_shares(data, r.to, limit, scale), &got = exact.shares[k];
    const EndBounds ends = bounds_by_ends(h, r.to, limit, scale);
    const narrow::HistogramShares bounds = narrow::shares_from_histogram(h, r.to, r.scale_log2);
    INFO("format " << k / 61 << " scale 2^" << r.scale_log2 << " " << test::describe(r.to.cast));
    CHECK(got.underflow == truth.underflow);
    CHECK(got.subnormal == truth.subnormal);
    CHECK(got.overflow == truth.overflow);
    CHECK(are_right(bounds.underflow, ends.underflow, truth.underflow, ends.certain));
    CHECK(are_right(bounds.subnormal, ends.subnormal, truth.subnormal, ends.certain));
    CHECK(are_right(bounds.overflow, ends.overflow, truth.overflow, ends.certain));
  }
}

}  // namespace

TEST_CASE("array: a histogram counts every binade and sign and kind as a plain loop does") {
  for (std::size_t length = 0; length <= 67; ++length) {
    CAPTURE(length);
    const auto data = data_of(length + 3);
    const std::span<const float> part = std::span(data).subspan(length % 4, length);
    CHECK(all_counts(narrow::exponent_histogram(part)) == all_counts(naive_histogram(part)));
  }
  for (const std::size_t length : {4095u, 4096u, 4097u, 65535u, 65536u, 65537u, 200001u}) {
    CAPTURE(length);
    const auto data = data_of(length);
    const ExponentHistogram h = narrow::exponent_histogram(data);
    CHECK(all_counts(h) == all_counts(naive_histogram(data)));
    CHECK(h.count() == length);
  }
}

TEST_CASE("array: zeros and subnormals and Inf and NaN of either sign are told apart") {
  for (const std::uint32_t sign : {0u, 0x80000000u})
    for (const std::uint32_t word : {0u, 1u, 0x7FFFFFu, 0x800000u, 0x7F7FFFFFu, 0x7F800000u, 0x7F800001u, 0x7FFFFFFFu})
      for (const std::size_t length : {1u, 3u, 4u, 9u, 64u}) {
        CAPTURE(word | sign);
        const std::vector<float> data(length, test::from_bits<float>(word | sign));
        CHECK(all_counts(narrow::exponent_histogram(data)) == all_counts(naive_histogram(data)));
      }
}

TEST_CASE("array: one binade of many equal elements does not lose a count") {
  const std::vector<float> data(300000, -1.5f);
  CHECK(narrow::exponent_histogram(data).binade(0).negative == data.size());
}

TEST_CASE("array: shares of a histogram bound the truth and exact shares are the truth at every scale") {
  check_shares(data_of(test::scaled(9000, 600)));
}

// Elements on the thresholds themselves and next to them, at a scale where they are in range.
TEST_CASE("array: shares are right for elements at the limits of the formats") {
  std::vector<float> data;
  for (const char* name : {"fp16", "bf16", "e4m3", "e5m2", "e2m1", "e4m3fnuz", "int8"})
    data = test::joined(data, test::near_limits<float>(test::row_of(name).format));
  check_shares(data);
}

// Powers of two sit at the lower end of their binades, where no threshold of these formats lies inside.
TEST_CASE("array: bounds of a histogram coincide where no threshold lies inside a binade with elements") {
  const FormatCast fp16{test::row_of("fp16").format, {.rounding = Rounding::toward_zero}};
  std::vector<float> data;
  for (int e = -30; e < 30; ++e) data.push_back(std::ldexp(1.0f, e)), data.push_back(-std::ldexp(1.75f, e));
  const auto shares = narrow::shares_from_histogram(narrow::exponent_histogram(data), fp16);
  CHECK(shares.underflow.lower == 12);  // 2^-30 .. 2^-25 of both signs are below 2^-24
  CHECK(shares.underflow.upper == 12);
  CHECK(shares.subnormal.lower == 20);  // 2^-24 .. 2^-15
  CHECK(shares.subnormal.upper == 20);
  CHECK(shares.overflow.lower == 28);  // from 2^16 on
  CHECK(shares.overflow.upper == 28);
}

TEST_CASE("array: histograms are the same for any number of threads and merge by adding") {
  const auto data = data_of(4 * 65536 + 123);
  const narrow::ScaledFormat formats[] = {{{test::row_of("e4m3").format, {}}, 3}};
  const auto one = narrow::exponent_histogram(data, formats, 1);
  for (const int threads : {2, 3, 7}) {
    const auto many = narrow::exponent_histogram(data, formats, threads);
    CHECK(all_counts(one.histogram) == all_counts(many.histogram));
    CHECK(all_counts(one.histogram) == all_counts(narrow::exponent_histogram(data, threads)));
    CHECK(one.shares[0].underflow == many.shares[0].underflow);
    CHECK(one.shares[0].overflow == many.shares[0].overflow);
  }
  ExponentHistogram merged = narrow::exponent_histogram(std::span(data).first(1000));
  merged.merge(narrow::exponent_histogram(std::span(data).subspan(1000)));
  CHECK(all_counts(one.histogram) == all_counts(merged));
}

TEST_CASE("array: shares of a stochastic cast and of a scale that is no float are refused") {
  const FormatCast stochastic{test::row_of("fp16").format, {.rounding = Rounding::stochastic}};
  const FormatCast fp16{test::row_of("fp16").format, {}};
  CHECK_THROWS_AS(narrow::shares_from_histogram({}, stochastic), narrow::Error);
  CHECK_THROWS_AS(narrow::shares_from_histogram({}, fp16, 128), narrow::Error);
  CHECK_THROWS_AS(narrow::shares_from_histogram({}, fp16, -127), narrow::Error);
}
