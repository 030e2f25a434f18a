#include "narrow/cuda/arrays.hpp"

#include <cmath>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/device_memory.hpp"
#include "narrow/array/array.hpp"
#include "narrow/base/random.hpp"
#include "narrow/format/format_table.hpp"

namespace {

// Any bits, and among them values around one; a size that is no multiple of a vector.
std::vector<float> inputs() {
  std::vector<float> x(1'200'003);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint64_t r = narrow::random_bits(11, i);
    const auto any = static_cast<std::uint32_t>(r);
    x[i] = std::bit_cast<float>((r >> 32 & 1) != 0 ? any : (any & 0x87FFFFFFu) | 0x38000000u);
  }
  return x;
}

constexpr narrow::Cast casts[] = {{},
                                  {.rounding = narrow::Rounding::toward_zero},
                                  {.overflow = narrow::Overflow::saturate, .nan = narrow::Nan::keep_sign},
                                  {.rounding = narrow::Rounding::up},
                                  {.subnormals = narrow::Subnormals::flush_results},
                                  {.rounding = narrow::Rounding::stochastic, .random_bits = 16},
                                  {.rounding = narrow::Rounding::stochastic, .overflow = narrow::Overflow::saturate}};

// Sums are rounded in another order on the device, in float over sixteen elements.
constexpr double sum_tolerance = 1e-5;
bool is_close(double a, double b) { return std::abs(a - b) <= sum_tolerance * std::abs(b); }

void check_statistics(const narrow::Statistics& got, const narrow::InputStatistics& in,
                      const narrow::FormatStatistics& w) {
  const auto& g = got.formats[0];
  CHECK(got.input.count == in.count);
  CHECK(got.input.zeros == in.zeros);
  CHECK(got.input.nan == in.nan);
  CHECK(got.input.inf == in.inf);
  CHECK(got.input.amax == in.amax);
  CHECK(got.input.min_nonzero == in.min_nonzero);
  CHECK(g.underflow == w.underflow);
  CHECK(g.subnormal == w.subnormal);
  CHECK(g.overflow == w.overflow);
  CHECK(g.saturated == w.saturated);
  CHECK(g.compared == w.compared);
  CHECK(is_close(g.squared_error, w.squared_error));
  CHECK(is_close(g.signal, w.signal));
  CHECK(is_close(g.max_relative_error, w.max_relative_error));
}

void check_histogram(const narrow::ExponentHistogram& got, const narrow::ExponentHistogram& want) {
  const auto same = [](const narrow::SignCounts& a, const narrow::SignCounts& b) {
    return a.negative == b.negative && a.positive == b.positive;
  };
  CHECK(same(got.zero, want.zero));
  CHECK(same(got.subnormal, want.subnormal));
  CHECK(same(got.inf, want.inf));
  CHECK(same(got.nan, want.nan));
  for (int e = narrow::ExponentHistogram::min_exponent; e <= narrow::ExponentHistogram::max_exponent; ++e)
    CHECK(same(got.binade(e), want.binade(e)));
}

// As many formats as make one pass, fewer and more. add: puts the pass over the values on the device.
template <class Add>
void check_tally(std::span<const float> values, const Add& add) {
  const narrow::Cast saturate{.overflow = narrow::Overflow::saturate}, cut{.rounding = narrow::Rounding::toward_zero};
  const auto format = [](const char* name) { return *narrow::find_format(name); };
  const narrow::FormatCast all[] = {{format("fp16"), {}},
                                    {format("e4m3"), saturate},
                                    {format("bf16"), cut},
                                    {format("e5m2"), {}},
                                    {format("e2m1"), cut}};
  for (const std::size_t formats : {0, 1, 3, 5}) {
    const std::span to(all, formats);
    CAPTURE(formats);
    test::OnDevice<narrow::DeviceHistogram> histogram(1);
    test::OnDevice<narrow::DeviceStatistics> out(5);
    add(to, histogram.data(), out.data());
    check_histogram(histogram.host()[0].host(), narrow::exponent_histogram(values));
    const narrow::Statistics want = narrow::statistics(values, to);
    for (std::size_t i = 0; i < formats; ++i) check_statistics(out.host()[i].host(), want.input, want.formats[i]);
  }
}

}  // namespace

TEST_CASE("cuda: casts on the device give the bits of the host for every format and cast") {
  if (!test::has_device()) return;
  const std::vector<float> x = inputs();
  const test::OnDevice<float> in(x);
  for (const narrow::NamedFormat& row : narrow::format_table) {
    if (row.format.width() > 32) continue;
    for (const narrow::Cast& cast : casts) {
      CAPTURE(row.name);
      std::vector<std::uint32_t> want(x.size());
      narrow::encode_array(x, row.format, cast, want, 3);
      test::OnDevice<std::uint32_t> codes(x.size());
      narrow::encode_on_device(in.data(), codes.data(), x.size(), row.format, cast, 3, nullptr);
      CHECK(codes.host() == want);
      std::vector<float> values(x.size());
      narrow::round_array(x, values, row.format, cast, 3);
      test::OnDevice<float> rounded(x.size());
      narrow::round_on_device(in.data(), rounded.data(), x.size(), row.format, cast, 3, nullptr);
      CHECK(test::same_bits(rounded.host(), values));
    }
  }
}

