// Number<F> as an Eigen scalar: products, norms and factorisations with a rounding after every operation.
#pragma once

#include <Eigen/Core>

#include "narrow/arith/number.hpp"

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
