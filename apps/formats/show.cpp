// narrow show: a number in every format: code, fields, exact value, error, class, neighbours.
#include <algorithm>
#include <memory>

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "formats/explain_show.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/text.hpp"
#include "options/cast_options.hpp"
#include "options/format_list.hpp"

namespace app {
namespace of_show {

using narrow::Code;
using narrow::Format;

struct Options {
  std::vector<std::string> values;
  std::optional<std::string> formats, from;
  CastOptions cast;
  bool json = false, explain = false;
};

struct Target {
  ChosenFormat chosen;
  narrow::Cast cast;
};

struct Input {
  std::string text;
  narrow::ExactNumber number;
  std::optional<ChosenFormat> from;  // the input is a code of this format
  Code code = 0;
};

struct Shown {
  Code code;
  double error_ulp;  // NaN where there is none
};

std::vector<Target> choose_targets(const Options& options) {
  std::vector<Target> targets;
  if (options.formats) {
    for (ChosenFormat& chosen : blame("--formats", [&] { return parse_format_list(*options.formats); })) {
      const narrow::Cast cast = blame(chosen.name, [&] { return options.cast.cast_to(chosen.format); });
      targets.push_back({std::move(chosen), cast});
    }
    return targets;
  }
  // Nobody asked for a certain format: those that the system lacks are left out, and named.
  std::string left_out;
  for (ChosenFormat& chosen : all_formats()) {
    try {
      const narrow::Cast cast = options.cast.cast_to(chosen.format);
      targets.push_back({std::move(chosen), cast});
    } catch (const narrow::Error&) {
      left_out += " " + chosen.name;
    }
  }
  if (targets.empty()) throw narrow::Error("--cast: no format has this: " + options.cast.describe());
  if (!left_out.empty()) complain("note: left out, as they have no " + options.cast.describe() + ":" + left_out);
  return targets;
}

Input read_input(const std::string& text, const std::optional<ChosenFormat>& from) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw narrow::Error(
        "an empty value; accepted: a decimal (0.1, 1e-7), a hex float (0x1.8p-3), inf, nan, or a code "
        "with --from FORMAT");
  if (!from) return {text, narrow::parse_number(text), from, 0};
  const Code code = narrow::parse_code(text, from->format);
  return {text, narrow::exact_number(code, from->format), from, code};
}

Code convert(const Input& input, const Target& target, bool plain, std::uint64_t random) {
  const Format& f = target.chosen.format;
  if (!input.from) return narrow::round_number(input.number, f, target.cast, random);
  const Format& from = input.from->format;
  if (plain && from == f) return input.code;  // the code that was asked about, also when it is an uncommon NaN
  // An exact value has lost what a double still has: the sign and payload of a NaN.
  if (input.number.kind == narrow::NumberKind::nan)
    return narrow::encode(narrow::decode(input.code, from), f, target.cast, random);
  if (target.cast.subnormals == narrow::Subnormals::flush_inputs &&
      narrow::classify(input.code, from) == narrow::ValueClass::subnormal)
    return f.zero_code(narrow::is_negative(input.code, from));
  return narrow::round_number(input.number, f, target.cast, random);
}

Shown compute(const Input& input, const Target& target, bool plain, std::uint64_t random) {
  const Code code = convert(input, target, plain, random);
  return {code, narrow::ulp_error(input.number, code, target.chosen.format)};
}

std::optional<Code> below(Code code, const Format& f) {
  const Code next = narrow::next_down(code, f);
  return narrow::is_nan(code, f) || next == code ? std::nullopt : std::optional(next);
}
std::optional<Code> above(Code code, const Format& f) {
  const Code next = narrow::next_up(code, f);
  return narrow::is_nan(code, f) || next == code ? std::nullopt : std::optional(next);
}

// The bits as "s eeee mmm", each field that the format has.
struct Fields {
  std::string sign, exponent, mantissa;
};

Fields fields_of(Code code, const Format& f) {
  std::string bits;
  for (int i = f.width() - 1; i >= 0; --i) bits += (code >> i & 1) != 0 ? '1' : '0';
  const std::size_t sign = f.has_sign ? 1 : 0, exponent = static_cast<std::size_t>(f.exponent_bits);
  return {bits.substr(0, sign), bits.substr(sign, exponent), bits.substr(sign + exponent)};
}

TextCell fields_cell(const Fields& fields, std::size_t room) {
  const auto join = [](const std::string& a, const std::string& b) {
    return a + (a.empty() || b.empty() ? "" : " ") + b;
  };
  std::string mantissa = fields.mantissa;
  const std::size_t front = join(fields.sign, fields.exponent).size() + 1;
  if (room > 0 && front + mantissa.size() > room)
    mantissa = mantissa.substr(0, room > front + 7 ? room - front - 3 : 4) + "...";
  const std::string plain = join(join(fields.sign, fields.exponent), mantissa);
  return {plain, join(join(paint(fields.sign, Colour::red, true), paint(fields.exponent, Colour::green, true)),
                      paint(mantissa, Colour::blue, true))};
}

std::string error_text(double error) { return std::isnan(error) ? "-" : digits_text(error, 4); }

std::string heading(const Input& input, const Options& options, bool colour) {
  std::string text = paint(input.text, Colour::bold, colour);
  if (input.from) text += " in " + input.from->name + " = " + exact_text(input.code, input.from->format);
  const std::string cast = options.cast.describe();
  return text + (cast.empty() ? "" : paint("  (" + cast + ")", Colour::dim, colour)) + "\n";
}

std::string to_text(const Input& input, const std::vector<Target>& targets, const Options& options) {
  const bool colour = use_colour(1);
  const auto width = static_cast<std::size_t>(terminal_width(1));
  TextTable table{{"format", "code", "value", "error (ulp)", "class", "below", "above", "fields"},
              {Align::left, Align::left, Align::left, Align::right, Align::left, Align::left, Align::left, Align::left},
              {}};
  std::vector<Fields> fields;
  for (const Target& target : targets) {
    const Format& f = target.chosen.format;
    const Shown shown = compute(input, target, options.cast.is_plain(), options.cast.random_value());
    const auto neighbour = [&](std::optional<Code> code) { return code ? short_text(*code, f) : std::string("-"); };
    table.rows.push_back({target.chosen.name, narrow::to_hex_code(shown.code, f), exact_text(shown.code, f),
                          error_text(shown.error_ulp), std::string(narrow::name_of(narrow::classify(shown.code, f))),
                          neighbour(below(shown.code, f)), neighbour(above(shown.code, f)), ""});
    fields.push_back(fields_of(shown.code, f));
  }
  // The fields come last and are cut to the width of the terminal: fp64 has 64 of them.
  const std::string lines = table.to_text(false, 2);
  const std::size_t used = lines.find('\n') - std::string_view("fields").size();
  const std::size_t room = width == 0 ? 0 : std::max<std::size_t>(width - std::min(width, used), 20);
  for (std::size_t i = 0; i < fields.size(); ++i) table.rows[i].back() = fields_cell(fields[i], room);
  return heading(input, options, colour) + table.to_text(colour, 2);
}

// One paragraph a format. A code is called by its value: that is what is rounded.
std::string explained(const Input& input, const std::vector<Target>& targets, const Options& options) {
  const bool colour = use_colour(1);
  std::string text = input.from ? heading(input, options, colour) + "\n" : "";
  for (const Target& target : targets) {
    const Code code = compute(input, target, options.cast.is_plain(), options.cast.random_value()).code;
    const std::string number = input.from ? exact_text(input.code, input.from->format) : input.text;
    text += &target == &targets.front() ? "" : "\n";
    text += explain_cast({number, input.number, target.chosen, target.cast, options.cast.random_value(), code}, colour);
  }
  return text;
}

Json to_json(const Input& input, const Target& target, const Options& options) {
  const Format& f = target.chosen.format;
  const Shown shown = compute(input, target, options.cast.is_plain(), options.cast.random_value());
  const auto neighbour = [&](std::optional<Code> code) {
    return code ? json_number(narrow::decode(*code, f)) : Json();
  };
  Json row = Json::object();
  row["input"] = input.text;
  row["format"] = target.chosen.name;
  row["code"] = narrow::to_hex_code(shown.code, f);
  row["value"] = narrow::to_decimal(shown.code, f);
  row["shortest"] = narrow::to_shortest(shown.code, f);
  row["hex_float"] = narrow::to_hex_float(shown.code, f);
  row["error_ulp"] = std::isnan(shown.error_ulp) ? Json() : json_number(shown.error_ulp);
  row["class"] = narrow::name_of(narrow::classify(shown.code, f));
  row["below"] = neighbour(below(shown.code, f));
  row["above"] = neighbour(above(shown.code, f));
  row["fields"] = fields_cell(fields_of(shown.code, f), 0).text;
  if (input.from) row["from"] = input.from->name;
  if (options.cast.system) row["cast"] = *options.cast.system;
  row["rounding"] = narrow::name_of(target.cast.rounding);
  return row;
}

int run(const Options& options) {
  if (options.values.empty()) throw narrow::Error("show: no value; for example: narrow show 0.1 --formats fp16,bf16");
  if (options.explain && options.json)
    throw narrow::Error("show: --explain is for people and --json for programs; give one of them");
  options.cast.check();
  std::optional<ChosenFormat> from;
  if (options.from) from = blame("--from", [&] { return choose_format(*options.from); });
  std::vector<Input> inputs;
  for (const std::string& value : options.values) inputs.push_back(read_input(value, from));
  const std::vector<Target> targets = choose_targets(options);

  if (options.json) {
    Json rows = Json::array();
    for (const Input& input : inputs)
      for (const Target& target : targets) rows.push_back(to_json(input, target, options));
    print(json_text(rows));
    return 0;
  }
  for (const Input& input : inputs) {
    if (&input != &inputs.front()) print("\n");
    print(options.explain ? explained(input, targets, options) : to_text(input, targets, options));
  }
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("VALUE", options->values, "0.1, -1e-7, 0x1.8p-3, inf, nan; with --from a code: 0x2E66, 0b101, 31");
  arguments.option("--formats", options->formats, "LIST", "comma list of formats, or all (default)");
  arguments.option("--from", options->from, "FORMAT", "the values are codes of this format");
  options->cast.declare(arguments);
  arguments.flag("--explain", options->explain, "the reasoning in words: binade, steps, neighbours, decision, code");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_show

const Command show_command{
    "show", "a number in every format: code, fields, exact value, error in ulp, neighbours",
    "narrow show 0.1 -1e-7 --formats fp16,bf16,e4m3,e5m2", of_show::declare,
    "A value is a decimal of any length, a hex float, inf or nan, and is rounded once, never through double; "
    "with --from it is a code of that format. The error is (result - input) / quantum, below and above are the "
    "neighbours of the result. Long values are cut (...) or given by enough digits to read them back (~); "
    "--json has every digit.\n\n"
    "--cast does as a system does, bit for bit, NaN codes included: PyTorch 2.11 makes NaN of 465 in E4M3, "
    "CUDA's instruction makes 448."};

}  // namespace app
