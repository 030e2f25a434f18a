// narrow list-scaling: every scaling rule by name, with its parameters and its source.
#include <memory>

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/scale/block_format.hpp"
#include "narrow/scale/scaler_table.hpp"

namespace app {
namespace of_list_scaling {

std::string value_text(const narrow::ParameterRow& p) {
  if (p.kind == narrow::ParameterKind::limit && p.initial == 0) return "none";
  return p.kind == narrow::ParameterKind::scale && p.initial > 4096 ? scale_text(p.initial) : digits_text(p.initial, 6);
}

const char* kind_text(narrow::ScalerKind kind) {
  return kind == narrow::ScalerKind::loss_scaler ? "loss scaler" : "tensor recipe";
}
const char* kind_text(narrow::ScaleKind kind) {
  return kind == narrow::ScaleKind::e8m0 ? "E8M0" : kind == narrow::ScaleKind::e4m3 ? "E4M3" : "FP32";
}

std::string block_text(const narrow::BlockFormat& f) {
  const auto side = [](std::size_t n) { return n == 0 ? std::string("all") : std::to_string(n); };
  return side(f.block_rows) + " x " + side(f.block_cols);
}

Json policy_json(const narrow::ScalerRow& row) {
  Json parameters = Json::array();
  for (const narrow::ParameterRow& p : row.parameters) {
    const bool none = p.kind == narrow::ParameterKind::limit && p.initial == 0;
    parameters.push_back({{"name", p.name},
                          {"default", none ? Json() : json_number(p.initial)},
                          {"accepted", describe(p.kind)},
                          {"what", p.what}});
  }
  return {{"kind", kind_text(row.kind)},
          {"name", row.name},
          {"what", row.what},
          {"source", row.source},
          {"parameters", parameters}};
}

Json to_json() {
  Json list = Json::array();
  for (const narrow::ScalerRow& row : narrow::scaler_table()) list.push_back(policy_json(row));
  for (const narrow::BlockFormatRow& row : narrow::block_format_table()) {
    Json rules = Json::array();
    for (const std::string_view rule : narrow::rules_for(row.format)) rules.push_back(rule);
    list.push_back({{"kind", "block format"},
                    {"name", row.name},
                    {"source", row.source},
                    {"element_bits", row.format.element.width()},
                    {"scale", kind_text(narrow::row_of(row.format.rule).scale)},
                    {"block", {row.format.block_rows, row.format.block_cols}},
                    {"bits_per_element", row.format.bits_per_element()},
                    {"rule", narrow::row_of(row.format.rule).name},
                    {"rules", rules}});
  }
  for (const narrow::ScaleRuleRow& row : narrow::scale_rule_table)
    list.push_back({{"kind", "block rule"},
                    {"name", row.name},
                    {"scale", kind_text(row.scale)},
                    {"what", row.what},
                    {"source", row.source}});
  return list;
}

TextTable policies(narrow::ScalerKind kind) {
  TextTable table{{"policy", "parameters and defaults", "what", "source"},
              {Align::left, Align::left, Align::left, Align::left},
              {}};
  for (const narrow::ScalerRow& row : narrow::scaler_table()) {
    if (row.kind != kind) continue;
    std::string parameters;
    for (const narrow::ParameterRow& p : row.parameters)
      parameters += (parameters.empty() ? "" : " ") + std::string(p.name) + "=" + value_text(p);
    table.rows.push_back(
        {std::string(row.name), parameters.empty() ? "-" : parameters, std::string(row.what), std::string(row.source)});
  }
  return table;
}

TextTable formats() {
  TextTable table{{"format", "block", "scale", "bits/element", "default rule", "source"},
              {Align::left, Align::left, Align::left, Align::right, Align::left, Align::left},
              {}};
  for (const narrow::BlockFormatRow& row : narrow::block_format_table())
    table.rows.push_back({std::string(row.name), block_text(row.format),
                          kind_text(narrow::row_of(row.format.rule).scale),
                          digits_text(row.format.bits_per_element(), 6),
                          std::string(narrow::row_of(row.format.rule).name), std::string(row.source)});
  table.rows.push_back(
      {"bfpNxB", "1 x B", "E8M0", "N + 8/B", "ocp_floor", "block floating point: N = 2 to 8 bits, two's complement"});
  return table;
}

TextTable rules() {
  TextTable table{{"rule", "scale", "what", "source"}, {Align::left, Align::left, Align::left, Align::left}, {}};
  for (const narrow::ScaleRuleRow& row : narrow::scale_rule_table)
    table.rows.push_back({std::string(row.name), kind_text(row.scale), std::string(row.what), std::string(row.source)});
  return table;
}

int run(bool json) {
  if (json) {
    print(json_text(to_json()));
    return 0;
  }
  const bool colour = use_colour(1);
  print("Loss scalers, for scale-trace --policy (NAME or NAME:PARAMETER=VALUE:...)\n");
  print(policies(narrow::ScalerKind::loss_scaler).to_text(colour, 2));
  print("\nFP8 scales of a tensor, row or block from its amax, for scale-trace --policy\n");
  print(policies(narrow::ScalerKind::tensor_recipe).to_text(colour, 2));
  print("\nBlock formats, for stats --formats and cast --to (NAME or NAME:RULE)\n");
  print(formats().to_text(colour, 2));
  print("\nRules by which blocks get their scales\n");
  print(rules().to_text(colour, 2));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto json = std::make_shared<bool>(false);
  arguments.flag("--json", *json, "print JSON");
  return [json] { return run(*json); };
}

}  // namespace of_list_scaling

const Command list_scaling_command{
    "list-scaling", "loss scalers, FP8 recipes and block formats with their rules and sources", "narrow list-scaling",
    of_list_scaling::declare,
    "The names that scale-trace, train, cast, stats and quantize take, with parameters, defaults and where "
    "each rule comes from."};

}  // namespace app
