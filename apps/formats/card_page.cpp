#include "formats/card_page.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/limits.hpp"
#include "cli/number_text.hpp"
#include "narrow/base/version.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/report/escape.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

using narrow::Code;
using narrow::Format;

std::string number(double x) { return decimal_text(x, 1); }

std::string code_html(Code code, const Format& f) { return "<code>" + narrow::to_hex_code(code, f) + "</code>"; }

std::string power_html(int exponent) { return "2<sup>" + std::to_string(exponent) + "</sup>"; }

// "0.125", or "3*2^-9" with a raised exponent where the decimal is longer than that: always exact.
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
  if (f.has_nan_at_negative_zero())
    text += ", but for " + narrow::to_hex_code(f.sign_mask(), f) + ", which is not -0 but NaN";
  return text + ".</p>\n";
}

// Every value of a format with at most 8 bits.
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

// Of a wider one the binades, their steps, their codes. At most 32 lines: where there are more binades, every n-th, and
// the first and the last in any case.
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

// One box a bit with its number above and the bit of an example inside; below, what the fields are.
//     7   6 5 4 3   2 1 0
//    [0] [1 0 0 0] [1 0 0]        3 in e4m3
std::string bits_picture(const Format& f, Code example) {
  constexpr double room = 1000, height = 34, gap = 8;
  const int width = f.width();
  const double box = std::min(64.0, (room - 2 * gap) / width);
  struct Field {
    const char* colour;
    const char* name;
    int bits;
  };
  std::vector<Field> fields;
  if (f.is_integer()) {
    fields = {{"--mantissa", f.has_sign ? "two's complement" : "unsigned integer", width}};
  } else {
    if (f.has_sign) fields.push_back({"--sign", "sign", 1});
    fields.push_back({"--exponent", "exponent", f.exponent_bits});
    if (f.mantissa_bits > 0) fields.push_back({"--mantissa", "mantissa", f.mantissa_bits});
  }
  double x = 0;
  int bit = width - 1;
  const bool roomy = box >= 20;
  std::string boxes;
  for (const Field& field : fields) {
    const double left = x;
    for (int i = 0; i < field.bits; ++i, --bit, x += box) {
      boxes += "<rect x=\"" + number(x + 1) + "\" y=\"16\" width=\"" + number(box - 2) + "\" height=\"" +
               number(height) + "\" rx=\"3\" fill=\"var(" + field.colour + ")\"/>";
      if (roomy || i == 0 || i == field.bits - 1)
        boxes += "<text x=\"" + number(x + box / 2) + "\" y=\"11\" text-anchor=\"middle\" class=\"small\">" +
                 std::to_string(bit) + "</text>";
      boxes += "<text x=\"" + number(x + box / 2) + "\" y=\"" + number(16 + height / 2 + 5) +
               "\" text-anchor=\"middle\" class=\"bit\">" + ((example >> bit & 1) != 0 ? "1" : "0") + "</text>\n";
    }
    boxes += "<text x=\"" + number((left + x) / 2) + "\" y=\"" + number(16 + height + 17) +
             "\" text-anchor=\"middle\">" + std::string(field.name) +
             (field.bits > 2 && !f.is_integer() ? ", " + std::to_string(field.bits) + " bits" : "") + "</text>\n";
    x += gap;
  }
  const double wide = std::max(x, 420.0);
  return "<svg class=\"layout\" style=\"max-width:" + number(wide) + "px\" viewBox=\"-8 0 " + number(wide + 16) + " " +
         number(height + 40) + "\" role=\"img\" aria-label=\"bit layout\">\n" + boxes + "</svg>\n";
}

// How the example's fields become its value.
std::string example_html(const Format& f, Code code) {
  const narrow::Unpacked u = narrow::unpack(code, f);
  const std::string value = "<b>" + compact_value_html(code, f) + "</b>";
  if (f.is_integer()) return "<p>The code above, " + code_html(code, f) + ", is " + value + ".</p>\n";
  const Code field = narrow::magnitude_of(code, f) >> f.mantissa_bits;
  std::string text = "<p>The code above, " + code_html(code, f) + ": exponent field " + std::to_string(field) +
                     " &minus; bias " + std::to_string(f.bias) + " = " +
                     std::to_string(static_cast<int>(field) - f.bias);
  if (f.mantissa_bits > 0)
    text += "; significand " + std::to_string(u.significand) + " / " + std::to_string(1ull << f.mantissa_bits) + " = " +
            digits_text(std::ldexp(static_cast<double>(u.significand), -f.mantissa_bits), 17);
  return text + "; value " + value + ".</p>\n";
}

std::string rules_html(const Format& f) {
  if (f.is_integer()) return "<p>Every code is an integer: round, then clamp to the ends.</p>\n";
  const std::string sign = f.has_sign ? "(&minus;1)<sup>s</sup> &middot; " : "", bias = std::to_string(f.bias);
  std::string out = "<p>exponent field e" + std::string(f.has_zero ? " &gt; 0" : "") + ": &nbsp;<b>" + sign +
                    "2<sup>e &minus; " + bias + "</sup>" + (f.mantissa_bits > 0 ? " &middot; 1.m" : "") + "</b>";
  if (f.has_zero)
    out += f.has_subnormals() ? " &emsp; e = 0: &nbsp;<b>" + sign + "2<sup>" + std::to_string(f.min_exponent()) +
                                    "</sup> &middot; 0.m</b> (subnormal)"
                              : " &emsp; e = 0: &nbsp;<b>zero</b>";
  return out + "</p>\n";
}

