// From "name=value" to checked parameters, and back to the command that makes the same run again.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "analysis/framework/experiment.hpp"
#include "analysis/framework/run_folders.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace analysis {
namespace {

// The shortest decimal that reads back: 0.1, 1e-07, 65536.
std::string number_text(double value) {
  const double whole = std::trunc(value);
  if (whole == value && std::fabs(value) < 0x1p53) return std::to_string(static_cast<std::int64_t>(value));
  for (int digits = 1; digits < 17; ++digits) {
    const std::string text = narrow::report::significant_text(value, digits);
    double back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    if (back == value) return text;
  }
  return narrow::report::significant_text(value, 17);
}

Parameter number_parameter(ParameterKind kind, std::string name, const ByEffort& initial, double low, double high,
                           std::string help) {
  Parameter p{std::move(name), kind, {}, low, high, {}, std::move(help)};
  for (int effort = 0; effort < 3; ++effort) p.initial[effort] = number_text(initial.value[effort]);
  return p;
}

// 2^-24 as well as 0.5: scales are powers of two, and 16777216 is hard to type.
double parse_number(const std::string& text) {
  if (text.size() > 2 && text.starts_with("2^")) {
    constexpr narrow::Format fp64 = *narrow::find_format("fp64");
    const double exponent = narrow::decode(narrow::parse_value(text.substr(2), fp64), fp64);
    if (std::trunc(exponent) == exponent && std::fabs(exponent) <= 1000)
      return std::ldexp(1.0, static_cast<int>(exponent));
    throw narrow::Error("no power of two");
  }
  constexpr narrow::Format fp64 = *narrow::find_format("fp64");
  return narrow::decode(narrow::parse_value(text, fp64), fp64);
}

std::string range_text(const Parameter& p) {
  return std::string(p.kind == ParameterKind::integer ? "an integer" : "a number") + " from " + number_text(p.low) +
         " to " + number_text(p.high);
}

double checked_number(const Parameter& p, const std::string& text) {
  double value = std::nan("");
  try {
    value = parse_number(text);
  } catch (const narrow::Error&) {
    throw narrow::Error(p.name + "=" + narrow::quote(text) + " is no number; " + p.name + " is " + range_text(p) +
                        " (" + p.help + ")");
  }
  const bool whole = p.kind != ParameterKind::integer || std::trunc(value) == value;
  if (!whole || !(value >= p.low && value <= p.high))
    throw narrow::Error(p.name + "=" + narrow::quote(text) + " is out of range; " + p.name + " is " + range_text(p) +
                        " (" + p.help + ")");
  return value;
}

void check_choice(const Parameter& p, const std::string& text) {
  if (std::find(p.choices.begin(), p.choices.end(), text) != p.choices.end()) return;
  std::string list;
  for (const std::string& choice : p.choices) list += (list.empty() ? "" : ", ") + choice;
  throw narrow::Error(p.name + "=" + narrow::quote(text) + " is not there; " +
                      narrow::hint(text, {p.choices.begin(), p.choices.end()}) + "choices: " + list);
}

const char* effort_flag(Effort effort) {
  return effort == Effort::fast ? " --fast" : effort == Effort::full ? " --full" : "";
}

}  // namespace

// In single quotes unless every character is harmless.
std::string shell_word(const std::string& word) {
  const auto harmless = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-+=./,:^@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), harmless)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Parameter integer_parameter(std::string name, ByEffort initial, double low, double high, std::string help) {
  return number_parameter(ParameterKind::integer, std::move(name), initial, low, high, std::move(help));
}
Parameter real_parameter(std::string name, ByEffort initial, double low, double high, std::string help) {
  return number_parameter(ParameterKind::real, std::move(name), initial, low, high, std::move(help));
}
Parameter choice_parameter(std::string name, std::vector<std::string> choices, std::string help) {
  Parameter p{std::move(name), ParameterKind::choice, {}, 0, 0, std::move(choices), std::move(help)};
  for (std::string& text : p.initial) text = p.choices.at(0);
  return p;
}
Parameter text_parameter(std::string name, std::string initial, std::string help) {
  Parameter p{std::move(name), ParameterKind::text, {}, 0, 0, {}, std::move(help)};
  for (std::string& text : p.initial) text = initial;
  return p;
}
Parameter file_parameter(std::string name, std::string help) {
  return {std::move(name), ParameterKind::file, {}, 0, 0, {}, std::move(help)};
}

