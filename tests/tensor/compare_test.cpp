// Do two tensors differ where and by how much a plain loop over ordinal() says?
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "files.hpp"
#include "make_tensors.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/compare_tensors.hpp"
#include "narrow/text/text.hpp"
#include "support/scale.hpp"

using namespace test;
using narrow::Comparison;
using narrow::Difference;
using narrow::ElementKind;
using narrow::ElementType;
using narrow::Tensor;
using narrow::operator""_fmt;

namespace {

bool is_nan(std::uint64_t code, const ElementType& type) {
  return type.has_format() && narrow::is_nan(code, type.format);
}

// The order of the values as an integer that is wide enough for every type.
__extension__ typedef __int128 Wide;
Wide place(std::uint64_t code, const ElementType& type) {
  const int bits = type.bits / type.values();
  if (type.has_format()) return narrow::ordinal(code, type.format);
  if (type.kind == ElementKind::signed_integer && (code >> (bits - 1) & 1) != 0) return Wide{code} - (Wide{1} << bits);
  return code;
}

// Straight from the definitions in compare_tensors.hpp.
Comparison naive(const std::vector<std::uint64_t>& x, const std::vector<std::uint64_t>& y, const ElementType& type,
                 std::size_t listed) {
  Comparison c;
  for (std::size_t i = 0; i < x.size(); ++i) {
    ++c.total;
    if (x[i] == y[i]) {
      ++c.equal;
      continue;
    }
    Difference d{i, x[i], y[i], 0};
    if (is_nan(x[i], type) && is_nan(y[i], type)) ++c.nan_payload;
    else if (is_nan(x[i], type) || is_nan(y[i], type)) ++c.nan_mismatch, d.ulp.reset();
    else {
      const Wide apart = place(x[i], type) - place(y[i], type);
      d.ulp = static_cast<std::uint64_t>(apart < 0 ? -apart : apart);
      if (*d.ulp == 0) ++c.zero_sign_mismatch;
      c.max_ulp = std::max(c.max_ulp, *d.ulp);
      std::size_t bin = 0;
      for (std::uint64_t last = 0; last < *d.ulp; last = bin == 1 ? 1 : last * 2) {
        ++bin;
        if (bin == 65) break;
      }
      ++c.by_ulp[bin];
    }
    c.worst.push_back(d);
    if (c.first.size() < listed) c.first.push_back(d);
  }
  std::stable_sort(c.worst.begin(), c.worst.end(), [](const Difference& a, const Difference& b) {
    if (!a.ulp || !b.ulp) return !a.ulp && b.ulp;
    return *a.ulp > *b.ulp;
  });
  if (c.worst.size() > listed) c.worst.resize(listed);
  return c;
}

bool same(const std::vector<Difference>& a, const std::vector<Difference>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Difference& p, const Difference& q) {
    return p.index == q.index && p.x == q.x && p.y == q.y && p.ulp == q.ulp;
  });
}

void check_same(const Comparison& a, const Comparison& b) {
  CHECK(a.total == b.total);
  CHECK(a.equal == b.equal);
  CHECK(a.nan_mismatch == b.nan_mismatch);
  CHECK(a.nan_payload == b.nan_payload);
  CHECK(a.zero_sign_mismatch == b.zero_sign_mismatch);
  CHECK(a.max_ulp == b.max_ulp);
  CHECK(a.by_ulp == b.by_ulp);
  CHECK(same(a.first, b.first));
  CHECK(same(a.worst, b.worst));
}

// Pairs of all kinds: equal, a few ulp apart, anything, zeros of unlike sign, NaN against NaN and against numbers.
struct Codes {
  std::vector<std::uint64_t> x, y;
};
Codes pairs_of(const ElementType& type, std::size_t n, std::uint64_t seed, std::uint64_t one_in) {
  const int bits = type.has_format() ? type.format.width() : type.kind == ElementKind::boolean ? 1 : type.bits;
  const std::uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
  Codes codes;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t r = narrow::random_bits(seed, 2 * i), s = narrow::random_bits(seed, 2 * i + 1);
    std::uint64_t x = r & mask, y = x;
    if (s % one_in == 0) switch (s >> 32 & 7) {
        case 0: y = s >> 8 & mask; break;
        case 1: y = (x + 1) & mask; break;
        case 2: y = (x + 5) & mask; break;
        case 3: x = 0, y = type.has_format() ? type.format.sign_mask() : 1; break;
        case 4:
          if (type.has_format() && type.format.has_nan()) y = type.format.nan_code();
          break;
        case 5:
          if (type.has_format() && type.format.has_nan()) x = type.format.nan_code(), y = (x ^ 1) & mask;
          break;
        case 6: y = x ^ (1ull << (bits - 1)); break;
        default: y = x ^ 1; break;
      }
    codes.x.push_back(x), codes.y.push_back(y);
  }
  return codes;
}

}  // namespace

