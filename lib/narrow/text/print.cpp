#include "narrow/text/text.hpp"

#include "narrow/text/decimal_layout.hpp"
#include "narrow/text/exact_number.hpp"

namespace narrow {

std::string to_decimal(Code code, const Format& f) {
  const ExactNumber x = exact_number(code, f);
  if (const auto special = detail::special_text(x)) return *special;
  constexpr int most_plain = 30;  // beyond it a plain number would be mostly zeros
  return detail::lay_out(x.negative, detail::exact_decimal(x), -most_plain, most_plain);
}

std::string to_hex_float(Code code, const Format& f) {
  const Unpacked u = unpack(code, f);
  const std::string sign = u.negative ? "-" : "";
  if (u.is_nan()) return "nan";
  if (u.is_inf()) return sign + "inf";
  if (u.is_zero()) return sign + "0x0p+0";
  // 1.fff...: the leading bit goes to the left end and falls out; four bits a digit, until only zeros are left.
  const int length = bit_length(u.significand);
  std::uint64_t fraction = length == 1 ? 0 : u.significand << (65 - length);
  std::string text = sign + "0x1";
  if (fraction != 0) text += '.';
  for (; fraction != 0; fraction <<= 4) text += "0123456789abcdef"[fraction >> 60];
  const int exponent = u.exponent + length - 1;
  return text + (exponent < 0 ? "p" : "p+") + std::to_string(exponent);
}

std::string to_hex_code(Code code, const Format& f) {
  std::string text = "0x";
  for (int shift = (f.width() - 1) / 4 * 4; shift >= 0; shift -= 4)
    text += "0123456789ABCDEF"[((code & f.code_mask()) >> shift) & 15];
  return text;
}

}  // namespace narrow
