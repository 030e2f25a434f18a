// The same sums as dot(), written once more for speed: operands taken apart once, plain integers and floats. Sweeps of
// the fast path compare with this and, now and then, with dot(), so that a mistake here shows as well.
#pragma once

#include <cmath>
#include <optional>

#include "dot/problems.hpp"
#include "narrow/dot/step.hpp"

namespace test {

// +-m * 2^(e - fraction).
struct Part {
  std::int32_t m = 0;
  std::int16_t e = 0;
};
struct Line {
  std::vector<Part> parts;
  bool special = false;  // Inf or NaN among them
};

inline Line line_of(std::span<const Code> codes, const Format& f, bool normalised) {
  Line line;
  for (const Code code : codes) {
    const Code field = (code & oracle::below_sign(f)) >> f.mantissa_bits,
               mantissa = code & oracle::ones(f.mantissa_bits);
    if (oracle::value_of(code, f).kind != oracle::Kind::finite) line.special = true;
    auto m = static_cast<std::int32_t>(field == 0 ? mantissa : mantissa + (Code{1} << f.mantissa_bits));
    int e = field == 0 ? 1 - f.bias : static_cast<int>(field) - f.bias;
    // Through FP16: what is subnormal here is normal there, down to its smallest normal value.
    for (; normalised && m != 0 && m < 1 << f.mantissa_bits && e > -14; --e) m *= 2;
    line.parts.push_back({(code & oracle::sign_bit(f)) != 0 ? -m : m, static_cast<std::int16_t>(e)});
  }
  return line;
}

inline std::int64_t cut(std::int64_t m, int places) {  // m * 2^places, toward zero
  if (places >= 0) return m * (std::int64_t{1} << places);
  if (places < -62) return 0;
  return m < 0 ? -(-m >> -places) : m >> -places;
}

// sum * 2^quantum as a code of `result` with the accumulator's width.
inline Code round_sum(std::int64_t sum, int quantum, const DotModel& m) {
  const Format& f = m.result;
  if (sum == 0) return 0;
  const bool negative = sum < 0;
  const auto magnitude = static_cast<std::uint64_t>(negative ? -sum : sum);
  const int log2 = 63 - std::countl_zero(magnitude) + quantum, low = 1 - f.bias;
  const int e = std::max(log2, low), drop = e - f.mantissa_bits - quantum;
  std::uint64_t kept = drop > 62 ? 0 : drop >= 0 ? magnitude >> drop : magnitude << -drop;
  if (m.rounding == narrow::Rounding::nearest_even && drop > 0) {
    const std::uint64_t rest = drop > 62 ? 0 : magnitude & oracle::ones(drop),
                        half = drop > 62 ? 1 : std::uint64_t{1} << (drop - 1);
    if (rest > half || (rest == half && kept % 2 == 1)) ++kept;
  }
  if (kept == 0) return 0;
  // kept counts quanta of binade e: with the exponent field in front, a carry moves into it by itself
  Code code = kept + (static_cast<Code>(e - low) << f.mantissa_bits);
  code = std::min(code, oracle::ones(f.exponent_bits) << f.mantissa_bits);
  code |= negative ? oracle::sign_bit(f) : 0;
  return code << (m.accumulator.format.mantissa_bits - f.mantissa_bits);
}

class QuickFused {
 public:
  QuickFused(const DotModel& m, const Problem& p) : m_(m), p_(p) {
    const bool through_fp16 = m.rule != narrow::DotRule::fused;
    for (std::size_t i = 0; i < p.rows; ++i) rows_.push_back(line_of(p.row(i), m.a.format, through_fp16));
    for (std::size_t j = 0; j < p.cols; ++j) cols_.push_back(line_of(p.col(j), m.b.format, through_fp16));
  }

  // Empty where Inf or NaN is involved.
  std::optional<Code> operator()(std::size_t i, std::size_t j) const {
    const Format& acc = m_.accumulator.format;
    const Code c = p_.c[i * p_.cols + j];
    if (rows_[i].special || cols_[j].special || is_special(c)) return {};
    const auto &a = rows_[i].parts, &b = cols_[j].parts;
    Code sum = c;
    const auto step =
        static_cast<std::size_t>(m_.rule == narrow::DotRule::fused ? m_.products_per_step : m_.instruction_k);
    for (std::size_t k = 0; k < a.size(); k += step) {
      const std::size_t end = std::min(a.size(), k + step);
      if (m_.rule == narrow::DotRule::fused) {
        sum = fused(a, b, k, end, -1, sum);
      } else {
        Code products = fused(a, b, k, end, m_.rule == narrow::DotRule::fused_pair_then_add ? 0 : -1, 0);
        if (is_special(products)) return {};
        if (m_.rule == narrow::DotRule::fused_pair_then_add) products = fused(a, b, k, end, 1, products);
        if (is_special(products) || is_special(sum)) return {};
        sum = added(products, sum, acc);
      }
      if (is_special(sum)) return k + step >= a.size() ? std::optional(sum) : std::nullopt;
    }
    return sum;
  }