TEST_CASE("compare: every type gives what a plain loop over the codes gives") {
  const std::size_t n = 8 * scaled(2500, 600);  // whole bytes for every type, and more than one block
  for (const ElementType& type : narrow::element_types()) {
    CAPTURE(type.name);
    for (const std::uint64_t one_in : {1, 50, 5000}) {
      const Codes codes = pairs_of(type, n, 7 + one_in, one_in);
      const Tensor x = tensor_of_codes(type, codes.x), y = tensor_of_codes(type, codes.y);
      check_same(narrow::compare_tensors(x, y), naive(codes.x, codes.y, type, 10));
      check_same(narrow::compare_tensors(x, y, {.listed = 3, .threads = 1}), naive(codes.x, codes.y, type, 3));
    }
  }
}

TEST_CASE("compare: the bins of the distances are 0 1 2 3-4 5-8 and so on") {
  CHECK(narrow::ulp_bin(0) == 0);
  CHECK(narrow::ulp_bin(1) == 1);
  CHECK(narrow::ulp_bin(2) == 2);
  CHECK(narrow::ulp_bin(3) == 3);
  CHECK(narrow::ulp_bin(4) == 3);
  CHECK(narrow::ulp_bin(5) == 4);
  CHECK(narrow::ulp_bin(8) == 4);
  CHECK(narrow::ulp_bin(~0ull) == 65);
}

TEST_CASE("compare: order and byte order of the files do not matter") {
  const std::uint64_t rows = 61, cols = 37;
  const std::vector<float> a = mixed_floats(rows * cols, 1);
  std::vector<float> b = a;
  for (std::size_t i = 5; i < b.size(); i += 97) b[i] = -b[i];
  const Tensor x = tensor_of("F32", a, {rows, cols}), y = tensor_of("F32", b, {rows, cols});
  const Comparison expected = narrow::compare_tensors(x, y);
  CHECK(!expected.equal_bits());
  check_same(narrow::compare_tensors(as_fortran("F32", a, rows, cols), y), expected);
  check_same(narrow::compare_tensors(x, as_fortran("F32", b, rows, cols)), expected);
  check_same(narrow::compare_tensors(as_fortran("F32", a, rows, cols), as_fortran("F32", b, rows, cols)), expected);
  check_same(narrow::compare_tensors(as_big_endian(x), y), expected);
  check_same(narrow::compare_tensors(as_big_endian(x), as_big_endian(y)), expected);
  check_same(narrow::compare_tensors(as_stream(x), as_stream(y)), expected);
  check_same(narrow::compare_tensors(as_stream(as_fortran("F32", a, rows, cols)), y), expected);
}

TEST_CASE("compare: pieces and threads do not show in the result") {
  std::vector<float> a = mixed_floats(narrow::chunk_values + 70001, 3), b = a;
  for (const std::size_t i : {std::size_t{0}, narrow::chunk_values - 1, narrow::chunk_values, a.size() - 1}) {
    a[i] = 1.0f;
    b[i] = 1.0f + 0x1p-23f * static_cast<float>(i % 7 + 1);
  }
  const Tensor x = tensor_of("F32", a), y = tensor_of("F32", b);
  const Comparison one = narrow::compare_tensors(x, y, {.threads = 1});
  CHECK(one.total - one.equal == 4);
  REQUIRE(one.first.size() == 4);
  CHECK(one.first[1].index == narrow::chunk_values - 1);
  CHECK(one.first[2].index == narrow::chunk_values);
  check_same(narrow::compare_tensors(x, y, {.threads = 4}), one);
  std::uint64_t bytes = 0;
  check_same(narrow::compare_tensors(as_stream(x), y, {.threads = 2}, [&](std::uint64_t done) { bytes += done; }), one);
  CHECK(bytes == x.bytes() + y.bytes());
}

TEST_CASE("compare: what is allowed counts zeros and NaN by their kind") {
  const Tensor zero = tensor_of<float>("F32", {0.0f, 1.0f}), minus = tensor_of<float>("F32", {-0.0f, 1.0f});
  CHECK(!narrow::compare_tensors(zero, minus).equal_bits());
  CHECK(narrow::compare_tensors(zero, minus).within(0));
  const Tensor nan = tensor_of<std::uint32_t>("F32", {0x7FC00000, 0x3F800000}),
               other = tensor_of<std::uint32_t>("F32", {0xFFC00001, 0x3F800000});
  CHECK(narrow::compare_tensors(nan, other).within(0));
  CHECK(!narrow::compare_tensors(nan, zero).within(~0ull));
}