std::string row(const std::string& what, const std::string& value, const std::string& code) {
  return "<tr><td>" + what + "</td><td>" + value + "</td><td>" + code + "</td></tr>\n";
}

std::string limits_html(const Format& f) {
  const auto line = [&](const char* what, Code code) {
    const double value = narrow::decode(code, f);
    return row(what, limit_text(value), code_html(code, f));
  };
  const Limits limits = limits_of(f);
  std::string out = "<table class=\"facts\"><caption>Limits</caption>\n" + line("largest", f.max_code());
  if (f.has_sign) out += line("lowest", f.max_code(true));
  out += line(f.is_integer() ? "smallest positive" : "smallest normal", narrow::encode(limits.smallest_normal, f));
  if (f.has_subnormals()) out += line("smallest subnormal", 1);
  out += row("epsilon, the step after 1", limit_text(limits.epsilon), "");
  const int p = f.significand_bits();
  if (!f.is_integer()) {
    out += row("unit roundoff, 2<sup>&minus;p</sup>", limit_text(std::ldexp(1.0, -p)), "");
    out += row("decimal digits, p log<sub>10</sub> 2", decimal_text(p * std::log10(2.0), 2), "");
    // Beyond 2^p the step is 2. A format that ends earlier holds all integers that it reaches.
    out +=
        row("integers held without gaps to", limit_text(std::floor(std::min(std::ldexp(1.0, p), limits.largest))), "");
  }
  out += row("decades from smallest to largest", decimal_text(limits.decades, 2), "");
  return out + "</table>\n";
}

// First and last code of each kind of special, with how many there are.
std::string specials_html(const Format& f) {
  std::string out = "<table class=\"facts\"><caption>Special codes</caption>\n";
  const auto line = [&](const char* what, Code code) {
    return row(what, compact_value_html(code, f), code_html(code, f));
  };
  out += f.has_zero ? line("zero", f.zero_code()) : row("zero", "none", "");
  if (f.has_zero && f.has_sign)
    out += f.has_negative_zero() ? line("negative zero", f.zero_code(true)) : row("negative zero", "none", "");
  if (narrow::largest(f) >= 1) out += line("one", narrow::encode(1.0, f));
  if (f.has_infinity()) out += line("infinity", f.infinity_code());
  if (f.has_infinity() && f.has_sign) out += line("negative infinity", f.infinity_code(true));
  if (!f.has_infinity()) out += row("infinity", "none", "");
  if (!f.has_nan()) return out + row("NaN", "none", "") + "</table>\n";
  if (f.specials == narrow::Specials::inf_and_nan) {
    const Code first = f.infinity_code() + 1, last = f.magnitude_mask();
    out += row("NaN", std::to_string(2 * (last - first + 1)) + " codes",
               first == last ? code_html(first, f) : code_html(first, f) + " &ndash; " + code_html(last, f));
    out += row("", "with the sign",
               first == last
                   ? code_html(f.with_sign(first, true), f)
                   : code_html(f.with_sign(first, true), f) + " &ndash; " + code_html(f.with_sign(last, true), f));
    return out + row("canonical", "", code_html(f.nan_code(), f)) + "</table>\n";
  }
  const bool both = f.has_sign && f.specials == narrow::Specials::nan_only;
  return out +
         row("NaN", both ? "2 codes" : "1 code",
             code_html(f.nan_code(), f) + (both ? ", " + code_html(f.nan_code(true), f) : "")) +
         "</table>\n";
}

// Where the values lie: a tick for each on a scale of powers of two, or a bar where ticks would run together.
std::string line_picture(const Format& f) {
  constexpr double left = 10, right = 990;
  const double low = std::floor(std::log2(narrow::smallest_positive(f))) - 0.5,
               high = std::ceil(std::log2(narrow::largest(f))) + 0.5;
  const auto x = [&](double log2) { return left + (log2 - low) * (right - left) / (high - low); };
  std::string out = "<svg class=\"line\" viewBox=\"0 0 1000 44\" role=\"img\" aria-label=\"positive values\">\n";
  const auto first_normal = std::log2(narrow::smallest_normal(f));
  if (f.width() <= 8) {
    for (Code code = 1; code <= f.max_magnitude(); ++code) {
      const double at = std::log2(narrow::decode(code, f));
      out += "<line x1=\"" + number(x(at)) + "\" x2=\"" + number(x(at)) + "\" y1=\"2\" y2=\"20\" stroke=\"var(" +
             (at < first_normal ? "--sub" : "--mantissa") + ")\" stroke-width=\"1.4\"/>";
    }
  } else {
    if (f.has_subnormals())
      out += "<rect x=\"" + number(x(std::log2(narrow::smallest_positive(f)))) + "\" y=\"2\" width=\"" +
             number(x(first_normal) - x(std::log2(narrow::smallest_positive(f)))) +
             "\" height=\"18\" fill=\"var(--sub)\"/>";
    out += "<rect x=\"" + number(x(first_normal)) + "\" y=\"2\" width=\"" +
           number(x(std::log2(narrow::largest(f))) - x(first_normal)) + "\" height=\"18\" fill=\"var(--mantissa)\"/>";
  }
  const int span = static_cast<int>(high - low);
  int stride = 1;
  while (span / stride > 14) stride *= 2;
  const int start = static_cast<int>(std::ceil(low / stride)) * stride;
  for (int e = start; e <= static_cast<int>(high); e += stride)
    out += "<line x1=\"" + number(x(e)) + "\" x2=\"" + number(x(e)) +
           "\" y1=\"22\" y2=\"27\" stroke=\"var(--faint)\"/><text x=\"" + number(x(e)) +
           "\" y=\"40\" text-anchor=\"middle\" class=\"small\">2<tspan dy=\"-4\" font-size=\"9\">" + std::to_string(e) +
           "</tspan></text>\n";
  return out + "</svg>\n";
}

