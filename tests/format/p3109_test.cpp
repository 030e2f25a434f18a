// IEEE P3109 (draft 4.0), small formats of every width, precision, signedness and domain: values from section 4.7.2,
// rounding from 4.7.3 to 4.7.5, in exact doubles. Shares nothing with the library or with tests/support.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "narrow/format/decode.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"

using narrow::Cast;
using narrow::Code;
using narrow::find_format;
using narrow::Format;
using narrow::Overflow;
using narrow::Rounding;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), no_number = std::numeric_limits<double>::quiet_NaN();

// A format as the draft describes it.
struct Small {
  int bits, precision;
  bool is_signed, is_extended;

  int bias() const { return 1 << (is_signed ? bits - precision - 1 : bits - precision); }
  Code nan_code() const { return is_signed ? Code{1} << (bits - 1) : (Code{1} << bits) - 1; }
  Code half() const { return Code{1} << (bits - 1); }  // signed: the first code with a minus
  // The largest finite code that is not negative.
  Code top() const {
    const Code all = is_signed ? half() - 1 : (Code{1} << bits) - 2;
    return is_extended ? all - 1 : all;
  }
  std::string name() const {
    return "binary" + std::to_string(bits) + "p" + std::to_string(precision) + (is_signed ? "s" : "u") +
           (is_extended ? "e" : "f");
  }
  double value(Code code) const {
    if (code == nan_code()) return no_number;
    if (is_signed && code > half()) return -value(code - half());
    if (is_extended && code == top() + 1) return inf;
    const Code one = Code{1} << (precision - 1), fraction = code % one, field = code / one;
    const auto mantissa = std::ldexp(static_cast<double>(fraction), 1 - precision);
    return field == 0 ? std::ldexp(mantissa, 1 - bias()) : std::ldexp(1 + mantissa, static_cast<int>(field) - bias());
  }
  // What follows the largest finite value when exponents have no end: its place in the order of codes goes on.
  double beyond() const {
    const Code one = Code{1} << (precision - 1), code = top() + 1;
    return std::ldexp(1 + std::ldexp(static_cast<double>(code % one), 1 - precision),
                      static_cast<int>(code / one) - bias());
  }
};

// Formats whose values and whose next value above the largest are doubles.
std::vector<Small> all_small(int least_bits, int most_bits) {
  std::vector<Small> list;
  for (int bits = least_bits; bits <= most_bits; ++bits)
    for (const bool is_signed : {true, false})
      for (const bool is_extended : {true, false})
        for (int p = 1; p <= (is_signed ? bits - 1 : bits); ++p) list.push_back({bits, p, is_signed, is_extended});
  return list;
}
// The exponent field of P3109 has as many bits as this, and double holds eleven of them.
bool fits_double(const Small& s) {
  const int exponent_bits = s.bits - s.precision + (s.is_signed ? 0 : 1);
  return exponent_bits <= 11 && 1 - s.bias() - (s.precision - 1) >= -1074;
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof a) == 0; }

// Magnitudes between two neighbours of the order: below, above, and the parity of the lower code.
Code rounded(const Small& s, double x, Rounding mode, bool saturates) {
  const bool negative = x < 0;
  const double size = std::fabs(x);
  Code low = 0, high = s.top() + 1;  // the last code not above; high: one beyond
  while (high - low > 1) {
    const Code middle = low + (high - low) / 2;
    if (s.value(middle) <= size) low = middle;
    else high = middle;
  }
  const double below = s.value(low), above = low == s.top() ? s.beyond() : s.value(low + 1);
  bool beyond = size >= above;  // only above the largest value
  if (!beyond && size != below) {
    const double middle = below + (above - below) / 2;
    const bool even = low % 2 == 0;
    bool up = false;
    switch (mode) {
      case Rounding::nearest_even: up = size > middle || (size == middle && !even); break;
      case Rounding::nearest_away: up = size >= middle; break;
      case Rounding::nearest_to_zero: up = size > middle; break;
      case Rounding::toward_zero: break;
      case Rounding::up: up = !negative; break;
      case Rounding::down: up = negative; break;
      case Rounding::to_odd: up = even; break;
      case Rounding::stochastic: break;
    }
    if (up && low == s.top()) beyond = true;
    else if (up) ++low;
  }
  if (negative && !s.is_signed) {  // below the range, unless it became zero
    if (!beyond && low == 0) return 0;
    return saturates || mode == Rounding::toward_zero || mode == Rounding::up ? 0 : s.nan_code();
  }
  const Code minus = negative ? s.half() : 0;
  if (!beyond) return low == 0 ? 0 : low + minus;
  const bool back = mode == Rounding::toward_zero || mode == (negative ? Rounding::up : Rounding::down) ||
                    (mode == Rounding::to_odd && !(s.is_signed && s.is_extended));
  if (saturates || back) return s.top() + minus;
  return s.is_extended ? s.top() + 1 + minus : s.nan_code();  // Overflow::to_special gives NaN without Inf
}

constexpr Rounding modes[] = {Rounding::nearest_even, Rounding::nearest_away, Rounding::nearest_to_zero,
                              Rounding::toward_zero,  Rounding::up,           Rounding::down,
                              Rounding::to_odd};

}  // namespace

