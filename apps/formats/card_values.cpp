#include "formats/card_values.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/number_text.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

using narrow::Code;
using narrow::Format;

std::string power_html(int exponent) { return "2<sup>" + std::to_string(exponent) + "</sup>"; }

std::string bits_text(Code x, int count) {
  std::string bits;
  for (int i = count - 1; i >= 0; --i) bits += (x >> i & 1) != 0 ? '1' : '0';
  return bits;
}

std::string cell(Code code, const Format& f) {
  const narrow::ValueClass kind = narrow::classify(code, f);
  const char* name = kind == narrow::ValueClass::nan || kind == narrow::ValueClass::inf ? "special"
                     : kind == narrow::ValueClass::subnormal                            ? "sub"
                     : kind == narrow::ValueClass::zero                                 ? "zero"
                                                                                        : "";
  return "<td" + (*name == 0 ? std::string() : " class=\"" + std::string(name) + "\"") + "><b>" +
         compact_value_html(code, f) + "</b><i>" + narrow::to_hex_code(code, f).substr(2) + "</i></td>";
}

// 16 codes a row: the high digit of a code is its row, the low digit its column.
std::string code_grid(const Format& f) {
  const Code count = f.code_mask() + 1, columns = std::min<Code>(16, count);
  std::string out = "<table class=\"values\"><tr><th></th>";
  for (Code c = 0; c < columns; ++c) out += "<th>" + narrow::to_hex_code(c, f).substr(3) + "</th>";
  out += "</tr>\n";
  for (Code row = 0; row < count; row += columns) {
    out += "<tr><th>" + narrow::to_hex_code(row, f).substr(2, 1) + "_</th>";
    for (Code c = 0; c < columns; ++c) out += cell(row + c, f);
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

// Rows are exponent fields, columns mantissas: what a binade is can be seen. Signs aside.
struct Part {
  Code first_field, last_field, first_mantissa, last_mantissa;
};

std::string field_rows(const Format& f, const Part& part) {
  std::string out = "<table class=\"values\"><tr><th>exponent</th><th>step</th>";
  for (Code m = part.first_mantissa; m <= part.last_mantissa; ++m)
    out += "<th>" + (f.mantissa_bits == 0 ? "value" : bits_text(m, f.mantissa_bits)) + "</th>";
  out += "</tr>\n";
  for (Code field = part.first_field; field <= part.last_field; ++field) {
    const int exponent = field == 0 && f.has_zero ? f.min_exponent() : static_cast<int>(field) - f.bias;
    out +=
        "<tr><th>" + bits_text(field, f.exponent_bits) + "</th><th>" + power_html(exponent - f.mantissa_bits) + "</th>";
    for (Code m = part.first_mantissa; m <= part.last_mantissa; ++m) out += cell(field << f.mantissa_bits | m, f);
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

std::string negative_note(const Format& f) {
  if (!f.has_sign) return "";
  std::string text = "<p class=\"faint\">Codes from " + narrow::to_hex_code(f.sign_mask(), f) +
                     " on (sign bit 1) are the same values with a minus";
  if (f.specials == narrow::Specials::nan_is_negative_zero)
    text += ", but for " + narrow::to_hex_code(f.sign_mask(), f) + ", which is not -0 but NaN";
  return text + ".</p>\n";
}

}  // namespace

std::string compact_value_html(Code code, const Format& f) {
  const narrow::Unpacked u = narrow::unpack(code, f);
  if (u.is_nan()) return "NaN";
  const std::string sign = u.negative ? "&minus;" : "";
  if (u.is_inf()) return sign + "Inf";
  constexpr std::size_t longest = 7;
  std::string decimal = narrow::to_decimal(code, f);
  if (u.negative) decimal.erase(0, 1);
  if (decimal.size() <= longest) return sign + decimal;
  std::uint64_t significand = u.significand;
  int exponent = u.exponent;
  while ((significand & 1) == 0) significand /= 2, ++exponent;
  return sign + (significand == 1 ? "" : std::to_string(significand) + "&middot;") + power_html(exponent);
}

std::string value_table_html(const Format& f) {
  if (f.is_integer() || !f.has_sign) return code_grid(f);
  // At most 8 columns, so that they fit a page; narrow tables of many rows stand side by side.
  constexpr Code most_rows = 16, most_columns = 8;
  const Code fields = Code{1} << f.exponent_bits, mantissas = f.mantissa_mask() + 1;
  const Code columns = std::min(mantissas, most_columns), rows = mantissas <= 4 ? std::min(fields, most_rows) : fields;
  std::string out = "<div class=\"beside\">";
  for (Code m = 0; m < mantissas; m += columns)
    for (Code field = 0; field < fields; field += rows)
      out += field_rows(f, {field, field + rows - 1, m, m + columns - 1});
  return out + "</div>\n" + negative_note(f);
}

// At most 32 lines: where a format has more binades, every n-th, and the first and the last in any case.
std::string ladder_table_html(const Format& f) {
  constexpr int most = 28;
  std::vector<int> exponents;
  const int low = f.min_exponent(), high = f.max_exponent();
  const int stride = (high - low + most - 1) / most;
  for (int e = low; e < high; e += stride) exponents.push_back(e);
  for (const int e : {0, high})
    if (std::find(exponents.begin(), exponents.end(), e) == exponents.end()) exponents.push_back(e);
  std::sort(exponents.begin(), exponents.end());
  const std::string head =
      "<table class=\"values ladder\"><tr><th>binade from</th><th>value</th><th>step</th><th>value</th>"
      "<th>first code</th></tr>\n";
  const std::size_t half = (exponents.size() + 2) / 2;
  std::string out = "<div class=\"beside\">" + head;
  const auto row = [&](const std::string& name, double value, int quantum, Code code) {
    out += "<tr><th>" + name + "</th><td>" + digits_text(value, 5) + "</td><td>" + power_html(quantum) + "</td><td>" +
           digits_text(std::ldexp(1.0, quantum), 4) + "</td><td>" + narrow::to_hex_code(code, f) + "</td></tr>\n";
  };
  if (f.has_subnormals()) row("subnormal", narrow::smallest_positive(f), f.min_quantum_exponent(), 1);
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    if (i + 1 == half) out += "</table>\n" + head;
    const auto field = static_cast<Code>(exponents[i] + f.bias);
    row(power_html(exponents[i]), std::ldexp(1.0, exponents[i]), exponents[i] - f.mantissa_bits,
        field << f.mantissa_bits);
  }
  return out + "</table></div>\n";
}

}  // namespace app
