// Does each value of a tensor fall into its own binade?
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "make_tensors.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/tensor_statistics.hpp"
#include "narrow/text/text.hpp"

using namespace test;
using narrow::BinadeCounts;
using narrow::SignCounts;
using narrow::Tensor;

namespace {

template <class T>
BinadeCounts naive(const std::vector<T>& values, T scale) {
  const int least = std::numeric_limits<T>::min_exponent - 1;
  BinadeCounts c{least, std::vector<SignCounts>(static_cast<std::size_t>(std::numeric_limits<T>::max_exponent - least)),
                 {},    {},
                 {},    {}};
  for (const T value : values) {
    const T x = value * scale;
    SignCounts& place = std::isnan(x)   ? c.nan
                        : std::isinf(x) ? c.inf
                        : x == 0        ? c.zero
                        : std::abs(x) < std::numeric_limits<T>::min()
                            ? c.subnormal
                            : c.binades[static_cast<std::size_t>(std::ilogb(x) - least)];
    ++(std::signbit(x) ? place.negative : place.positive);
  }
  return c;
}

bool same(const SignCounts& a, const SignCounts& b) { return a.negative == b.negative && a.positive == b.positive; }

void check_same(const BinadeCounts& a, const BinadeCounts& b) {
  CHECK(a.min_exponent == b.min_exponent);
  REQUIRE(a.binades.size() == b.binades.size());
  for (std::size_t k = 0; k < a.binades.size(); ++k) CHECK(same(a.binades[k], b.binades[k]));
  CHECK(same(a.zero, b.zero));
  CHECK(same(a.subnormal, b.subnormal));
  CHECK(same(a.inf, b.inf));
  CHECK(same(a.nan, b.nan));
}

std::vector<double> wide_doubles(std::size_t n) {
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(std::bit_cast<double>(narrow::random_bits(23, i)));
  for (const double x : {0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 0x1p-1074, -0x1p-1023, 0x1p-1022})
    values.push_back(x);
  return values;
}

}  // namespace

// By the scalar functions: what each value becomes, in its own binade.
template <class T>
void check_fates(const std::string& type, const std::vector<T>& values, const char* name, double scale) {
  CAPTURE(name);
  const narrow::FormatCast to{narrow::require_format(name)};
  const narrow::BinadeFates got = narrow::tensor_fates(tensor_of(type, values), to, scale);
  narrow::BinadeFates want{got.min_exponent, std::vector<narrow::Fates>(got.binades.size())};
  for (const T x : values) {
    const T s = x * static_cast<T>(scale);
    if (s == 0 || !std::isfinite(s)) continue;
    const narrow::Code code = narrow::encode(s, to.format);
    const narrow::ValueClass kind = narrow::classify(code, to.format);
    const int k = std::max(0, std::ilogb(s) - got.min_exponent + 1);
    ++want.binades[static_cast<std::size_t>(k)][narrow::overflows(s, to.format)         ? narrow::Fate::beyond
                                                : kind == narrow::ValueClass::zero      ? narrow::Fate::zero
                                                : kind == narrow::ValueClass::subnormal ? narrow::Fate::subnormal
                                                                                        : narrow::Fate::normal];
  }
  for (std::size_t i = 0; i < want.binades.size(); ++i) CHECK(got.binades[i].of == want.binades[i].of);
  CHECK(got.all().total() > 0);
}

TEST_CASE("histogram of a tensor: the fate of each value in a format is counted in its binade") {
  std::vector<float> floats = mixed_floats(200000, 29);
  for (const float x : {448.0f, 464.0f, 465.0f, 479.0f, 511.0f, 65519.0f, 65520.0f, 0x1p-10f, 0x1.8p-10f, 0x1p-25f})
    floats.insert(floats.end(), {x, -x});
  for (const char* name : {"fp16", "bf16", "e4m3", "e5m2", "e2m1", "int8"})
    for (const double scale : {1.0, 0x1p12}) check_fates("F32", floats, name, scale);
  const std::vector<double> doubles = wide_doubles(20000);
  for (const char* name : {"fp16", "fp32", "e4m3"}) check_fates("F64", doubles, name, 1);
  narrow::BinadeFates sum = narrow::tensor_fates(tensor_of("F32", floats), {narrow::require_format("fp16")});
  const narrow::BinadeFates wide = narrow::tensor_fates(tensor_of("F64", doubles), {narrow::require_format("fp16")});
  const std::uint64_t total = sum.all().total() + wide.all().total();
  sum.merge(wide);
  CHECK(sum.all().total() == total);
  CHECK(sum.min_exponent == -1022);
}

TEST_CASE("histogram of a tensor: floats and doubles fall into the binades of ilogb") {
  const std::vector<float> floats = mixed_floats(narrow::chunk_values + 100, 21);
  const std::vector<double> doubles = wide_doubles(100000);
  for (const float scale : {1.0f, 3.0f, 0x1p-30f}) {
    CAPTURE(scale);
    const auto wide = static_cast<double>(scale);
    check_same(narrow::tensor_histogram(tensor_of("F32", floats), wide), naive(floats, scale));
    check_same(narrow::tensor_histogram(tensor_of("F64", doubles), wide), naive(doubles, wide));
    check_same(narrow::tensor_histogram(as_stream(tensor_of("F64", doubles)), wide, {.threads = 1}),
               naive(doubles, wide));
  }
  CHECK(narrow::tensor_histogram(tensor_of("F32", floats)).count() == floats.size());
}

TEST_CASE("histogram of a tensor: tensors of both carriers add up") {
  const std::vector<float> floats = mixed_floats(3000, 22);
  const std::vector<double> doubles = wide_doubles(3000);
  const BinadeCounts narrow_counts = narrow::tensor_histogram(tensor_of("F32", floats));
  const BinadeCounts wide_counts = narrow::tensor_histogram(tensor_of("F64", doubles));
  BinadeCounts a, b;
  a.merge(narrow_counts), a.merge(wide_counts);
  b.merge(wide_counts), b.merge(narrow_counts);
  check_same(a, b);
  CHECK(a.count() == floats.size() + doubles.size());
  const auto at = [](const BinadeCounts& c, int e) { return c.binades[static_cast<std::size_t>(e - c.min_exponent)]; };
  for (const int e : {-126, -40, 0, 15})
    CHECK(at(a, e).total() == at(narrow_counts, e).total() + at(wide_counts, e).total());
}
