// What must hold whatever the format, the carrier and the mode: identity, order, symmetry, bounded error.
#include <doctest/doctest.h>

#include <algorithm>

#include "narrow/format/neighbours.hpp"
#include "support/against_oracle.hpp"
#include "support/scale.hpp"

using narrow::Cast;
using narrow::Code;
using narrow::Format;
using narrow::Overflow;
using narrow::Rounding;

namespace {

template <class Body>
void for_each_row_and_mode(const Body& body) {
  for (const test::Row& row : test::rows())
    for (const Rounding rounding : test::roundings) {
      test::Mismatches wrong;
      body(row, Cast{.rounding = rounding}, wrong);
      wrong.require_none(row.name + " " + test::name(rounding));
    }
}

Rounding mirrored(Rounding r) { return r == Rounding::up ? Rounding::down : r == Rounding::down ? Rounding::up : r; }

template <class T>
void check_identity(const test::Row& row, const Cast& cast, test::Mismatches& wrong) {
  const Format& f = row.format;
  for (const Code m : test::magnitudes(f, test::scaled(1 << 12)))
    for (const bool negative : {false, true}) {
      if (negative && (!f.has_sign || (m == 0 && !f.has_negative_zero()))) continue;
      const Code code = f.with_sign(m, negative);
      const double value = narrow::decode(code, f);
      if (static_cast<double>(static_cast<T>(value)) != value) continue;  // not in this carrier
      const Code back = narrow::encode(static_cast<T>(value), f, cast, test::mix(m));
      if (back != code) wrong.add([&] { return test::hex(code) + " becomes " + test::hex(back); });
    }
}

template <class T>
void check_order(const test::Row& row, Cast cast, test::Mismatches& wrong) {
  cast.overflow = Overflow::saturate;  // NaN has no place in the order
  std::vector<T> inputs;
  for (std::uint64_t i = 0; i < test::scaled(1 << 13); ++i) {
    const T x = test::spread<T>(i, row.format);
    if (x == x && (row.format.has_sign || x >= 0)) inputs.push_back(x);
  }
  std::sort(inputs.begin(), inputs.end());
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    // One random value for both: stochastic rounding is monotone for each random value, since the rest is.
    const Code a = narrow::encode(inputs[i - 1], row.format, cast, 12345),
               b = narrow::encode(inputs[i], row.format, cast, 12345);
    if (narrow::ordinal(a, row.format) > narrow::ordinal(b, row.format))
      wrong.add(
          [&] { return test::hex_float(inputs[i - 1]) + " and " + test::hex_float(inputs[i]) + " change places"; });
  }
}

template <class T>
void check_symmetry(const test::Row& row, Cast cast, test::Mismatches& wrong) {
  const Format& f = row.format;
  if (!f.has_sign || f.twos_complement) return;
  Cast other = cast;
  other.rounding = mirrored(cast.rounding);
  cast.nan = other.nan = narrow::Nan::keep_sign;
  for (std::uint64_t i = 0; i < test::scaled(1 << 13); ++i) {
    const T x = test::spread<T>(i, f);
    const Code a = narrow::encode(x, f, cast, i), b = narrow::encode(-x, f, other, i);
    const bool zero_or_nan = (a & f.magnitude_mask()) == 0;  // without -0 there is one zero and one NaN
    const bool mirror = b == (a ^ f.sign_mask()) || (!f.has_negative_zero() && zero_or_nan && a == b);
    if (x == x && !mirror)
      wrong.add([&] { return test::hex_float(x) + " " + test::hex(a) + " against " + test::hex(b); });
  }
}

// Exact arithmetic: at most half a quantum for the nearest modes, less than one for the others, and on the right side.
template <class T>
void check_error(const test::Row& row, const Cast& cast, test::Mismatches& wrong) {
  const Format& f = row.format;
  const double largest = narrow::largest(f), lowest = f.has_sign ? narrow::lowest(f) : 0;
  const bool nearest = cast.rounding <= Rounding::nearest_to_zero;
  for (std::uint64_t i = 1; i < test::scaled(1 << 12); i += 2) {
    const T x = test::spread<T>(i, f);
    const auto wide = static_cast<double>(x);
    if (!(wide <= largest && wide >= lowest) || x == 0) continue;
    if (!f.has_zero && wide < largest && wide < narrow::smallest_positive(f)) continue;  // no zero to go to
    const double result = narrow::decode(narrow::encode(x, f, cast, test::mix(i)), f);
    const oracle::Rational error = oracle::from_double(result) - oracle::from_double(wide);
    const int exponent = oracle::quantum_exponent(std::ilogb(wide), f);
    const oracle::Rational bound = oracle::power_of_two(nearest ? exponent - 1 : exponent);
    const bool small = nearest ? !(bound < abs(error)) : abs(error) < bound;
    const bool side = !(cast.rounding == Rounding::up && error.is_negative()) &&
                      !(cast.rounding == Rounding::down && error.num > 0) &&
                      !(cast.rounding == Rounding::toward_zero && std::fabs(result) > std::fabs(wide));
    if (!small || !side) wrong.add([&] { return test::hex_float(wide) + " becomes " + test::hex_float(result); });
  }
}

}  // namespace

TEST_CASE("round: a representable value stays in every mode and from every carrier") {
  for_each_row_and_mode([](const auto& row, const Cast& cast, auto& wrong) {
    check_identity<float>(row, cast, wrong);
    check_identity<double>(row, cast, wrong);
  });
}

TEST_CASE("round: larger inputs never give smaller results") {
  for_each_row_and_mode([](const auto& row, const Cast& cast, auto& wrong) {
    check_order<float>(row, cast, wrong);
    check_order<double>(row, cast, wrong);
  });
}

TEST_CASE("round: a changed sign changes the sign and mirrors the directed modes") {
  for_each_row_and_mode([](const auto& row, const Cast& cast, auto& wrong) {
    check_symmetry<float>(row, cast, wrong);
    check_symmetry<double>(row, cast, wrong);
  });
}

TEST_CASE("round: the error is at most half a quantum or less than one and on the side of the mode") {
  for_each_row_and_mode([](const auto& row, const Cast& cast, auto& wrong) {
    check_error<float>(row, cast, wrong);
    check_error<double>(row, cast, wrong);
  });
}