TEST_CASE("compare: unlike shapes and types are refused in one line") {
  const Tensor x = tensor_of<float>("F32", {1, 2, 3, 4}), wide = tensor_of<float>("F32", {1, 2, 3, 4}, {2, 2});
  const Tensor integers = tensor_of<std::uint32_t>("U32", {1, 2, 3, 4}),
               halves = tensor_of<std::uint16_t>("F16", {1, 2, 3, 4});
  const auto refused = [&](const Tensor& y) { return error_of([&] { (void)narrow::compare_tensors(x, y); }); };
  CHECK(refused(wide).find("shapes [4] and [2, 2]") != std::string::npos);
  CHECK(refused(integers).find("F32 and U32") != std::string::npos);
  CHECK(refused(halves).find("F32 and F16") != std::string::npos);
  const Tensor none = tensor_of<float>("F32", {}, {0, 3});
  CHECK(narrow::compare_tensors(none, none).equal_bits());
}

// Each pair against the scalar functions: rounded once to the format, and then codes against codes.
TEST_CASE("compare: floating numbers of two types are compared in the format that both are rounded to") {
  const std::vector<float> a = mixed_floats(10000, 5);
  for (const char* name : {"bf16", "e4m3", "e3m2", "tf32", "fp64"}) {
    CAPTURE(name);
    const narrow::Format f = narrow::require_format(name);
    std::vector<std::uint64_t> x, y;
    std::vector<std::uint16_t> halves;
    for (std::size_t i = 0; i < a.size(); ++i) {
      halves.push_back(static_cast<std::uint16_t>(narrow::encode(a[i], "bf16"_fmt) + (i % 7 == 0 ? 1 : 0)));
      x.push_back(narrow::encode(a[i], f));
      // What has the format already keeps its bits, but a NaN that met a rounding has no bits of its own.
      y.push_back(f == "bf16"_fmt ? halves.back() : narrow::encode(narrow::decode(halves.back(), "bf16"_fmt), f));
      if (narrow::is_nan(x.back(), f) && narrow::is_nan(y.back(), f)) y.back() = x.back();
    }
    const Tensor wide = tensor_of("F32", a), narrower = tensor_of("BF16", halves);
    const ElementType type{"", ElementKind::floating, f.width(), f, ""};
    for (const Tensor& first : {wide, as_stream(as_big_endian(wide))})
      check_same(narrow::compare_tensors(first, narrower, {.in = f}), naive(x, y, type, 10));
  }
}

TEST_CASE("compare: a tolerance is asked of the values and any limit that holds is enough") {
  constexpr float inf = HUGE_VALF, nan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    float x, y;
    double atol, rtol;
    bool close;
  };
  const Case cases[] = {{1, 1.5f, 0.5, 0, true},   {1, 1.5f, 0.25, 0, false}, {2, 3, 0, 0.5, true},
                        {3, 2, 0, 0.25, false},    {2, 3, 0.5, 0.25, true},   {0, 0x1p-149f, 0, 1, false},
                        {0.0f, -0.0f, 0, 0, true}, {nan, nan, 0, 0, true},    {nan, 1, 9, 9, false},
                        {1, nan, 9, 9, false},     {inf, inf, 0, 0, true},    {inf, -inf, 9, 9, false},
                        {inf, 1, 9, 9, false},     {1, inf, 9, 9, false},     {-2, -3, 0, 0.5, true}};
  for (const Case& c : cases) {
    CAPTURE(c.x);
    CAPTURE(c.y);
    const Tensor x = tensor_of<float>("F32", {c.x}), y = tensor_of<float>("F32", {c.y});
    const Tensor as_double = tensor_of<double>("F64", {static_cast<double>(c.y)});
    const narrow::CompareOptions limits{.atol = c.atol, .rtol = c.rtol};
    CHECK((narrow::compare_tensors(x, y, limits).outside == 0) == c.close);
    const Comparison two_types = narrow::compare_tensors(x, as_double, limits);
    CHECK((two_types.outside == 0) == c.close);
    CHECK(!two_types.has_ulp);
  }
  const Tensor x = tensor_of<float>("F32", {1, 4}), y = tensor_of<float>("F32", {1 + 0x1p-22f, 4.5f});
  const Comparison found = narrow::compare_tensors(x, y, {.max_ulp = 2, .atol = 0.25});
  CHECK(found.outside == 1);  // 2 ulp are allowed, 0.5 is not
  CHECK(found.max_abs == 0.5);
  CHECK(found.max_rel == 0.125);
  CHECK(narrow::compare_tensors(x, y, {.max_ulp = 2, .atol = 0.5}).outside == 0);
  const Tensor bytes = tensor_of<std::uint8_t>("U8", {1, 9}), other = tensor_of<std::uint8_t>("U8", {3, 9});
  CHECK(narrow::compare_tensors(bytes, other, {.atol = 2}).outside == 0);
  CHECK(narrow::compare_tensors(bytes, other, {.atol = 1}).outside == 1);
}
