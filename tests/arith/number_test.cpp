// Number<F>: construction, operators, comparison, hashing and formatting are the functions on codes under other names.
#include "narrow/arith/number.hpp"

#include <array>
#include <limits>
#include <unordered_set>
#include <utility>

#include "arith/check.hpp"
#include "arith/operands.hpp"
#include "narrow/fmt.hpp"
#include "support/scale.hpp"

using namespace test;
using narrow::Number;
using narrow::operator""_fmt;

namespace {

using Fp16 = Number<"fp16"_fmt>;
using E4m3 = Number<"e4m3"_fmt>;
using E5m2 = Number<"e5m2"_fmt>;

static_assert(sizeof(E4m3) == 1 && sizeof(Number<"e2m1"_fmt>) == 1 && sizeof(Fp16) == 2 &&
              sizeof(Number<"bf16"_fmt>) == 2);
static_assert(sizeof(Number<"tf32"_fmt>) == 4 && sizeof(Number<"fp32"_fmt>) == 4 && sizeof(Number<"fp64"_fmt>) == 8);
static_assert(std::is_trivially_copyable_v<Fp16> && Fp16{}.code() == 0);

// All of it at compile time.
static_assert(Fp16(1) / Fp16(3) * 3 == Fp16(1) && (Fp16(2048) + 1).code() == Fp16(2048).code());
static_assert(fma(Fp16(3), Fp16(0.5), Fp16(-1.5)).code() == 0 && sqrt(Fp16(2.25)) == 1.5 && abs(-Fp16(2)) == 2);
static_assert(E4m3(1000.0f).code() == 0x7F && isnan(E4m3(1000)) && E4m3(-0.0).code() == 0x80);
static_assert(isinf(E5m2(1e9)) && E5m2(E4m3(448)) == E5m2(448) && static_cast<double>(E5m2(1.2)) == 1.25);
static_assert(static_cast<int>(Fp16(-7.9)) == -7 && static_cast<float>(Fp16(0.1)) == 0x1.998p-4f);
static_assert(fmin(Fp16(1), std::numeric_limits<Fp16>::quiet_NaN()) == 1 && fmax(Fp16(1), Fp16(2)) == 2);

template <std::size_t I>
constexpr Format format_of_row = narrow::format_table[I].format;
template <class Visit, std::size_t... I>
void visit_rows(const Visit& visit, std::index_sequence<I...>) {
  (visit(std::integral_constant<std::size_t, I>{}), ...);
}
template <class Visit>
void for_each_row(const Visit& visit) {
  visit_rows(visit, std::make_index_sequence<std::size(narrow::format_table)>{});
}

}  // namespace

TEST_CASE("arith: the operators of a number are the functions on its code") {
  for_each_row([](auto index) {
    constexpr Format f = format_of_row<index>;
    using N = Number<f>;
    CAPTURE(narrow::format_table[index].name);
    std::size_t different = 0;
    for (std::uint64_t i = 0; i < scaled(1u << 12); ++i) {
      const Triple t = hard_triple(i, f);
      const N a = N::from_code(t.a), b = N::from_code(t.b), c = N::from_code(t.c);
      N sum = a, difference = a, product = a, quotient = a;
      sum += b, difference -= b, product *= b, quotient /= b;
      const std::array<std::pair<Code, Code>, 15> pairs = {{
          {(a + b).code(), narrow::add(t.a, t.b, f)},
          {sum.code(), narrow::add(t.a, t.b, f)},
          {(a - b).code(), narrow::sub(t.a, t.b, f)},
          {difference.code(), narrow::sub(t.a, t.b, f)},
          {(a * b).code(), narrow::mul(t.a, t.b, f)},
          {product.code(), narrow::mul(t.a, t.b, f)},
          {(a / b).code(), narrow::div(t.a, t.b, f)},
          {quotient.code(), narrow::div(t.a, t.b, f)},
          {sqrt(a).code(), narrow::sqrt(t.a, f)},
          {fma(a, b, c).code(), narrow::fma(t.a, t.b, t.c, f)},
          {(-a).code(), narrow::negate(t.a, f)},
          {abs(a).code(), narrow::absolute(t.a, f)},
          {(+a).code(), t.a},
          {fmin(a, b).code(), narrow::minimum_number(t.a, t.b, f)},
          {fmax(a, b).code(), narrow::maximum_number(t.a, t.b, f)},
      }};
      for (const auto& [got, want] : pairs) different += got != want ? 1 : 0;
      different += (a <=> b) != narrow::compare(t.a, t.b, f) ? 1 : 0;
      different += (a == b) != (narrow::compare(t.a, t.b, f) == 0) ? 1 : 0;
    }
    CHECK(different == 0);
  });
}

TEST_CASE("arith: a number from an integer or a float or a double is that value rounded once") {
  for_each_row([](auto index) {
    constexpr Format f = format_of_row<index>;
    using N = Number<f>;
    CAPTURE(narrow::format_table[index].name);
    std::size_t different = 0;
    for (std::uint64_t i = 0; i < scaled(1u << 13); ++i) {
      const std::uint64_t word = mix(i) >> (i % 64);
      const auto integer = static_cast<std::int64_t>(i % 2 == 0 ? word : 0 - word);
      different += N(word).code() != oracle::round_rational({oracle::Integer(word)}, false, f) ? 1 : 0;
      different += N(integer).code() != oracle::round_rational({oracle::Integer(integer)}, false, f) ? 1 : 0;
      const auto small = static_cast<std::int16_t>(integer);
      different += N(small).code() != oracle::round_rational({oracle::Integer(small)}, false, f) ? 1 : 0;
      different += N(spread<float>(i, f)).code() != oracle::round(spread<float>(i, f), f) ? 1 : 0;
      different += N(spread<double>(i, f)).code() != oracle::round(spread<double>(i, f), f) ? 1 : 0;
    }
    CHECK(different == 0);
    constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
    CHECK(N(lowest).code() == oracle::round_rational({oracle::Integer(lowest)}, false, f));
  });
}

TEST_CASE("arith: mixed expressions convert the other operand to the number's format") {
  CHECK((Fp16(1) + 2).code() == Fp16(3).code());
  CHECK((0.1 * Fp16(1)).code() == Fp16(0.1).code());
  CHECK((Fp16(1) - 0.5f).code() == Fp16(0.5).code());
  CHECK((1 < Fp16(1.5) && Fp16(1.5) <= 1.5 && Fp16(2) != 3));
}

TEST_CASE("arith: a NaN number is unordered and both zeros are equal with equal hashes") {
  const Fp16 nan = std::numeric_limits<Fp16>::quiet_NaN(), zero = 0.0, minus = -0.0;
  CHECK_FALSE((nan == nan || nan < zero || nan > zero || nan <= nan));
  CHECK(nan != nan);
  CHECK(zero == minus);
  CHECK(zero.code() != minus.code());
  CHECK(std::hash<Fp16>{}(zero) == std::hash<Fp16>{}(minus));
  const std::unordered_set<Fp16> set = {zero, minus, 1, 1.0f, Fp16(2)};
  CHECK(set.size() == 3);
}

TEST_CASE("arith: fmt prints a number as its exact value with the specification of a double") {
  CHECK(fmt::format("{}", Fp16(0.1)) == "0.0999755859375");
  CHECK(fmt::format("{:.2f}|{:>6}|{:a}", Fp16(1.5), E4m3(448), Fp16(-2)) == "1.50|   448|-0x1p+1");
  CHECK(fmt::format("{} {} {}", -std::numeric_limits<Fp16>::infinity(), E4m3(1e9), E4m3(-0.0)) == "-inf nan -0");
}