Parameter run_parameter() {
  return {"run",
          ParameterKind::folder,
          {},
          0,
          0,
          {},
          "folder that narrow.torch.watch wrote, or the name of a run in data/gpt/runs"};
}

Parameters::Parameters(const Experiment& experiment, const std::vector<std::string>& settings, Effort effort)
    : experiment_(experiment.name), effort_(effort) {
  for (const Parameter& p : experiment.parameters)
    values_.push_back({p, p.initial[static_cast<int>(effort)], 0, false});
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    const auto value =
        std::find_if(values_.begin(), values_.end(), [&](const Value& v) { return v.declared.name == name; });
    if (value == values_.end()) {
      std::string list;
      std::vector<std::string_view> names;
      for (const Value& v : values_) {
        names.emplace_back(v.declared.name);
        list += (list.empty() ? "" : ", ") + v.declared.name;
      }
      throw narrow::Error(experiment_ + " has no parameter " + narrow::quote(name) + "; " +
                          narrow::hint(name, names) +
                          (list.empty() ? "it has none" : "parameters: " + list));
    }
    if (equals == std::string::npos)
      throw narrow::Error(narrow::quote(setting) + " has no value; write " + name + "=VALUE (" + value->declared.help +
                          ")");
    if (value->given) throw narrow::Error(name + " is given twice");
    value->text = setting.substr(equals + 1);
    value->given = true;
  }
  for (Value& v : values_) {
    const ParameterKind kind = v.declared.kind;
    if (kind == ParameterKind::integer || kind == ParameterKind::real) v.number = checked_number(v.declared, v.text);
    if (kind == ParameterKind::choice) check_choice(v.declared, v.text);
    if (kind == ParameterKind::folder) v.path = run_folder(v.text);
  }
}

const Parameters::Value& Parameters::find(std::string_view name) const {
  for (const Value& v : values_)
    if (v.declared.name == name) return v;
  throw std::logic_error(experiment_ + " asks for a parameter that it did not declare: " + std::string(name));
}

std::int64_t Parameters::integer(std::string_view name) const {
  const Value& v = find(name);
  if (v.declared.kind != ParameterKind::integer)
    throw std::logic_error(experiment_ + ": no integer: " + std::string(name));
  return static_cast<std::int64_t>(v.number);
}

double Parameters::real(std::string_view name) const {
  const Value& v = find(name);
  if (v.declared.kind != ParameterKind::real) throw std::logic_error(experiment_ + ": no real: " + std::string(name));
  return v.number;
}

const std::string& Parameters::text(std::string_view name) const {
  const Value& v = find(name);
  if (v.declared.kind == ParameterKind::integer || v.declared.kind == ParameterKind::real)
    throw std::logic_error(experiment_ + ": no text: " + std::string(name));
  return v.declared.kind == ParameterKind::folder ? v.path : v.text;
}

bool Parameters::is_given(std::string_view name) const { return find(name).given; }

narrow::report::ParameterTexts Parameters::texts() const {
  narrow::report::ParameterTexts all;
  for (const Value& v : values_)
    all.emplace_back(v.declared.name, v.declared.kind >= ParameterKind::file && v.text.empty() ? "(recorded)" : v.text);
  return all;
}

std::string Parameters::command() const {
  std::string line = "narrow run " + experiment_;
  for (const Value& v : values_)
    if (v.given) line += " " + shell_word(v.declared.name + "=" + v.text);
  return line + effort_flag(effort_) + " -o out";
}

}  // namespace analysis