// A value whose bits are not all zeros: 3, else the largest that is at most 3.
Code example_code(const Format& f) { return narrow::encode(std::min(3.0, narrow::largest(f)), f); }

}  // namespace

const std::string_view page_style = R"(
.page { margin-bottom:2.5em; } .page + .page { break-before:page; }
.page h2 { font-size:2em; } .page .head { border-bottom:2px solid var(--line); margin-bottom:.6em; }
.page code { font-family:ui-monospace,Menlo,Consolas,monospace; font-size:.95em; }
svg .bit { fill:#fff; font:600 15px ui-monospace,Menlo,Consolas,monospace; }
svg .small { font-size:10px; fill:var(--faint); }
svg.layout { margin:.3em 0 .3em; } svg.line { margin:.4em 0; }
.two { display:flex; gap:28px; flex-wrap:wrap; } .two > * { flex:1 1 300px; width:auto; align-self:flex-start; }
caption { text-align:left; font-weight:600; padding-bottom:2px; }
table.facts td:nth-child(n+2) { text-align:right; font-family:ui-monospace,Menlo,Consolas,monospace; font-size:.95em; }
.page h3 { margin:.9em 0 .2em; font-size:1em; }
table.values { width:100%; max-width:1000px; border-collapse:collapse; font-size:.82em; }
table.values th, table.values td { border:1px solid var(--line); padding:1px 5px; text-align:right;
  white-space:nowrap; }
table.values th { color:var(--faint); font-weight:500; background:var(--box);
  font-family:ui-monospace,Menlo,Consolas,monospace; }
table.values td b { font-weight:500; }
table.values td i { color:var(--faint); font-style:normal; font-size:.72em; margin-left:5px; }
table.values td.sub { background:color-mix(in srgb, var(--sub) 35%, transparent); }
table.values td.special { background:color-mix(in srgb, var(--sign) 25%, transparent); }
table.values sup { font-size:.75em; line-height:0; }
.beside { display:flex; gap:18px; flex-wrap:wrap; align-items:flex-start; }
.beside > table { flex:1 1 420px; width:auto; }
@media print { .page { font-size:8.5pt; } .page h2 { font-size:1.6em; } .page p { margin:.15em 0; }
  .page h3 { margin:.5em 0 .1em; }
  .two { flex-wrap:nowrap; } .beside > table { flex-basis:300px; } table.values { font-size:6.6pt; }
  table.values th, table.values td { padding:.6px 3px; }
  table.facts { font-size:8pt; } }
)";

std::string format_page(const ChosenFormat& chosen) {
  const Format& f = chosen.format;
  const Code example = example_code(f);
  const std::string foot = "<p class=\"faint\">Every number here is derived from the bit layout by narrow " +
                           std::string(narrow::version) + ".</p>\n";
  std::string out = "<section class=\"page\" id=\"" + narrow::report::escaped_html(chosen.name) + "\"><div class=\"head\"><h2>" +
                    narrow::report::escaped_html(chosen.name) + "</h2><span class=\"faint\">" + std::to_string(f.width()) +
                    " bits &middot; " + narrow::report::escaped_html(chosen.source) +
                    (chosen.aliases.empty() ? "" : " &middot; also " + narrow::report::escaped_html(chosen.aliases)) + "</span></div>\n";
  out += bits_picture(f, example) + rules_html(f) + example_html(f, example);
  out += "<div class=\"two\">" + limits_html(f) + specials_html(f) + "</div>\n";
  out += "<h3>" + std::string(f.width() <= 8 ? "Where the positive values lie" : "Positive range; lighter: subnormal") +
         "</h3>\n" + line_picture(f);
  if (f.width() <= 8)
    return out + "<h3>Every value, with its code</h3>\n" + value_table_html(f) + foot + "</section>\n";
  return out + "<h3>Binades and their steps</h3>\n" + ladder_table_html(f) + foot + "</section>\n";
}

}  // namespace app
