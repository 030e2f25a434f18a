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
  std::vector<float> x(1'000'003);
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
                                  {.rounding = narrow::Rounding::stochastic, .random_bits = 16}};

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
  // Sums are rounded in another order on the device, in float over sixteen elements.
  constexpr double sum_tolerance = 1e-5;
  for (const char* name : {"fp16", "bf16", "tf32", "e4m3", "e5m2", "e2m1"})
    for (const narrow::Cast& cast : {casts[0], casts[1], casts[2]}) {
      const narrow::FormatCast to{*narrow::find_format(name), cast};
      CAPTURE(name);
      const narrow::Statistics want = narrow::statistics(x, std::span(&to, 1));
      test::OnDevice<narrow::DeviceStatistics> out(1);
      narrow::statistics_on_device(in.data(), x.size(), to, out.data(), nullptr);
      const narrow::Statistics got = out.host()[0].host();
      const auto& w = want.formats[0];
      const auto& g = got.formats[0];
      CHECK(got.input.count == want.input.count);
      CHECK(got.input.zeros == want.input.zeros);
      CHECK(got.input.nan == want.input.nan);
      CHECK(got.input.inf == want.input.inf);
      CHECK(got.input.amax == want.input.amax);
      CHECK(got.input.min_nonzero == want.input.min_nonzero);
      CHECK(g.underflow == w.underflow);
      CHECK(g.subnormal == w.subnormal);
      CHECK(g.overflow == w.overflow);
      CHECK(g.saturated == w.saturated);
      CHECK(g.compared == w.compared);
      CHECK(std::abs(g.squared_error - w.squared_error) <= sum_tolerance * w.squared_error);
      CHECK(std::abs(g.signal - w.signal) <= sum_tolerance * w.signal);
      CHECK(std::abs(g.max_relative_error - w.max_relative_error) <= sum_tolerance * w.max_relative_error);
    }
}

TEST_CASE("cuda: the histogram on the device is that of the host") {
  if (!test::has_device()) return;
  const std::vector<float> x = inputs();
  const test::OnDevice<float> in(x);
  test::OnDevice<narrow::DeviceHistogram> out(1);
  narrow::histogram_on_device(in.data(), x.size(), out.data(), nullptr);
  const narrow::ExponentHistogram got = out.host()[0].host(), want = narrow::exponent_histogram(x);
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
