#include "narrow/text/text.hpp"

#include <algorithm>
#include <span>

#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

// What parses as which enumerator, besides its own name.
template <class Enum>
struct Choice {
  Enum value;
  std::string_view aliases = "";  // separated by spaces
};

constexpr Choice<Rounding> roundings[] = {
    {Rounding::nearest_even, "rne rn"}, {Rounding::nearest_away, "rna"}, {Rounding::nearest_to_zero},
    {Rounding::toward_zero, "rz"},      {Rounding::up, "ru rp"},         {Rounding::down, "rd rm"},
    {Rounding::to_odd, "ro"},           {Rounding::stochastic, "sr"},
};
constexpr Choice<Overflow> overflow_choices[] = {{Overflow::to_special}, {Overflow::saturate}, {Overflow::saturate_finite}};
constexpr Choice<Subnormals> subnormals[] = {
    {Subnormals::keep}, {Subnormals::flush_results}, {Subnormals::flush_inputs}};

void add_words(std::vector<std::string_view>& words, std::string_view list) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    words.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

// "unknown WHAT 'WORD'; did you mean 'X'?"
std::string unknown(std::string_view what, std::string_view word, const std::vector<std::string_view>& accepted) {
  const std::string close = did_you_mean(word, accepted);
  std::string text = "unknown " + std::string(what) + " " + quote(word) + ";";
  if (!close.empty()) text += " did you mean '" + close + "'?";
  return text + " accepted:";
}

template <class Enum>
Enum parse_enum(std::string_view what, std::string_view word, std::span<const Choice<Enum>> choices) {
  std::string spelled(word);
  std::replace(spelled.begin(), spelled.end(), '-', '_');
  std::vector<std::string_view> accepted;
  std::string list;
  for (const auto& [value, aliases] : choices) {
    if (detail::same_word(name_of(value), spelled) || detail::has_word(aliases, spelled)) return value;
    accepted.push_back(name_of(value));
    list += " " + std::string(name_of(value));
    if (!aliases.empty()) list += " (" + std::string(aliases) + ")";
  }
  for (const auto& choice : choices) add_words(accepted, choice.aliases);  // last: a full name is the better guess
  throw Error(unknown(what, word, accepted) + list);
}

}  // namespace

// Switches, so that the compiler names a forgotten enumerator.
std::string_view name_of(Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even: return "nearest_even";
    case Rounding::nearest_away: return "nearest_away";
    case Rounding::nearest_to_zero: return "nearest_to_zero";
    case Rounding::toward_zero: return "toward_zero";
    case Rounding::up: return "up";
    case Rounding::down: return "down";
    case Rounding::to_odd: return "to_odd";
    case Rounding::stochastic: return "stochastic";
  }
  return {};
}

std::string_view name_of(Overflow overflow) {
  switch (overflow) {
    case Overflow::to_special: return "to_special";
    case Overflow::saturate: return "saturate";
    case Overflow::saturate_finite: return "saturate_finite";
  }
  return {};
}

std::string_view name_of(Subnormals rule) {
  switch (rule) {
    case Subnormals::keep: return "keep";
    case Subnormals::flush_results: return "flush_results";
    case Subnormals::flush_inputs: return "flush_inputs";
  }
  return {};
}

std::string_view name_of(Nan rule) {
  switch (rule) {
    case Nan::canonical: return "canonical";
    case Nan::keep_sign: return "keep_sign";
    case Nan::keep_payload: return "keep_payload";
    case Nan::quiet: return "quiet";
    case Nan::cut_payload: return "cut_payload";
    case Nan::turned_zero: return "turned_zero";
    case Nan::zero: return "zero";
  }
  return {};
}

std::string_view name_of(ValueClass value_class) {
  switch (value_class) {
    case ValueClass::zero: return "zero";
    case ValueClass::subnormal: return "subnormal";
    case ValueClass::normal: return "normal";
    case ValueClass::inf: return "inf";
    case ValueClass::nan: return "nan";
  }
  return {};
}

Rounding parse_rounding(std::string_view name) { return parse_enum<Rounding>("rounding", name, roundings); }
Overflow parse_overflow(std::string_view name) { return parse_enum<Overflow>("overflow", name, overflow_choices); }
Subnormals parse_subnormals(std::string_view name) { return parse_enum<Subnormals>("subnormals", name, subnormals); }

std::string name_of(const Format& f) {
  for (const NamedFormat& row : format_table)
    if (row.format == f) return std::string(row.name);
  const std::string fields = "e" + std::to_string(f.exponent_bits) + "m" + std::to_string(f.mantissa_bits);
  constexpr std::string_view endings[] = {"", "fn", "f", "fnuz", "ieee"};
  for (const std::string& bias : {std::string(), "b" + std::to_string(f.bias)})
    for (const std::string_view ending : endings)
      if (std::string word = fields + bias + std::string(ending); find_format(word) == f) return word;
  const std::string p3109 = "binary" + std::to_string(f.width()) + "p" + std::to_string(f.significand_bits());
  for (const char* ending : {"se", "sf", "ue", "uf"})
    if (std::string word = p3109 + ending; find_format(word) == f) return word;
  throw Error("a format of " + std::to_string(f.width()) + " bits that no name spells");
}

Format require_format(std::string_view name) {
  if (const auto format = find_format(name)) return *format;
  if (detail::has_word("fp8 float8 f8", name))
    throw Error(quote(name) + " names two formats; accepted: e4m3 (more precision) or e5m2 (more range)");
  if (detail::has_word("fp6 float6 f6", name))
    throw Error(quote(name) + " names two formats; accepted: e2m3 (more precision) or e3m2 (more range)");
  std::vector<std::string_view> accepted;
  std::string text;
  for (const NamedFormat& row : format_table) {
    accepted.push_back(row.name);
    text += " " + std::string(row.name);
  }
  for (const NamedFormat& row : format_table) add_words(accepted, row.aliases);
  throw Error(unknown("format", name, accepted) + text +
              " or any eXmY (2 <= X <= 8, 1 <= Y <= 23), eXmYfn, eXmYf, eXmYfnuz, with a bias: eXmYb9fn, or P3109's "
              "binary8p3se");
}

}  // namespace narrow