TEST_CASE("cuda: formats beside the table get the bits of the host as well") {
  if (!test::has_device()) return;
  const std::vector<float> x = inputs();
  const test::OnDevice<float> in(x);
  for (const char* name : {"e5m22", "e7m22", "e8m22", "e5m21", "e7m16", "e8m10fn", "e3m3f"}) {
    const narrow::Format f = *narrow::find_format(name);
    for (const narrow::Cast& cast : casts) {
      CAPTURE(name);
      std::vector<std::uint32_t> want(x.size());
      narrow::encode_array(x, f, cast, want, 3);
      test::OnDevice<std::uint32_t> codes(x.size());
      narrow::encode_on_device(in.data(), codes.data(), x.size(), f, cast, 3, nullptr);
      CHECK(codes.host() == want);
    }
  }
}

TEST_CASE("cuda: decoding on the device gives the bits of the host for every code") {
  if (!test::has_device()) return;
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const test::OnDevice<std::uint16_t> in(all);
  for (const narrow::NamedFormat& row : narrow::format_table) {
    if (row.format.width() > 16) continue;
    CAPTURE(row.name);
    std::vector<float> want(all.size());
    narrow::decode_array(all, row.format, want);
    test::OnDevice<float> out(all.size());
    narrow::decode_on_device(in.data(), out.data(), all.size(), row.format, nullptr);
    CHECK(test::same_bits(out.host(), want));
  }
}

TEST_CASE("cuda: statistics on the device count what the host counts") {
  if (!test::has_device()) return;
  const std::vector<float> x = inputs();
  const test::OnDevice<float> in(x);
  for (const char* name : {"fp16", "bf16", "tf32", "e4m3", "e5m2", "e2m1"})
    for (const narrow::Cast& cast : {casts[0], casts[1], casts[2]}) {
      const narrow::FormatCast to{*narrow::find_format(name), cast};
      CAPTURE(name);
      const narrow::Statistics want = narrow::statistics(x, std::span(&to, 1));
      test::OnDevice<narrow::DeviceStatistics> out(1);
      narrow::statistics_on_device(in.data(), x.size(), to, out.data(), nullptr);
      check_statistics(out.host()[0].host(), want.input, want.formats[0]);
    }
}

TEST_CASE("cuda: the histogram on the device is that of the host") {
  if (!test::has_device()) return;
  const std::vector<float> x = inputs();
  const test::OnDevice<float> in(x);
  test::OnDevice<narrow::DeviceHistogram> out(1);
  narrow::histogram_on_device(in.data(), x.size(), out.data(), nullptr);
  check_histogram(out.host()[0].host(), narrow::exponent_histogram(x));
}

TEST_CASE("cuda: one pass for both counts what the host counts, of floats and of codes") {
  if (!test::has_device()) return;
  const std::vector<float> x = inputs();
  const test::OnDevice<float> in(x);
  // No whole tile, one, many and a rest; from an address that vectors cannot start at.
  for (const std::size_t first : {0, 1})
    for (const std::size_t count : {std::size_t{0}, std::size_t{4095}, std::size_t{4096}, x.size() - 1}) {
      CAPTURE(first);
      CAPTURE(count);
      check_tally(std::span(x).subspan(first, count), [&](auto to, auto* histogram, auto* out) {
        narrow::tally_on_device(in.data() + first, count, to, histogram, out, nullptr);
      });
      for (const char* name : {"bf16", "fp16", "e4m3", "e5m2"}) {
        CAPTURE(name);
        const narrow::Format f = *narrow::find_format(name);
        const auto of_codes = [&]<class Code>(Code, std::size_t alike) {
          std::vector<Code> codes(x.size());
          for (std::size_t i = 0; i < x.size(); ++i) codes[i] = static_cast<Code>(narrow::random_bits(12, i / alike));
          std::vector<float> values(count);
          narrow::decode_array(std::span<const Code>(codes).subspan(first, count), f, values);
          const test::OnDevice<Code> on_device(codes);
          const Code* data = on_device.data() + first;
          if constexpr (sizeof(Code) == 1)
            check_tally(values, [&](auto to, auto* histogram, auto* out) {
              narrow::tally_on_device(data, f, count, to, histogram, out, nullptr);
            });
          else {  // with counts twice: they are zero again after the first
            const test::OnDevice<narrow::CodeCounts> counts(1);
            for (narrow::CodeCounts* place : {static_cast<narrow::CodeCounts*>(nullptr), counts.data(), counts.data()})
              check_tally(values, [&](auto to, auto* histogram, auto* out) {
                narrow::tally_on_device(data, f, count, to, histogram, out, place, nullptr);
              });
          }
        };
        for (const std::size_t alike : {1, 40'000})  // so many equal codes in a row
          f.width() == 8 ? of_codes(std::uint8_t(), alike) : of_codes(std::uint16_t(), alike);
      }
    }
}
