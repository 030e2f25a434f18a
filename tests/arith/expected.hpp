// What an operation must give: its exact result by IEEE 754 in the oracle's rationals, then the oracle's rounding.
// One exact result serves every cast.
#pragma once

#include "narrow/arith/arith.hpp"
#include "support/oracle.hpp"

namespace test {

using narrow::Cast;
using narrow::Code;
using narrow::Format;
using oracle::Kind;
using oracle::Rational;
using oracle::Value;

enum class Op { add, sub, mul, div, sqrt, fma };
inline constexpr const char* op_names[] = {"add", "sub", "mul", "div", "sqrt", "fma"};
inline const char* name(Op op) { return op_names[static_cast<int>(op)]; }

inline constexpr std::uint64_t quiet_payload = std::uint64_t{1} << 63;

struct Operand {
  Value value;
  std::uint64_t payload = quiet_payload;  // of a NaN, left-aligned
  bool subnormal = false;
};

inline Operand operand(Code code, const Format& f) {
  Operand x;
  x.value = oracle::value_of(code, f);
  if (x.value.kind == Kind::nan) {
    if (f.specials == narrow::Specials::inf_and_nan) x.payload = code << (64 - f.mantissa_bits);
    const bool is_one =
        f.specials == narrow::Specials::nan_is_negative_zero || f.specials == narrow::Specials::extended;
    if (is_one) x.value.negative = false;  // one NaN without a sign
  }
  x.subnormal = x.value.kind == Kind::finite && f.exponent_bits != 0 && !x.value.magnitude.is_zero() &&
                x.value.magnitude < oracle::power_of_two(oracle::min_exponent(f));
  return x;
}

// Subnormals::flush_inputs: zero with the sign.
inline Operand flushed(Operand x) {
  if (x.subnormal) x.value.magnitude = {};
  return x;
}

struct Outcome {
  Kind kind = Kind::finite;
  bool negative = false;                  // of an Inf or a NaN
  std::uint64_t payload = quiet_payload;  // of a NaN
  bool unlike_zero = false;               // a zero sum of unlike signs: +0, but -0 in mode down
  oracle::Split split{};

  Code code(const Format& f, const Cast& cast, std::uint64_t random) const {
    if (kind == Kind::nan) return oracle::round_nan(negative, payload, f, cast);
    if (kind == Kind::inf) return oracle::round_inf(negative, f, cast);
    oracle::Split s = split;
    if (unlike_zero) s.negative = cast.rounding == narrow::Rounding::down;
    return oracle::finish(s, f, cast, random);
  }
};

inline Outcome invalid() { return {.kind = Kind::nan}; }
inline Outcome infinite(bool negative) { return {.kind = Kind::inf, .negative = negative}; }
inline Outcome finite(const Rational& x, bool negative_zero, const Format& f) {
  return {.split = oracle::split(x, negative_zero, f)};
}

inline bool is_zero(const Value& x) { return x.kind == Kind::finite && x.magnitude.is_zero(); }
inline bool is_inf(const Value& x) { return x.kind == Kind::inf; }
inline Value negated(Value x) {
  x.negative = !x.negative;
  return x;
}

inline Outcome sum(const Value& a, const Value& b, const Format& f) {
  if (is_inf(a) && is_inf(b) && a.negative != b.negative) return invalid();
  if (is_inf(a) || is_inf(b)) return infinite(is_inf(a) ? a.negative : b.negative);
  const Rational x = a.exact() + b.exact();
  Outcome out = finite(x, a.negative, f);
  out.unlike_zero = x.is_zero() && a.negative != b.negative;
  return out;
}

// 0 * Inf is a NaN.
inline Value product(const Value& a, const Value& b) {
  const bool negative = a.negative != b.negative;
  if ((is_zero(a) && is_inf(b)) || (is_inf(a) && is_zero(b))) return {.kind = Kind::nan};
  if (is_inf(a) || is_inf(b)) return {.kind = Kind::inf, .negative = negative};
  return {.negative = negative, .magnitude = a.magnitude * b.magnitude};
}

inline Outcome outcome_of(const Value& x, const Format& f) {
  if (x.kind == Kind::nan) return invalid();
  return x.kind == Kind::inf ? infinite(x.negative) : finite(x.exact(), x.negative, f);
}

inline Outcome quotient(const Value& a, const Value& b, const Format& f) {
  const bool negative = a.negative != b.negative;
  if ((is_zero(a) && is_zero(b)) || (is_inf(a) && is_inf(b))) return invalid();
  if (is_inf(a) || is_zero(b)) return infinite(negative);
  return finite(is_inf(b) ? Rational{} : a.exact() / b.exact(), negative, f);
}

inline Outcome root(const Value& a, const Format& f) {
  if (a.negative && !is_zero(a)) return invalid();
  if (is_inf(a)) return infinite(false);
  return is_zero(a) ? finite({}, a.negative, f) : Outcome{.split = oracle::split_sqrt(a.magnitude, f)};
}

// Operands that the operation does not have are ignored.
inline Outcome expected(Op op, const Operand& a, const Operand& b, const Operand& c, const Format& f) {
  const int operands = op == Op::sqrt ? 1 : op == Op::fma ? 3 : 2;
  int index = 0;
  for (const Operand* x : {&a, &b, &c})  // the first NaN
    if (index++ < operands && x->value.kind == Kind::nan)
      return {.kind = Kind::nan, .negative = x->value.negative, .payload = x->payload};
  switch (op) {
    case Op::add: return sum(a.value, b.value, f);
    case Op::sub: return sum(a.value, negated(b.value), f);
    case Op::mul: return outcome_of(product(a.value, b.value), f);
    case Op::div: return quotient(a.value, b.value, f);
    case Op::sqrt: return root(a.value, f);
    case Op::fma: break;
  }
  const Value ab = product(a.value, b.value);
  return ab.kind == Kind::nan ? invalid() : sum(ab, c.value, f);
}

// The same from the library.
inline Code computed(Op op, Code a, Code b, Code c, const Format& f, const Cast& cast, std::uint64_t random) {
  switch (op) {
    case Op::add: return narrow::add(a, b, f, cast, random);
    case Op::sub: return narrow::sub(a, b, f, cast, random);
    case Op::mul: return narrow::mul(a, b, f, cast, random);
    case Op::div: return narrow::div(a, b, f, cast, random);
    case Op::sqrt: return narrow::sqrt(a, f, cast, random);
    case Op::fma: break;
  }
  return narrow::fma(a, b, c, f, cast, random);
}

}  // namespace test
