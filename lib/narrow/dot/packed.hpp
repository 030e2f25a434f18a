// Operands laid out for the lanes: values and exponents, in the order of the schedule, padded with zeros.
#pragma once

#include <vector>

#include "narrow/base/parallel.hpp"
#include "narrow/dot/fused_lanes.hpp"
#include "narrow/dot/operand.hpp"

namespace narrow::detail {

// What a code is for the lanes. Real: float or double, wide enough for the format, or int32_t for integers.
template <class Real, class Exponent>
struct LaneFactor {
  Real value = 0;
  Exponent exponent = zero_exponent<Exponent>;
  bool special = false;  // Inf or NaN
};

template <class Real, class Exponent>
LaneFactor<Real, Exponent> lane_factor(Code code, const Format& f) {
  const Unpacked u = unpack(code, f);
  if (!u.is_finite()) return {static_cast<Real>(decode(code, f)), zero_exponent<Exponent>, true};
  if (u.significand == 0) return {static_cast<Real>(decode(code, f))};
  return {static_cast<Real>(compose(u.negative, u.significand, u.exponent)),
          static_cast<Exponent>(u.exponent + f.mantissa_bits), false};
}

// Decodes codes: by moving the fields of an IEEE-like layout into a float and one exact multiplication where that works,
// else by the definition.
//   s eeeee mm   ->   s 000eeeee mm00..0 * 2^(127 - bias)        subnormals come out right as well
template <class Real, class Exponent>
class FactorOf {
 public:
  explicit FactorOf(const OperandCodes& codes) : codes_(codes), format_(codes.format) {
    const Format& f = format_;
    moves_fields_ = f.has_zero && f.has_sign && !f.is_integer() && f.exponent_bits <= 8 && f.mantissa_bits <= 23 && f.bias >= 0 &&
                    f.bias <= 127 && f.specials != Specials::nan_is_negative_zero;
    if (!moves_fields_) return;
    rescale_ = static_cast<float>(compose(false, 1, 127 - f.bias));
    magnitude_mask_ = static_cast<std::uint32_t>(f.magnitude_mask());
    max_magnitude_ = static_cast<std::uint32_t>(f.max_magnitude());
  }
  bool moves_fields() const { return moves_fields_; }
  LaneFactor<Real, Exponent> by_definition(Code raw) const { return lane_factor<Real, Exponent>(codes_.prepared(raw), format_); }
  LaneFactor<Real, Exponent> by_fields(Code raw) const {
    const auto code = static_cast<std::uint32_t>(codes_.prepared(raw));
    const std::uint32_t magnitude = code & magnitude_mask_;
    if (magnitude > max_magnitude_) [[unlikely]] return lane_factor<Real, Exponent>(code, format_);
    const std::uint32_t word = magnitude << (23 - format_.mantissa_bits) | (code != magnitude ? 0x80000000u : 0);
    const auto field = static_cast<int>(magnitude >> format_.mantissa_bits);
    const int exponent = (field > 1 ? field : 1) - format_.bias;
    return {static_cast<Real>(std::bit_cast<float>(word) * rescale_),
            magnitude == 0 ? zero_exponent<Exponent> : static_cast<Exponent>(exponent), false};
  }

 private:
  const OperandCodes codes_;
  const Format format_;
  bool moves_fields_ = false;
  float rescale_ = 1;
  std::uint32_t magnitude_mask_ = 0, max_magnitude_ = 0;
};

// `lines` rows of A (width 1), or panels of sixteen columns of B (width 16): [line][position][width].
template <class Real, class Exponent>
struct Packed {
  std::size_t positions = 0, width = 1;
  std::vector<Real> values;
  std::vector<Exponent> exponents;
  std::vector<std::uint8_t> special;                 // by row of A, column of B
  std::vector<std::int16_t> min_exponent, max_exponent;  // by line, of its non-zero factors
};

// One line from `data`: the code of (outer line j, k) is at j * outer_step + k * k_step. factor comes by value: bytes are
// stored here, which may alias anything that is not a local.
template <class Real, class Exponent, class Factor, class U>
void pack_line(Packed<Real, Exponent>& p, std::size_t line, Factor factor, const U* data, std::size_t here,
               std::size_t outer_step, std::size_t k_step, const Schedule& schedule) {
  Real* values = p.values.data() + line * p.positions * p.width;
  Exponent* exponents = p.exponents.data() + line * p.positions * p.width;
  std::uint8_t* special = p.special.data() + line * p.width;
  int lowest = INT16_MAX, highest = INT16_MIN;
  for (const std::int32_t k : schedule.order) {
    if (k >= 0)
      for (std::size_t j = 0; j < here; ++j) {
        const LaneFactor<Real, Exponent> f = factor(data[j * outer_step + static_cast<std::size_t>(k) * k_step]);
        values[j] = f.value;
        exponents[j] = f.exponent;
        if (f.special) special[j] = 1;
        const bool zero = f.exponent == zero_exponent<Exponent>;
        lowest = std::min<int>(lowest, zero ? INT16_MAX : f.exponent);
        highest = std::max<int>(highest, f.exponent);
      }
    values += p.width, exponents += p.width;
  }
  p.min_exponent[line] = static_cast<std::int16_t>(lowest), p.max_exponent[line] = static_cast<std::int16_t>(highest);
}

// The rows [first, first + count) of A, or columns of B.
template <class Real, class Exponent>
Packed<Real, Exponent> pack(const OperandCodes& codes, bool is_b, std::size_t first, std::size_t count, const Schedule& schedule,
                            int threads) {
  Packed<Real, Exponent> p;
  p.positions = schedule.order.size();
  p.width = is_b ? lane_columns : 1;
  const std::size_t lines = (count + p.width - 1) / p.width;
  p.values.assign(lines * p.positions * p.width, Real{0});
  p.exponents.assign(p.values.size(), zero_exponent<Exponent>);
  p.special.assign(lines * p.width, 0);
  p.min_exponent.resize(lines), p.max_exponent.resize(lines);
  const CodeMatrix& m = codes.matrix;
  const bool along_k = (m.layout == Layout::row_major) != is_b;  // row-major A and column-major B run along k
  const std::size_t outer_step = along_k ? m.pitch : 1, k_step = along_k ? 1 : m.pitch;
  const FactorOf<Real, Exponent> factor(codes);
  with_codes(m, [&](const auto* data) {
    parallel_parts(lines, 4, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t line = begin; line < end; ++line) {
        const auto* from = data + (first + line * p.width) * outer_step;
        const std::size_t here = std::min(p.width, count - line * p.width);
        if (factor.moves_fields())
          pack_line(p, line, [factor](Code raw) { return factor.by_fields(raw); }, from, here, outer_step, k_step, schedule);
        else
          pack_line(p, line, [factor](Code raw) { return factor.by_definition(raw); }, from, here, outer_step, k_step, schedule);
      }
    });
  });
  return p;
}

}  // namespace narrow::detail
