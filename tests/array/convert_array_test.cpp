// Does convert_array give the codes of the scalar convert, with a table and without, stochastic or not?
#include "narrow/array/array.hpp"

#include <doctest/doctest.h>

#include "array/inputs.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/random.hpp"
#include "narrow/round/convert.hpp"

using narrow::Cast;
using narrow::Code;
using narrow::Rounding;
using test::Mismatches;
using test::Row;

namespace {

template <class In, class Out>
void compare(std::size_t count, const Row& from, const Row& to, const Cast& cast, Mismatches& wrong, int threads = 1) {
  if (from.format.width() > static_cast<int>(8 * sizeof(In)) || to.format.width() > static_cast<int>(8 * sizeof(Out)))
    return;
  constexpr std::uint64_t seed = 11;
  std::vector<In> in(count);
  std::vector<Out> out(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<In>(test::mix(i));
  narrow::convert_array<In, Out>(in, from.format, out, to.format, cast, seed, threads);
  for (std::size_t i = 0; i < count; ++i) {
    const Code code = in[i] & oracle::ones(from.format.width());
    const std::uint64_t random = cast.rounding == Rounding::stochastic ? narrow::random_bits(seed, i) : 0;
    const Code want = narrow::convert(code, from.format, to.format, cast, random);
    if (want != out[i])
      wrong.add([&] {
        return from.name + " " + test::hex(code) + " to " + to.name + " [" + test::describe(cast) + "] element " +
               std::to_string(i) + ": scalar " + test::hex(want) + ", convert_array " + test::hex(out[i]);
      });
  }
}

const Cast convert_casts[] = {
    {}, {.rounding = Rounding::down, .overflow = narrow::Overflow::saturate}, {.rounding = Rounding::stochastic}};

}  // namespace

TEST_CASE("array: codes convert between any two formats as the scalar function converts them") {
  for (const Row& from : test::array_rows()) {
    Mismatches wrong;
    for (const Row& to : test::array_rows())
      for (const Cast& cast : convert_casts) {
        compare<std::uint64_t, std::uint64_t>(test::scaled(600, 200), from, to, cast, wrong);  // 8 bits: by a table
        compare<std::uint32_t, std::uint32_t>(64, from, to, cast, wrong);
      }
    wrong.require_none(from.name);
  }
}

TEST_CASE("array: every pair of code types converts alike") {
  Mismatches wrong;
  const Row e5m2 = test::row_of("e5m2"), e2m1 = test::row_of("e2m1");
  const auto check = [&]<class In>(In) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{67}, std::size_t{700}})
      for (const Cast& cast : convert_casts) {
        compare<In, std::uint8_t>(count, e5m2, e2m1, cast, wrong);
        compare<In, std::uint16_t>(count, e5m2, e2m1, cast, wrong);
        compare<In, std::uint32_t>(count, e5m2, e2m1, cast, wrong);
        compare<In, std::uint64_t>(count, e5m2, e2m1, cast, wrong);
      }
  };
  check(std::uint8_t{});
  check(std::uint16_t{});
  check(std::uint32_t{});
  check(std::uint64_t{});
  wrong.require_none("e5m2 to e2m1");
}

TEST_CASE("array: long code arrays convert alike on any number of threads") {
  Mismatches wrong;
  for (const Cast& cast : convert_casts)
    for (const int threads : {1, 2, 3, 7}) {
      compare<std::uint16_t, std::uint8_t>(3 * 65536 + 5, test::row_of("fp16"), test::row_of("e4m3"), cast, wrong,
                                           threads);
      compare<std::uint8_t, std::uint16_t>(65536 + 5, test::row_of("e4m3"), test::row_of("bf16"), cast, wrong, threads);
    }
  wrong.require_none("fp16 to e4m3");
}

TEST_CASE("array: convert_array refuses sizes that differ and codes that do not fit and bad random_bits") {
  const narrow::Format fp16 = test::row_of("fp16").format, e4m3 = test::row_of("e4m3").format;
  std::vector<std::uint16_t> halves(4), fewer(3);
  std::vector<std::uint8_t> bytes(4);
  using Half = std::uint16_t;
  using Byte = std::uint8_t;
  CHECK_THROWS_AS((narrow::convert_array<Half, Half>(halves, fp16, fewer, e4m3)), narrow::Error);
  CHECK_THROWS_AS((narrow::convert_array<Half, Byte>(halves, e4m3, bytes, fp16)), narrow::Error);
  CHECK_THROWS_AS((narrow::convert_array<Byte, Half>(bytes, fp16, halves, e4m3)), narrow::Error);
  for (const int random_bits : {0, 65})
    CHECK_THROWS_AS((narrow::convert_array<Half, Half>(halves, fp16, halves, e4m3,
                                                       {.rounding = Rounding::stochastic, .random_bits = random_bits})),
                    narrow::Error);
}
