// Operands laid out for the lanes: values and exponents, in the order of the schedule, padded with zeros.
#pragma once

#include <type_traits>
#include <vector>

#include "narrow/base/parallel.hpp"
#include "narrow/dot/kernels.hpp"
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

// Codes to factors, a line at a time: by moving the fields of an IEEE-like layout into a float and one exact multiplication
// where that works, else by the definition.
//   s eeeee mm   ->   s 000eeeee mm00..0 * 2^(127 - bias)        subnormals come out right as well
template <class Real, class Exponent>
class LineDecoder {
 public:
  explicit LineDecoder(const Format& f) : format_(f) {
    moves_fields_ = !std::is_same_v<Real, std::int32_t> && f.has_negative_zero() && !f.is_integer() &&
                    f.exponent_bits <= 8 && f.mantissa_bits <= 23 && f.bias >= 0 && f.bias <= 127;
  }

  // False where a code is not finite (or the layout is another): then nothing that was written counts.
  bool by_fields(const std::vector<std::uint32_t>& codes, Real* values, Exponent* exponents) const {
    if (!moves_fields_) return false;
    const auto mask = static_cast<std::uint32_t>(format_.magnitude_mask());
    const int mantissa_bits = format_.mantissa_bits, shift = 23 - mantissa_bits, bias = format_.bias;
    const auto rescale = static_cast<float>(compose(false, 1, 127 - bias));
    std::uint32_t top = 0;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const std::uint32_t magnitude = codes[i] & mask;
      top = std::max(top, magnitude);
      const std::uint32_t word = magnitude << shift | (codes[i] != magnitude ? 0x80000000u : 0);
      values[i] = static_cast<Real>(std::bit_cast<float>(word) * rescale);
      const auto field = static_cast<std::int32_t>(magnitude >> mantissa_bits);
      exponents[i] = static_cast<Exponent>(magnitude == 0 ? zero_exponent<Exponent> : (field > 1 ? field : 1) - bias);
    }
    return top <= format_.max_magnitude();
  }

  LaneFactor<Real, Exponent> one(Code code) const { return lane_factor<Real, Exponent>(code, format_); }

 private:
  const Format format_;
  bool moves_fields_;
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

// The codes of one line, in the order of the schedule; zeros where it is padded. The code of (line j, k) is at
// data[j * outer_step + k * k_step].
template <class U>
void gather_line(const OperandCodes& codes, const U* data, std::size_t here, std::size_t width, std::size_t outer_step,
                 std::size_t k_step, const Schedule& schedule, std::vector<std::uint32_t>& line) {
  line.assign(schedule.order.size() * width, 0);
  std::uint32_t* to = line.data();
  const bool as_they_are = !codes.is_word && !codes.widens;
  const auto mask = static_cast<std::uint32_t>(codes.format.code_mask());
  for (const std::int32_t k : schedule.order) {
    if (k >= 0) {
      const U* from = data + static_cast<std::size_t>(k) * k_step;
      if (as_they_are)
        for (std::size_t j = 0; j < here; ++j) to[j] = static_cast<std::uint32_t>(from[j * outer_step]) & mask;
      else
        for (std::size_t j = 0; j < here; ++j) to[j] = static_cast<std::uint32_t>(codes.prepared(from[j * outer_step]));
    }
    to += width;
  }
}

template <class Real, class Exponent>
void decode_line(const LineDecoder<Real, Exponent>& decoder, const std::vector<std::uint32_t>& codes, Packed<Real, Exponent>& p,
                 std::size_t line) {
  Real* values = p.values.data() + line * codes.size();
  Exponent* exponents = p.exponents.data() + line * codes.size();
  if (!decoder.by_fields(codes, values, exponents))
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const LaneFactor<Real, Exponent> f = decoder.one(codes[i]);
      values[i] = f.value, exponents[i] = f.exponent;
      if (f.special) p.special[line * p.width + i % p.width] = 1;
    }
  int lowest = INT16_MAX, highest = INT16_MIN;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const int e = exponents[i];
    lowest = std::min(lowest, e == zero_exponent<Exponent> ? INT16_MAX : e);
    highest = std::max(highest, e);
  }
  p.min_exponent[line] = static_cast<std::int16_t>(lowest), p.max_exponent[line] = static_cast<std::int16_t>(highest);
}

// The rows [first, first + count) of A, or columns of B. FP64 factors have codes of 64 bits and are decoded one by one.
template <class Real, class Exponent>
Packed<Real, Exponent> pack(const OperandCodes& codes, bool is_b, std::size_t first, std::size_t count, const Schedule& schedule,
                            int threads) {
  Packed<Real, Exponent> p;
  p.positions = schedule.order.size();
  p.width = is_b ? lane_columns : 1;
  const std::size_t lines = (count + p.width - 1) / p.width;
  p.values.resize(lines * p.positions * p.width), p.exponents.resize(p.values.size());
  p.special.assign(lines * p.width, 0);
  p.min_exponent.resize(lines), p.max_exponent.resize(lines);
  const CodeMatrix& m = codes.matrix;
  const bool along_k = (m.layout == Layout::row_major) != is_b;  // row-major A and column-major B run along k
  const std::size_t outer_step = along_k ? m.pitch : 1, k_step = along_k ? 1 : m.pitch;
  const LineDecoder<Real, Exponent> decoder(codes.format);
  with_codes(m, [&](const auto* data) {
    parallel_parts(lines, 4, threads, [&](std::size_t begin, std::size_t end) {
      std::vector<std::uint32_t> gathered;
      for (std::size_t line = begin; line < end; ++line) {
        const auto* from = data + (first + line * p.width) * outer_step;
        const std::size_t here = std::min(p.width, count - line * p.width);
        if (codes.format.width() <= 32) {
          gather_line(codes, from, here, p.width, outer_step, k_step, schedule, gathered);
          decode_line(decoder, gathered, p, line);
          continue;
        }
        for (std::size_t at = 0; at < p.positions; ++at)
          for (std::size_t j = 0; j < here; ++j) {
            const std::int32_t k = schedule.order[at];
            const LaneFactor<Real, Exponent> f = k < 0 ? LaneFactor<Real, Exponent>{} : decoder.one(from[j * outer_step + static_cast<std::size_t>(k) * k_step]);
            p.values[(line * p.positions + at) * p.width + j] = f.value;
          }
      }
    });
  });
  return p;
}

// Whether a float holds every product of two factors exactly, whose unit places lie between these exponents in all.
inline bool holds_products(const DotModel& m, int lowest, int highest) {
  const Format &a = m.a.format, &b = m.b.format;
  return a.significand_bits() + b.significand_bits() <= 24 && lowest - a.mantissa_bits - b.mantissa_bits >= -149 && highest <= 125;
}

// Rows and columns with Inf or NaN as zeros: the lanes compute them for nothing, but no conversion goes astray.
template <class Real, class Exponent>
void clear_special(Packed<Real, Exponent>& p) {
  for (std::size_t n = 0; n < p.special.size(); ++n) {
    if (p.special[n] == 0) continue;
    for (std::size_t at = 0; at < p.positions; ++at) {
      const std::size_t i = (n / p.width * p.positions + at) * p.width + n % p.width;
      p.values[i] = 0, p.exponents[i] = zero_exponent<Exponent>;
    }
  }
}

}  // namespace narrow::detail
