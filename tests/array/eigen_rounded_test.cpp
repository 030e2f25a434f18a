// Do Eigen's float matrices and arrays round, add, multiply and fuse as the scalar functions do, element by element?
#include <doctest/doctest.h>

#include "array/inputs.hpp"
#include "narrow/arith/arith.hpp"
#include "narrow/base/random.hpp"
#include "narrow/eigen.hpp"

using Eigen::ArrayXf;
using Eigen::Index;
using Eigen::MatrixXf;
using narrow::Cast;
using narrow::Code;
using narrow::Format;
using narrow::Rounding;
using test::Mismatches;
using test::Row;

namespace {

constexpr std::uint64_t eigen_seed = 23;

// Formats whose values float holds, of every kind.
constexpr const char* names[] = {"fp16",     "bf16", "tf32", "fp32", "e4m3", "e5m2",
                                 "e4m3fnuz", "e2m1", "int8", "e8m0", "e3m0f"};

const Cast casts[] = {{},
                      {.overflow = narrow::Overflow::saturate},
                      {.rounding = Rounding::down, .nan = narrow::Nan::keep_payload},
                      {.rounding = Rounding::up, .subnormals = narrow::Subnormals::flush_results},
                      {.rounding = Rounding::toward_zero, .subnormals = narrow::Subnormals::flush_inputs},
                      {.rounding = Rounding::to_odd},
                      {.rounding = Rounding::stochastic, .random_bits = 9}};

ArrayXf floats(Index size, const Format& f, std::uint64_t start) {
  const auto list = test::sprinkled<float>(static_cast<std::uint64_t>(size), f, start);
  return Eigen::Map<const ArrayXf>(list.data(), size);
}

// Codes in random order, and the floats that they mean.
std::vector<Code> random_codes(Index size, const Format& f, std::uint64_t start) {
  std::vector<Code> codes;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(size); ++i)
    codes.push_back(test::mix(start + i) & oracle::ones(f.width()));
  return codes;
}
ArrayXf values_of(const std::vector<Code>& codes, const Format& f) {
  ArrayXf values(static_cast<Index>(codes.size()));
  for (std::size_t i = 0; i < codes.size(); ++i)
    values[static_cast<Index>(i)] = static_cast<float>(narrow::decode(codes[i], f));
  return values;
}

// A NaN that goes through a float and back is what encode makes of it; every other code comes back as itself.
Code through_float(Code code, const Format& f, const Cast& cast) {
  return narrow::is_nan(code, f) ? narrow::encode(static_cast<float>(narrow::decode(code, f)), f, cast) : code;
}

// want(i): the code that the scalar function gives for element i.
template <class Want>
void compare(const ArrayXf& got, const Row& row, const Cast& cast, const char* what, Mismatches& wrong,
             const Want& want) {
  for (Index i = 0; i < got.size(); ++i) {
    const float w = static_cast<float>(narrow::decode(want(static_cast<std::size_t>(i)), row.format));
    if (test::bits(w) != test::bits(got[i]))
      wrong.add([&] {
        return std::string(what) + " " + row.name + " [" + test::describe(cast) + "] element " + std::to_string(i) +
               ": scalar " + test::hex(test::bits(w)) + ", array " + test::hex(test::bits(got[i]));
      });
  }
}

}  // namespace

TEST_CASE("array: rounded gives every element of a matrix the bits of round_to") {
  for (const char* name : names) {
    const Format f = test::row_of(name).format;
    for (const Cast& cast : casts) {
      const ArrayXf a = floats(7 * 30, f, 0);
      const MatrixXf m = Eigen::Map<const MatrixXf>(a.data(), 7, 30);
      const ArrayXf rounded_array = narrow::rounded(a, f, cast, eigen_seed);
      const MatrixXf rounded_matrix = narrow::rounded(m, f, cast, eigen_seed);
      CHECK(rounded_matrix.rows() == 7);
      CHECK(rounded_matrix.cols() == 30);
      for (Index i = 0; i < a.size(); ++i) {
        const std::uint64_t random =
            cast.rounding == Rounding::stochastic ? narrow::random_bits(eigen_seed, static_cast<std::uint64_t>(i)) : 0;
        const auto want = test::bits(narrow::round_to(a[i], f, cast, random));
        CHECK(want == test::bits(rounded_array[i]));
        CHECK(want == test::bits(rounded_matrix.data()[i]));
      }
    }
  }
}

TEST_CASE("array: rounded takes expressions and maps and fixed sizes and leaves its argument alone") {
  const Format f = test::row_of("e4m3").format;
  MatrixXf a = MatrixXf::Constant(3, 4, 1.07f);
  a(2, 1) = -2.2f;
  const MatrixXf before = a;
  const MatrixXf sum = narrow::rounded(a + a, f);
  CHECK(sum(0, 0) == 2.25f);
  CHECK(sum(2, 1) == -4.5f);
  CHECK(narrow::rounded(a.transpose(), f)(1, 2) == -2.25f);
  CHECK(narrow::rounded(a.block(2, 1, 1, 2), f)(0, 0) == -2.25f);
  CHECK(narrow::rounded(Eigen::Vector3f(0.1f, 0.2f, 500.0f), f, {.overflow = narrow::Overflow::saturate}) ==
        Eigen::Vector3f(0.1015625f, 0.203125f, 448.0f));
  CHECK(narrow::rounded(MatrixXf(0, 5), f).cols() == 5);
  CHECK(a == before);
  static_assert(std::is_same_v<decltype(narrow::rounded(a + a, f)), MatrixXf>);
  static_assert(std::is_same_v<decltype(narrow::rounded(a.array() * 2, f)), Eigen::ArrayXXf>);
}