 private:
  bool is_special(Code c) const {  // the accumulators are IEEE formats
    const Format& f = m_.accumulator.format;
    return (c & oracle::below_sign(f)) >> f.mantissa_bits == oracle::ones(f.exponent_bits);
  }

  // half: k mod 4 in {0, 1} (0) or {2, 3} (1); all products for -1. k counts from the begin of the instruction.
  Code fused(const std::vector<Part>& a, const std::vector<Part>& b, std::size_t begin, std::size_t end, int half,
             Code c) const {
    const Format& acc = m_.accumulator.format;
    const Code magnitude = c & oracle::below_sign(acc), field = magnitude >> acc.mantissa_bits;
    const auto mc = static_cast<std::int64_t>((magnitude & oracle::ones(acc.mantissa_bits)) +
                                              (field == 0 ? 0 : Code{1} << acc.mantissa_bits));
    const int ec = field == 0 ? 1 - acc.bias : static_cast<int>(field) - acc.bias;
    const auto skip = [&](std::size_t k) { return half >= 0 && static_cast<int>((k - begin) % 4 / 2) != half; };
    int largest = mc != 0 ? std::max(ec, m_.exponent_floor) : m_.exponent_floor;
    for (std::size_t k = begin; k < end; ++k)
      if (!skip(k) && a[k].m != 0 && b[k].m != 0) largest = std::max(largest, a[k].e + b[k].e);
    const int quantum = largest - m_.fraction_bits;
    std::int64_t sum = cut((c & oracle::sign_bit(acc)) != 0 ? -mc : mc, ec - acc.mantissa_bits - quantum);
    const int fraction = m_.a.format.mantissa_bits + m_.b.format.mantissa_bits;
    for (std::size_t k = begin; k < end; ++k) {
      const std::int64_t product = static_cast<std::int64_t>(a[k].m) * b[k].m;
      if (!skip(k) && product != 0) sum += cut(product, a[k].e + b[k].e - fraction - quantum);
    }
    return round_sum(sum, quantum, m_);
  }

  // An IEEE addition: by the CPU for FP32; FP16 values are integers times 2^-24.
  static Code added(Code x, Code y, const Format& f) {
    if (f.mantissa_bits == 23) {
      const float sum = from_bits<float>(x) + from_bits<float>(y);
      return bits(sum);
    }
    const auto quanta = [&](Code c) {
      const Code field = (c & 0x7FFF) >> 10, m = (c & 0x3FF) + (field == 0 ? 0 : 1024);
      const auto q = static_cast<std::int64_t>(m << (field == 0 ? 0 : field - 1));
      return c >> 15 != 0 ? -q : q;
    };
    if (x == 0x8000 && y == 0x8000) return 0x8000;
    DotModel half;
    half.result = half.accumulator.format = f;
    half.rounding = narrow::Rounding::nearest_even;
    return round_sum(quanta(x) + quanta(y), -24, half);
  }

  const DotModel& m_;
  const Problem& p_;
  std::vector<Line> rows_, cols_;
};

// Loops of float or double, for sums in software.
template <class T>
class QuickNative {
 public:
  QuickNative(const DotModel& m, const Problem& p) : m_(m), p_(p) {
    for (const Code code : p.a) a_.push_back(value(code, m.a.format));
    for (const Code code : p.b) b_.push_back(value(code, m.b.format));
  }
  std::optional<Code> operator()(std::size_t i, std::size_t j) const {
    const T *a = &a_[i * p_.k], *b = &b_[j * p_.k];
    T c = from_bits<T>(p_.c[i * p_.cols + j]), lost = 0;
    if (m_.rule == narrow::DotRule::pairwise) {
      c = tree(a, b, p_.k) + c;
    } else {
      for (std::size_t k = 0; k < p_.k; ++k) {
        if (m_.rule == narrow::DotRule::fma_chain) {
          c = std::fma(a[k], b[k], c);
        } else if (m_.rule == narrow::DotRule::multiply_add) {
          c += a[k] * b[k];
        } else {
          const T y = a[k] * b[k] - lost, t = c + y;
          lost = (t - c) - y;
          c = t;
        }
      }
    }
    return std::isnan(c) ? oracle::nan_code(false, m_.accumulator.format) : static_cast<Code>(bits(c));
  }

 private:
  static T value(Code code, const Format& f) {
    const oracle::Value v = oracle::value_of(code, f);
    const T sign = v.negative ? T{-1} : T{1};
    if (v.kind == oracle::Kind::nan) return std::numeric_limits<T>::quiet_NaN();
    if (v.kind == oracle::Kind::inf) return sign * std::numeric_limits<T>::infinity();
    return sign * static_cast<T>(to_double(v.magnitude));
  }
  static T tree(const T* a, const T* b, std::size_t n) {
    if (n == 1) return a[0] * b[0];
    const std::size_t half = std::bit_ceil(n) / 2;
    return tree(a, b, half) + tree(a + half, b + half, n - half);
  }

  const DotModel& m_;
  const Problem& p_;
  std::vector<T> a_, b_;
};

}  // namespace test