TEST_CASE("format: every code of every P3109 format has the value of the draft") {
  std::size_t codes = 0;
  for (const Small& s : all_small(3, 15)) {
    CAPTURE(s.name());
    const auto f = find_format(s.name());
    REQUIRE(f.has_value() == fits_double(s));
    if (!f) continue;
    REQUIRE(f->width() == s.bits);
    Code wrong = 0;
    for (Code c = 0; c < Code{1} << s.bits; ++c, ++codes) wrong += same(narrow::decode(c, *f), s.value(c)) ? 0 : 1;
    CHECK(wrong == 0);
    CHECK(f->max_code() == s.top());
    CHECK(f->nan_code() == s.nan_code());
    CHECK(f->has_infinity() == s.is_extended);
  }
  CHECK(codes > 1'000'000);
}

TEST_CASE("format: values and middles and their neighbours round as P3109 says") {
  for (const Small& s : all_small(3, 10)) {
    if (!fits_double(s)) continue;
    const Format f = *find_format(s.name());
    CAPTURE(s.name());
    std::vector<double> inputs{0, 0x1p-1074, 0x1.fffffffffffffp1023, s.beyond()};
    for (Code c = 0; c <= s.top(); ++c) {
      const double low = s.value(c), high = c == s.top() ? s.beyond() : s.value(c + 1), middle = low + (high - low) / 2;
      for (const double x : {low, middle}) {
        inputs.push_back(x);
        inputs.push_back(std::nextafter(x, 0.0));
        inputs.push_back(std::nextafter(x, inf));
      }
    }
    std::size_t wrong = 0;
    for (const Rounding mode : modes)
      for (const Overflow overflow : {Overflow::to_special, Overflow::saturate})
        for (const double size : inputs)
          for (const double x : {size, -size}) {
            const Code got = narrow::encode(x, f, Cast{.rounding = mode, .overflow = overflow});
            if (got != rounded(s, x, mode, overflow == Overflow::saturate) && ++wrong <= 3)
              MESSAGE(s.name(), " mode ", static_cast<int>(mode), " overflow ", static_cast<int>(overflow), ": ", x,
                      " gives ", got, ", expected ", rounded(s, x, mode, overflow == Overflow::saturate));
          }
    CHECK(wrong == 0);
  }
}

TEST_CASE("format: Inf and NaN go where a P3109 format has them") {
  for (const Small& s : all_small(3, 10)) {
    if (!fits_double(s)) continue;
    const Format f = *find_format(s.name());
    CAPTURE(s.name());
    const Cast saturate{.overflow = Overflow::saturate};
    CHECK(narrow::encode(no_number, f) == s.nan_code());
    CHECK(narrow::encode(inf, f, saturate) == s.top());
    CHECK(narrow::encode(inf, f) == (s.is_extended ? s.top() + 1 : s.nan_code()));
    CHECK(narrow::encode(-inf, f, saturate) == (s.is_signed ? s.top() + s.half() : 0));
    CHECK(narrow::encode(-inf, f) == (s.is_signed && s.is_extended ? s.top() + 1 + s.half() : s.nan_code()));
    CHECK(narrow::encode(-0.0, f) == 0);
  }
}

// The tables of the value files of the draft: largest and smallest positive values of the 8-bit formats.
TEST_CASE("format: the limits of the 8-bit P3109 formats are those of its tables") {
  struct Limits {
    int precision;
    double extended, finite, positive;
  };
  const Limits of_signed[] = {{1, 0x1p62, 0x1p63, 0x1p-63},  {2, 0x1p31, 0x1.8p31, 0x1p-32}, {3, 49152, 57344, 0x1p-17},
                              {4, 224, 240, 0x1p-10},        {5, 15, 15.5, 0x1p-7},          {6, 3.875, 3.9375, 0x1p-6},
                              {7, 1.96875, 1.984375, 0x1p-6}};
  const Limits of_unsigned[] = {{1, 0x1p125, 0x1p126, 0x1p-127},  {2, 0x1.8p62, 0x1p63, 0x1p-64},
                                {3, 0x1.4p31, 0x1.8p31, 0x1p-33}, {4, 53248, 57344, 0x1p-18},
                                {5, 232, 240, 0x1p-11},           {6, 15.25, 15.5, 0x1p-8},
                                {7, 3.90625, 3.9375, 0x1p-7},     {8, 1.9765625, 1.984375, 0x1p-7}};
  const auto check = [](const Limits& l, const char* sign) {
    const std::string name = "binary8p" + std::to_string(l.precision) + sign;
    CAPTURE(name);
    CHECK(narrow::largest(*find_format(name + "e")) == l.extended);
    CHECK(narrow::largest(*find_format(name + "f")) == l.finite);
    CHECK(narrow::smallest_positive(*find_format(name + "e")) == l.positive);
    CHECK(narrow::decode(sign[0] == 's' ? 0x40 : 0x80, *find_format(name + "e")) == 1);
  };
  for (const Limits& l : of_signed) check(l, "s");
  for (const Limits& l : of_unsigned) check(l, "u");
}

TEST_CASE("format: names of P3109 ignore letter case and have a short form; others find none") {
  CHECK(find_format("binary8p3") == find_format("Binary8P3SE"));
  CHECK(find_format("binary8p4sf") == find_format("e4m3fnuz"));
  CHECK(find_format("binary8p3sf") == find_format("e5m2fnuz"));
  CHECK(find_format("binary16p11se").has_value());
  CHECK(find_format("binary16") == find_format("fp16"));  // IEEE 754's
  for (const char* name : {"binary8p0se", "binary8p8se", "binary8p9ue", "binary2p1se", "binary8p3x", "binary8p3s",
                           "binary8p3see", "binary08p3", "binary8p", "binary8", "binary15p1ue", "binary13p1se"})
    CHECK_MESSAGE(!find_format(name), name);
}