TEST_CASE("array: values of a format are added and multiplied and fused as their codes are") {
  const Index size = static_cast<Index>(test::scaled(2000, 200));
  for (const char* name : names) {
    const Row row = test::row_of(name);
    const Format& f = row.format;
    const auto x = random_codes(size, f, 1), y = random_codes(size, f, 1u << 20), z = random_codes(size, f, 1u << 30);
    const ArrayXf a = values_of(x, f), b = values_of(y, f), c = values_of(z, f);
    Mismatches wrong;
    for (const Cast& cast : casts) {
      const auto code = [&](const std::vector<Code>& codes, std::size_t i) { return through_float(codes[i], f, cast); };
      compare(narrow::rounded_add(a, b, f, cast, eigen_seed), row, cast, "add", wrong, [&](std::size_t i) {
        return narrow::add(code(x, i), code(y, i), f, cast, narrow::random_bits(eigen_seed, i));
      });
      compare(narrow::rounded_mul(a, b, f, cast, eigen_seed), row, cast, "mul", wrong, [&](std::size_t i) {
        return narrow::mul(code(x, i), code(y, i), f, cast, narrow::random_bits(eigen_seed, i));
      });
      compare(narrow::rounded_fma(a, b, c, f, cast, eigen_seed), row, cast, "fma", wrong, [&](std::size_t i) {
        return narrow::fma(code(x, i), code(y, i), code(z, i), f, cast, narrow::random_bits(eigen_seed, i));
      });
    }
    wrong.require_none(row.name);
  }
}

TEST_CASE("array: operands that are no values of the format are rounded to it first") {
  const Row row = test::row_of("e4m3");
  const ArrayXf a = floats(500, row.format, 0), b = floats(500, row.format, 5000);
  const ArrayXf ra = narrow::rounded(a, row.format), rb = narrow::rounded(b, row.format);
  const ArrayXf direct = narrow::rounded_add(a, b, row.format), twice = narrow::rounded_add(ra, rb, row.format);
  for (Index i = 0; i < a.size(); ++i) CHECK(test::bits(direct[i]) == test::bits(twice[i]));
}

// 1 + 2^-30 is above 1, and float and double sums of wide exponents would forget it.
TEST_CASE("array: a sum far below the last bit still counts for the directed modes") {
  const Format f = test::row_of("bf16").format;
  const ArrayXf one = ArrayXf::Constant(1, 1.0f), tiny = ArrayXf::Constant(1, 0x1p-100f);
  CHECK(narrow::rounded_add(one, tiny, f, {.rounding = Rounding::up})[0] == 1.0078125f);
  CHECK(narrow::rounded_fma(one, one, -tiny, f, {.rounding = Rounding::toward_zero})[0] == 0.99609375f);
  CHECK(narrow::rounded_add(one, tiny, f)[0] == 1.0f);
}

TEST_CASE("array: a value of the format counts as it is though the cast would flush or saturate it as a result") {
  const Format fp16 = test::row_of("fp16").format;
  const ArrayXf inf = ArrayXf::Constant(1, std::numeric_limits<float>::infinity());
  const ArrayXf subnormal = ArrayXf::Constant(1, 0x1p-20f), big = ArrayXf::Constant(1, 1024.0f);
  CHECK(std::isnan(narrow::rounded_add(inf, -inf, fp16, {.overflow = narrow::Overflow::saturate})[0]));
  CHECK(narrow::rounded_mul(subnormal, big, fp16, {.subnormals = narrow::Subnormals::flush_results})[0] == 0x1p-10f);
}

TEST_CASE("array: operands of unlike shape and formats beyond float are refused") {
  const MatrixXf a = MatrixXf::Ones(2, 3), b = MatrixXf::Ones(3, 2);
  const Format e4m3 = test::row_of("e4m3").format;
  CHECK_THROWS_AS(narrow::rounded_add(a, b, e4m3), narrow::Error);
  CHECK_THROWS_AS(narrow::rounded_fma(a, a, b, e4m3), narrow::Error);
  CHECK_NOTHROW(narrow::rounded_mul(a, b.transpose(), e4m3));
  CHECK_THROWS_AS(narrow::rounded_add(a, a, test::row_of("fp64").format), narrow::Error);
  CHECK_THROWS_AS(narrow::rounded_mul(a, a, test::row_of("e9m10").format), narrow::Error);
  CHECK_THROWS_AS(narrow::rounded(a, e4m3, {.rounding = Rounding::stochastic, .random_bits = 0}), narrow::Error);
  CHECK_THROWS_AS(narrow::rounded_add(a, a, e4m3, {.rounding = Rounding::stochastic, .random_bits = 65}),
                  narrow::Error);
}
