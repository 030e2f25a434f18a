// narrow formats: the table of formats with their derived limits, as text, Markdown, JSON or a reference card.
#include <algorithm>
#include <memory>

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/limits.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "formats/card_page.hpp"
#include "narrow/format/device_table.hpp"
#include "narrow/report/escape.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/text/text.hpp"
#include "options/format_list.hpp"

namespace app {
namespace of_formats {

using narrow::Code;
using narrow::Format;
using narrow::report::escaped_html;

struct Options {
  std::vector<std::string> names;
  bool json = false, markdown = false, card = false, devices = false, p3109 = false;
  std::optional<std::string> output;
};

TextTable to_table(const std::vector<ChosenFormat>& formats, bool colour) {
  constexpr Align l = Align::left, r = Align::right;
  TextTable table{{"format", "bits", "e", "m", "bias", "largest", "smallest normal", "smallest subnormal", "epsilon",
               "decades", "specials", "source"},
              {l, r, r, r, r, r, r, r, r, r, l, l},
              {}};
  for (const ChosenFormat& chosen : formats) {
    const narrow::Format& f = chosen.format;
    const Limits limits = limits_of(f);
    table.rows.push_back({{chosen.name, paint(chosen.name, Colour::bold, colour)},
                          std::to_string(f.width()),
                          std::to_string(f.exponent_bits),
                          std::to_string(f.mantissa_bits),
                          std::to_string(f.bias),
                          limit_text(limits.largest),
                          limit_text(limits.smallest_normal),
                          limits.smallest_subnormal ? limit_text(*limits.smallest_subnormal) : "-",
                          limit_text(limits.epsilon),
                          decimal_text(limits.decades, 1),
                          specials_text(f),
                          chosen.source});
  }
  return table;
}

Json to_json(const ChosenFormat& chosen) {
  const narrow::Format& f = chosen.format;
  const Limits limits = limits_of(f);
  Json row = Json::object();
  row["name"] = chosen.name;
  row["bits"] = f.width();
  row["exponent_bits"] = f.exponent_bits;
  row["mantissa_bits"] = f.mantissa_bits;
  row["bias"] = f.bias;
  row["max"] = json_number(limits.largest);
  row["lowest"] = json_number(limits.lowest);
  row["min_normal"] = json_number(limits.smallest_normal);
  row["min_subnormal"] = limits.smallest_subnormal ? json_number(*limits.smallest_subnormal) : Json();
  row["epsilon"] = json_number(limits.epsilon);
  row["decades"] = json_number(limits.decades);
  row["has_sign"] = f.has_sign;
  row["has_zero"] = f.has_zero;
  row["has_inf"] = f.has_infinity();
  row["has_nan"] = f.has_nan();
  row["aliases"] = chosen.aliases;
  row["source"] = chosen.source;
  return row;
}

constexpr const char* style = R"(
:root { --page:#fff; --ink:#1b1f24; --faint:#667; --line:#d8dde3; --box:#f7f8fa;
        --sign:#c9372c; --exponent:#1f8a4c; --mantissa:#2563c9; --sub:#9db9ea; }
@media (prefers-color-scheme: dark) { :root { --page:#14171b; --ink:#e6e9ed; --faint:#98a2ad; --line:#333a42;
        --box:#1c2026; --sign:#e5645a; --exponent:#3fae6e; --mantissa:#5b93ee; --sub:#33507f; } }
@media print { :root { --page:#fff; --ink:#000; --faint:#555; --line:#bbb; --box:#fff;
        --sign:#c9372c; --exponent:#1f8a4c; --mantissa:#2563c9; --sub:#9db9ea; } @page { margin:12mm; }
        body { font-size:9pt; } * { print-color-adjust:exact; -webkit-print-color-adjust:exact; } }
* { box-sizing:border-box; }
body { margin:0 auto; padding:1.5em; max-width:1180px; background:var(--page); color:var(--ink);
       font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif; }
h1 { margin:0; font-size:1.6em; }
h2 { margin:0; font-size:1.2em; font-family:ui-monospace,Menlo,Consolas,monospace; }
p { margin:.3em 0; } .faint { color:var(--faint); font-size:.86em; overflow-wrap:anywhere; }
svg { display:block; width:100%; height:auto; margin:.6em 0 1em; }
svg text { fill:var(--ink); font:12px system-ui,sans-serif; }
.cards { display:grid; grid-template-columns:repeat(auto-fill,minmax(350px,1fr)); gap:14px; }
.card { background:var(--box); border:1px solid var(--line); border-radius:8px; padding:12px 14px; break-inside:avoid; }
.head { display:flex; justify-content:space-between; align-items:baseline; }
.bits { display:flex; margin:.6em 0 .2em; gap:1px; }
.bits i { flex:1 1 0; max-width:24px; height:22px; font:11px/22px ui-monospace,Menlo,Consolas,monospace;
          text-align:center; color:#fff; border-radius:2px; overflow:hidden; font-style:normal; }
.bits.many i { font-size:0; height:18px; }
.s { background:var(--sign); } .e { background:var(--exponent); } .m { background:var(--mantissa); }
table { border-collapse:collapse; width:100%; margin-top:.5em; font-size:.9em; }
td { padding:1.5px 0; border-top:1px solid var(--line); } td + td { text-align:right; padding-left:8px; }
td.n, .values { font-family:ui-monospace,Menlo,Consolas,monospace; font-size:.95em; }
)";

std::string row(const std::string& what, const std::string& value, const std::string& hex_float,
                const std::string& code) {
  return "<tr><td>" + what + "</td><td class=\"n\">" + value + "</td><td class=\"n\">" + hex_float +
         "</td><td class=\"n\">" + code + "</td></tr>\n";
}

std::string code_row(const std::string& what, Code code, const Format& f) {
  return row(what, limit_text(narrow::decode(code, f)), narrow::to_hex_float(code, f), narrow::to_hex_code(code, f));
}

std::string bit_cells(const Format& f) {
  std::string out = f.width() > 20 ? "<div class=\"bits many\">" : "<div class=\"bits\">";
  const auto cells = [&](const char* kind, int count) {
    for (int i = 0; i < count; ++i) out += std::string("<i class=\"") + kind + "\">" + kind + "</i>";
  };
  cells("s", f.has_sign ? 1 : 0);
  cells("e", f.exponent_bits);
  cells("m", f.mantissa_bits);
  return out + "</div>\n";
}

std::string layout_text(const Format& f) {
  const auto bits = [](int n, const char* what) { return std::to_string(n) + (n == 1 ? " bit " : " bits ") + what; };
  if (f.is_integer()) return bits(f.width(), f.has_sign ? "two's complement" : "unsigned integer");
  std::string text = f.has_sign ? "sign, " : "no sign, ";
  return text + bits(f.exponent_bits, "exponent") + ", " + bits(f.mantissa_bits, "mantissa") + ", bias " +
         std::to_string(f.bias);
}

Code count_nans(const Format& f) {
  switch (f.specials) {
    case narrow::Specials::inf_and_nan: return 2 * f.mantissa_mask();
    case narrow::Specials::nan_only: return f.has_sign ? 2 : 1;
    case narrow::Specials::nan_is_negative_zero:
    case narrow::Specials::extended: return 1;
    case narrow::Specials::none: break;
  }
  return 0;
}

std::string limit_rows(const Format& f) {
  const Code normal = narrow::encode(narrow::smallest_normal(f), f);
  std::string out = code_row("largest", f.max_code(), f);
  if (f.has_sign) out += code_row("lowest", f.max_code(true), f);
  out += code_row("smallest normal", normal, f);
  if (f.has_subnormals()) out += code_row("smallest subnormal", 1, f);
  out += row("epsilon", limit_text(narrow::epsilon(f)), "", "");
  return out + row("decades", decimal_text(limits_of(f).decades, 1), "", "");
}

std::string special_rows(const Format& f) {
  std::string out;
  if (f.has_zero) out += code_row("zero", f.zero_code(), f);
  if (f.has_negative_zero()) out += code_row("negative zero", f.zero_code(true), f);
  if (narrow::largest(f) >= 1) out += code_row("one", narrow::encode(1.0, f), f);
  if (f.has_infinity()) {
    out += code_row("infinity", f.infinity_code(), f);
    if (f.has_sign) out += code_row("negative infinity", f.infinity_code(true), f);
  }
  if (!f.has_nan()) return out + row("NaN", "none", "", "");
  const Code nans = count_nans(f);
  return out +
         row("NaN", nans == 1 ? "1 code" : std::to_string(nans) + " codes", "", narrow::to_hex_code(f.nan_code(), f));
}

// Every value at and above zero, where they are few.
std::string all_values(const Format& f) {
  if (f.width() > 6) return "";
  std::string out = "<p class=\"values\">";
  for (Code code = 0; code <= f.max_magnitude(); ++code) out += (code == 0 ? "" : " ") + short_text(code, f);
  return out + "</p>\n";
}

std::string card(const ChosenFormat& chosen) {
  const Format& f = chosen.format;
  std::string aliases = escaped_html(chosen.aliases);
  return "<section class=\"card\"><div class=\"head\"><h2>" + escaped_html(chosen.name) +
         "</h2><span class=\"faint\">" + std::to_string(f.width()) + " bits</span></div>\n" + bit_cells(f) +
         "<p class=\"faint\">" + layout_text(f) + "</p>\n<table>\n" + limit_rows(f) + special_rows(f) + "</table>\n" +
         all_values(f) + "<p class=\"faint\">" + escaped_html(chosen.source) +
         (aliases.empty() ? "" : "<br>also: " + aliases) + "</p></section>\n";
}

// One bar a format over the powers of two; subnormals are lighter. fp64 goes beyond both ends.
std::string range_picture(const std::vector<ChosenFormat>& formats) {
  constexpr double left = 110, right = 990, low = -152, high = 132, pitch = 20;
  const auto x = [&](double log2) {
    return left + (std::clamp(log2, low, high) - low) * (right - left) / (high - low);
  };
  const auto number = [](double v) { return decimal_text(v, 1); };
  const double height = pitch * static_cast<double>(formats.size()) + 24;
  std::string out =
      "<svg viewBox=\"0 0 1000 " + number(height) + "\" role=\"img\" aria-label=\"range of each format\">\n";
  for (int power = -150; power <= 130; power += 25)
    out += "<line x1=\"" + number(x(power)) + "\" x2=\"" + number(x(power)) + "\" y1=\"0\" y2=\"" +
           number(height - 18) + "\" stroke=\"var(--line)\"/><text x=\"" + number(x(power)) + "\" y=\"" +
           number(height - 4) + "\" text-anchor=\"middle\">2^" + std::to_string(power) + "</text>\n";
  double y = 0;
  for (const ChosenFormat& chosen : formats) {
    const Limits limits = limits_of(chosen.format);
    const auto bar = [&](double from, double to, const char* colour) {
      const double a = x(std::log2(from)), b = x(std::log2(to));
      return "<rect x=\"" + number(a) + "\" y=\"" + number(y + 4) + "\" width=\"" + number(std::max(b - a, 1.0)) +
             "\" height=\"12\" rx=\"2\" fill=\"var(" + colour + ")\"/>";
    };
    out += "<text x=\"100\" y=\"" + number(y + 15) + "\" text-anchor=\"end\">" + escaped_html(chosen.name) + "</text>";
    if (limits.smallest_subnormal) out += bar(*limits.smallest_subnormal, limits.smallest_normal, "--sub");
    out += bar(limits.smallest_normal, limits.largest, "--mantissa") + "\n";
    y += pitch;
  }
  return out + "</svg>\n";
}

// The reference card: one self-contained HTML file, a printed page a format; several formats begin with an overview.
std::string format_card(const std::vector<ChosenFormat>& formats) {
  const bool one = formats.size() == 1;
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>narrow: " +
      (one ? escaped_html(formats.front().name) : "number formats") + "</title>\n<style>" + std::string(style) +
      std::string(page_style) + "</style></head>\n<body>\n";
  if (!one) {
    out +=
        "<div class=\"page\"><h1>Number formats</h1>\n<p class=\"faint\">Columns: value, the same as a hex float, "
        "code. A page for each format follows.</p>\n"
        "<p>Positive range; subnormal values are lighter, and bars that reach an edge go on beyond it.</p>\n";
    out += range_picture(formats) + "<div class=\"cards\">\n";
    for (const ChosenFormat& chosen : formats) out += card(chosen);
    out += "</div></div>\n";
  }
  for (const ChosenFormat& chosen : formats) out += format_page(chosen);
  return out + "</body></html>\n";
}

// --devices: which device multiplies and converts in which format.

bool has(std::string_view list, const narrow::Format& format) {
  bool found = false;
  narrow::for_each_format(list,
                          [&](std::string_view name) { found = found || narrow::require_format(name) == format; });
  return found;
}

// Columns are these formats; where none is asked for, all that some device has.
std::vector<ChosenFormat> columns_of(const std::vector<ChosenFormat>& asked) {
  if (!asked.empty()) return asked;
  std::vector<ChosenFormat> columns = all_formats();
  std::erase_if(columns, [](const ChosenFormat& c) {
    return std::none_of(std::begin(narrow::device_table), std::end(narrow::device_table), [&](const auto& row) {
      return has(row.products, c.format) || has(row.scales, c.format) || has(row.conversions, c.format);
    });
  });
  return columns;
}

// No device of the table has an unknown conversion to one format and a known one to another.
std::string cell(const narrow::DeviceRow& row, const narrow::Format& format) {
  const std::string text = std::string(has(row.products, format) ? "P" : "") + (has(row.scales, format) ? "S" : "") +
                           (has(row.conversions, format) ? "C"
                            : row.conversions.empty()    ? "?"
                                                         : "");
  return text.empty() ? "-" : text;
}

TextTable device_list(const std::vector<ChosenFormat>& formats, bool colour) {
  TextTable table{{"device", "parts", "year"}, {Align::left, Align::left, Align::right}, {}};
  const std::vector<ChosenFormat> columns = columns_of(formats);
  for (const ChosenFormat& c : columns) {
    table.header.push_back(c.name);
    table.align.push_back(Align::left);
  }
  table.header.emplace_back("source");
  table.align.push_back(Align::left);
  for (const narrow::DeviceRow& row : narrow::device_table) {
    std::vector<TextCell> cells{{std::string(row.name), paint(std::string(row.name), Colour::bold, colour)},
                            std::string(row.parts),
                            std::to_string(row.year)};
    for (const ChosenFormat& c : columns) cells.emplace_back(cell(row, c.format));
    cells.emplace_back(std::string(row.source));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Json device_list_json(const std::vector<ChosenFormat>& formats) {
  const std::vector<ChosenFormat> columns = columns_of(formats);
  const auto names = [&](std::string_view list) {
    Json found = Json::array();
    for (const ChosenFormat& c : columns)
      if (has(list, c.format)) found.push_back(c.name);
    return found;
  };
  Json rows = Json::array();
  for (const narrow::DeviceRow& row : narrow::device_table)
    rows.push_back({{"device", row.name},
                    {"parts", row.parts},
                    {"year", row.year},
                    {"products", names(row.products)},
                    {"scales", names(row.scales)},
                    {"conversions", row.conversions.empty() ? Json() : names(row.conversions)},
                    {"source", row.source}});
  return rows;
}

constexpr const char* device_list_legend =
    "P matrix products with operands of the format; S scales of blocks that such a product multiplies in; C an\n"
    "instruction that converts FP32 to it (fp32: FP64). ? not documented. Arithmetic without a matrix unit is not "
    "listed.\n";

void check(const Options& options) {
  if (options.json + options.markdown + options.card > 1)
    throw narrow::Error("formats: only one of --json, --markdown and --card");
  if (options.devices && options.card) throw narrow::Error("formats: only one of --devices and --card");
  if (options.card && !options.output) throw narrow::Error("formats: --card needs a file: --card -o card.html");
  if (options.output && !options.card)
    throw narrow::Error("formats: -o is for the reference card: --card -o card.html");
}

int run(const Options& options) {
  check(options);
  std::vector<ChosenFormat> formats;
  for (const std::string& name : options.names)
    for (ChosenFormat& chosen : parse_format_list(name)) formats.push_back(std::move(chosen));
  const bool colour = use_colour(1);
  if (options.devices) {
    const TextTable table = device_list(formats, colour);
    print(options.json       ? json_text(device_list_json(formats))
          : options.markdown ? table.to_markdown()
                             : table.to_text(colour) + "\n" + device_list_legend);
    return 0;
  }
  if (options.names.empty()) formats = options.p3109 ? std::vector<ChosenFormat>() : all_formats();
  if (options.p3109)
    for (ChosenFormat& chosen : p3109_formats()) formats.push_back(std::move(chosen));

  if (options.card) {
    blame("-o", [&] { write_file(*options.output, format_card(formats)); });
    return 0;
  }
  if (options.json) {
    Json rows = Json::array();
    for (const ChosenFormat& chosen : formats) rows.push_back(to_json(chosen));
    print(json_text(rows));
    return 0;
  }
  const TextTable table = to_table(formats, colour);
  print(options.markdown ? table.to_markdown() : table.to_text(colour));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values(
      "NAME", options->names,
      "formats or aliases, or any eXmY, eXmYfn, eXmYf, eXmYfnuz, eXmYb9fn, binary8p3se (default: the table)");
  arguments.flag("--p3109", options->p3109, "the 8-bit formats of IEEE P3109, draft 4.0");
  arguments.flag("--devices", options->devices,
                 "which device multiplies and converts in these formats, and since when");
  arguments.flag("--json", options->json, "print JSON");
  arguments.flag("--markdown", options->markdown, "print a Markdown table");
  arguments.flag("--card", options->card, "write a reference card, one HTML page to read or print");
  arguments.option("-o,--output", options->output, "FILE", "where --card goes, for example card.html");
  return [options] { return run(*options); };
}

}  // namespace of_formats

const Command formats_command{
    "formats", "the table of formats: bits, bias, limits, epsilon, specials, source",
    "narrow formats fp16 bf16 e4m3 e5m3fn", of_formats::declare,
    "Without a name: all rows of the table. A name is a row, one of its aliases (float8_e4m3fn, half), any "
    "eXmY (IEEE-like), eXmYfn, eXmYfnuz, eXmYf, with a bias as in e4m3b9fn, or binary8p3se of IEEE P3109. "
    "Epsilon is the distance of 1 from the next value, decades is log10(largest / smallest positive value).\n\n"
    "Block formats, whose elements share scales, are in narrow list-scaling."};

}  // namespace app
