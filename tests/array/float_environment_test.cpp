// Do arrays, their statistics and the scalar functions give the same bits whatever rounding mode and flush-to-zero the
// caller has set? Several threads: those of the pool have the environment of whoever made them.
#include "array/against_scalar.hpp"
#include "narrow/arith/number.hpp"
#include "narrow/array/array.hpp"
#include "narrow/array/blocks.hpp"
#include "narrow/array/histogram.hpp"
#include "support/float_environments.hpp"

using narrow::Cast;
using narrow::Format;
using narrow::operator""_fmt;
using narrow::Rounding;
using test::Digest;

namespace {

constexpr std::size_t count = 3 * 65536 + 100;  // more than one part

// Words of all exponents, subnormals and values near the limits of the formats included.
const std::vector<float>& floats() {
  static const std::vector<float> data = test::sprinkled<float>(count, test::row_of("fp16").format);
  return data;
}
std::vector<Cast> environment_casts() {
  std::vector<Cast> list;
  for (const Rounding rounding : test::roundings) list.push_back({.rounding = rounding});
  list.push_back({.overflow = narrow::Overflow::saturate});
  list.push_back({.subnormals = narrow::Subnormals::flush_results});
  return list;
}

void add(Digest& d, const narrow::Statistics& s) {
  d.add(s.input.count), d.add(s.input.zeros), d.add(s.input.amax), d.add(s.input.min_nonzero), d.add(s.input.sum);
  for (const narrow::FormatStatistics& f : s.formats) {
    for (const std::uint64_t n : {f.underflow, f.subnormal, f.overflow, f.saturated, f.compared}) d.add(n);
    d.add(f.squared_error), d.add(f.signal), d.add(f.max_relative_error), d.add(f.sqnr_db());
  }
}

}  // namespace

TEST_CASE("array: casts give the same bits in every floating-point environment") {
  const std::span<const float> few = std::span(floats()).first(4096);
  for (const test::Row& row : test::array_rows())
    test::check_environments(row.name.c_str(), [&](Digest& d) {
      for (const Cast& cast : environment_casts()) {
        std::vector<float> values(few.size());
        std::vector<std::uint64_t> codes(few.size());
        narrow::round_array(few, values, row.format, cast, 3);
        narrow::encode_array(few, row.format, cast, codes, 3);
        d.add_all(values), d.add_all(codes);
        if (row.format.width() <= 32) {
          std::vector<std::uint32_t> words(few.size());
          narrow::encode_array(few, row.format, cast, words, 3);
          narrow::decode_array(words, row.format, values);
          d.add_all(words), d.add_all(values);
        }
        narrow::decode_array(codes, row.format, values);
        d.add_all(values);
      }
    });
}

TEST_CASE("array: doubles and codes and many threads give the same bits in every floating-point environment") {
  const Format fp16 = test::row_of("fp16").format, bf16 = test::row_of("bf16").format;
  std::vector<double> wide(floats().begin(), floats().end());
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] *= 1 + 0x1p-40 * static_cast<double>(i % 7);
  wide[5] = 0x1p-1074, wide[6] = 0x1p-1030;
  test::check_environments("doubles", [&](Digest& d) {
    std::vector<double> values(wide.size());
    std::vector<std::uint16_t> codes(wide.size()), other(wide.size());
    narrow::round_array(wide, values, fp16, {}, 0, 4);
    narrow::encode_array(wide, bf16, {}, codes, 0, 4);
    narrow::convert_array(std::span<const std::uint16_t>(codes), bf16, std::span(other), fp16, Cast{}, 0, 4);
    d.add_all(values), d.add_all(codes), d.add_all(other);
    std::vector<float> threaded(floats().size());
    narrow::round_array(floats(), threaded, bf16, {.rounding = Rounding::stochastic}, 7, 4);
    d.add_all(threaded);
  });
}

TEST_CASE("array: statistics and histograms and blocks give the same bits in every floating-point environment") {
  std::vector<narrow::FormatCast> formats;
  for (const char* name : {"fp16", "bf16", "e4m3", "e5m2", "e2m1", "tf32", "int8", "e8m0", "fp64"})
    formats.push_back({test::row_of(name).format});
  std::vector<narrow::ScaledFormat> scaled;
  for (const narrow::FormatCast& to : formats) scaled.push_back({to, 5});
  const std::vector<double> wide(floats().begin(), floats().begin() + 5000);
  const narrow::BlockShape shape = narrow::BlockShape::by_piece(64, 1000, 128);
  test::check_environments("statistics", [&](Digest& d) {
    for (const double scale : {1.0, 1024.0, 0.1, 1e-30}) {
      add(d, narrow::statistics(floats(), formats, scale, 0, 3));
      add(d, narrow::statistics(wide, formats, scale));
    }
    const narrow::HistogramWithShares h = narrow::exponent_histogram(floats(), scaled, 3);
    for (const narrow::SignCounts& c : h.histogram.binades) d.add(c.total());
    d.add(h.histogram.subnormal.total());
    for (const narrow::ExactShares& s : h.shares) d.add(s.underflow), d.add(s.subnormal), d.add(s.overflow);
    for (const narrow::FormatCast& to : formats) {
      const narrow::HistogramShares s = narrow::shares_from_histogram(h.histogram, to, -130 + 4);
      d.add(s.underflow.lower), d.add(s.subnormal.upper), d.add(s.overflow.upper);
    }
    d.add_all(narrow::block_amax(floats(), shape));
    for (const narrow::Statistics& s : narrow::block_statistics(floats(), shape, formats, 3.0)) add(d, s);
    const narrow::Distribution spread =
        narrow::distribution(std::vector<double>(floats().begin() + 10, floats().begin() + 20));
    d.add(spread.mean), d.add(spread.deviation);
  });
}

// Integers alone: no guard is needed, and there is none.
TEST_CASE("array: the scalar functions give the same bits in every floating-point environment") {
  for (const test::Row& row : test::rows())
    test::check_environments(row.name.c_str(), [&](Digest& d) {
      for (std::size_t i = 0; i < 400; ++i)
        for (const Cast& cast : environment_casts()) {
          const float x = floats()[i];
          const narrow::Code a = narrow::encode(x, row.format, cast, i);
          d.add(a), d.add(narrow::round_to(x, row.format, cast, i)), d.add(narrow::decode(a, row.format));
        }
    });
  test::check_environments("Number", [&](Digest& d) {
    using Bf16 = narrow::Number<"bf16"_fmt>;
    for (std::size_t i = 1; i < 2000; ++i) {
      const Bf16 a = floats()[i], b = floats()[i - 1];
      d.add((a + b).code()), d.add((a * b).code()), d.add((a / b).code()), d.add(static_cast<float>(a));
    }
  });
}
