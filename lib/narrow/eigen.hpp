// Number<F> as an Eigen scalar: products, norms and factorisations with a rounding after every operation. And for real
// work: matrices and arrays of float rounded to a format, and added, multiplied and fused with one rounding an element.
//
//   using Half = Number<"fp16"_fmt>;
//   const Eigen::Matrix<Half, 2, 2> m = Eigen::Matrix<Half, 2, 2>::Constant(Half(0.1F));
//   const Eigen::Matrix<Half, 2, 2> product = m * m;  // every operation rounds
#pragma once

#include <Eigen/Core>
#include <span>
#include <type_traits>

#include "narrow/arith/number.hpp"
#include "narrow/array/array.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/random.hpp"

// What Eigen asks of a scalar.
template <narrow::Format F>
struct Eigen::NumTraits<narrow::Number<F>> : Eigen::GenericNumTraits<narrow::Number<F>> {
  using Number = narrow::Number<F>;
  using Real = Number;
  using NonInteger = Number;
  using Nested = Number;
  using Literal = double;
  enum {
    IsComplex = 0,
    IsInteger = F.is_integer() ? 1 : 0,
    IsSigned = F.has_sign ? 1 : 0,
    RequireInitialization = 1,
    ReadCost = 1,
    AddCost = 16,
    MulCost = 16
  };
  static Number epsilon() { return std::numeric_limits<Number>::epsilon(); }
  // How far two results may lie apart and still count as equal: half the digits, as Eigen does for float and double.
  static Number dummy_precision() { return Number(static_cast<double>(1ull << (F.mantissa_bits / 2)) * narrow::epsilon(F)); }
  static Number highest() { return std::numeric_limits<Number>::max(); }
  static Number lowest() { return std::numeric_limits<Number>::lowest(); }
  static Number infinity() { return std::numeric_limits<Number>::infinity(); }
  static Number quiet_NaN() { return std::numeric_limits<Number>::quiet_NaN(); }
  static int digits10() { return std::numeric_limits<Number>::digits10; }
};

namespace narrow {

// Any dense expression of floats, as its plain type. Stochastic casts take random_bits(seed, index in memory).
template <class A>
typename A::PlainObject rounded(const Eigen::DenseBase<A>& a, const Format& f, const Cast& cast = {},
                                std::uint64_t seed = 0) {
  static_assert(std::is_same_v<typename A::Scalar, float>, "rounded works on floats");
  typename A::PlainObject result = a.derived();
  const std::span<float> data(result.data(), static_cast<std::size_t>(result.size()));
  round_array(data, data, f, cast, seed);
  return result;
}

namespace detail {

// The code of an operand. A value of the format keeps its code, also where the cast would flush or saturate it as a
// result; anything else is rounded to the format first, under the cast, or to nearest even where that is stochastic.
inline Code operand_code(float x, const Format& f, Cast cast) noexcept {
  const Code code = encode(x, f, {.nan = cast.nan});
  if (decode(code, f) == static_cast<double>(x)) return code;
  if (cast.rounding == Rounding::stochastic) cast.rounding = Rounding::nearest_even;
  return encode(x, f, cast);
}

// operation(random word, codes of one element of each operand...) for all elements.
template <class A, class Operation, class... Rest>
typename A::PlainObject by_codes(const Format& f, const Cast& cast, std::uint64_t seed, const Operation& operation,
                                 const Eigen::DenseBase<A>& a, const Eigen::DenseBase<Rest>&... rest) {
  using Plain = typename A::PlainObject;
  static_assert(std::is_same_v<typename A::Scalar, float> && (std::is_same_v<typename Rest::Scalar, float> && ...),
                "rounded operations work on floats");
  if (!f.is_valid() || f.mantissa_bits > 23 || f.max_exponent() > 127 || f.min_quantum_exponent() < -149)
    throw Error("rounded operations need a format whose values float holds: a second rounding would follow");
  if (cast.random_bits < 1 || cast.random_bits > 64)
    throw Error("random_bits is " + std::to_string(cast.random_bits) + ": 1 to 64 are possible");
  if (!((a.rows() == rest.rows() && a.cols() == rest.cols()) && ...))
    throw Error("rounded operations need operands of equal rows and columns");
  Plain result = a.derived();
  [&](const auto&... others) {
    for (Eigen::Index i = 0; i < result.size(); ++i) {
      const std::uint64_t random = random_bits(seed, static_cast<std::uint64_t>(i));
      const Code code =
          operation(random, operand_code(result.data()[i], f, cast), operand_code(others.data()[i], f, cast)...);
      result.data()[i] = static_cast<float>(decode(code, f));
    }
  }(Plain(rest.derived())...);
  return result;
}

}  // namespace detail

// Element by element, each with one rounding in every mode: the codes go through the exact arithmetic of arith.hpp.
template <class A, class B>
typename A::PlainObject rounded_add(const Eigen::DenseBase<A>& a, const Eigen::DenseBase<B>& b, const Format& f,
                                    const Cast& cast = {}, std::uint64_t seed = 0) {
  return detail::by_codes(
      f, cast, seed, [&](std::uint64_t random, Code x, Code y) { return add(x, y, f, cast, random); }, a, b);
}
template <class A, class B>
typename A::PlainObject rounded_mul(const Eigen::DenseBase<A>& a, const Eigen::DenseBase<B>& b, const Format& f,
                                    const Cast& cast = {}, std::uint64_t seed = 0) {
  return detail::by_codes(
      f, cast, seed, [&](std::uint64_t random, Code x, Code y) { return mul(x, y, f, cast, random); }, a, b);
}
// a * b + c
template <class A, class B, class C>
typename A::PlainObject rounded_fma(const Eigen::DenseBase<A>& a, const Eigen::DenseBase<B>& b,
                                    const Eigen::DenseBase<C>& c, const Format& f, const Cast& cast = {},
                                    std::uint64_t seed = 0) {
  const auto operation = [&](std::uint64_t random, Code x, Code y, Code z) { return fma(x, y, z, f, cast, random); };
  return detail::by_codes(f, cast, seed, operation, a, b, c);
}

}  // namespace narrow
