// narrow formats: the table of formats with their derived limits, as text, Markdown, JSON or a reference card.
#include <memory>

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/limits.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "formats/card.hpp"
#include "formats/device_list.hpp"
#include "options/format_list.hpp"

namespace app {
namespace of_formats {

struct Options {
  std::vector<std::string> names;
  bool json = false, markdown = false, card = false, devices = false;
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
  if (options.names.empty()) formats = all_formats();

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
  arguments.values("NAME", options->names, "formats or aliases, or any eXmY, eXmYfn, eXmYf (default: every format)");
  arguments.flag("--devices", options->devices,
                 "which device multiplies and converts in these formats, and since when");
  arguments.flag("--json", options->json, "print JSON");
  arguments.flag("--markdown", options->markdown, "print a Markdown table");
  arguments.flag("--card", options->card, "write a reference card, one HTML page to read or print");
  arguments.option("-o,--output", options->output, "FILE", "where --card goes, for example card.html");
  return [options] { return run(*options); };
}

}  // namespace of_formats

const Command formats_command{"formats", "the table of formats: bits, bias, limits, epsilon, specials, source",
                              "narrow formats fp16 bf16 e4m3 e5m3fn", of_formats::declare};

}  // namespace app
