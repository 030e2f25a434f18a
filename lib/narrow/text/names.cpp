#include "narrow/text/names.hpp"

#include <algorithm>
#include <span>

#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

// One row an enumerator, in the order of the enumeration.
template <class Enum>
struct NamedValue {
  Enum value;
  std::string_view name;
  std::string_view aliases = "";  // separated by spaces
};

constexpr NamedValue<Rounding> rounding_names[] = {
    {Rounding::nearest_even, "nearest_even", "rne rn"},
    {Rounding::nearest_away, "nearest_away", "rna"},
    {Rounding::nearest_to_zero, "nearest_to_zero"},
    {Rounding::toward_zero, "toward_zero", "rz"},
    {Rounding::up, "up", "ru rp"},
    {Rounding::down, "down", "rd rm"},
    {Rounding::to_odd, "to_odd", "ro"},
    {Rounding::stochastic, "stochastic", "sr"},
};
constexpr NamedValue<Overflow> overflow_names[] = {
    {Overflow::to_special, "to_special"},
    {Overflow::saturate, "saturate"},
    {Overflow::saturate_finite, "saturate_finite"},
};
constexpr NamedValue<Subnormals> subnormals_names[] = {
    {Subnormals::keep, "keep"},
    {Subnormals::flush_results, "flush_results"},
    {Subnormals::flush_inputs, "flush_inputs"},
};
constexpr NamedValue<Nan> nan_names[] = {
    {Nan::canonical, "canonical"}, {Nan::keep_sign, "keep_sign"},     {Nan::keep_payload, "keep_payload"},
    {Nan::quiet, "quiet"},         {Nan::cut_payload, "cut_payload"},
};
constexpr NamedValue<ValueClass> value_class_names[] = {
    {ValueClass::zero, "zero"}, {ValueClass::subnormal, "subnormal"}, {ValueClass::normal, "normal"},
    {ValueClass::inf, "inf"},   {ValueClass::nan, "nan"},
};

template <class Enum, std::size_t N>
constexpr bool in_order(const NamedValue<Enum> (&rows)[N]) {
  for (std::size_t i = 0; i < N; ++i)
    if (static_cast<std::size_t>(rows[i].value) != i) return false;
  return true;
}
static_assert(in_order(rounding_names) && in_order(overflow_names) && in_order(subnormals_names));
static_assert(in_order(nan_names) && in_order(value_class_names));

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
Enum parse_enum(std::string_view what, std::string_view word, std::span<const NamedValue<Enum>> rows) {
  std::string with_underscores(word);
  for (char& c : with_underscores)
    if (c == '-') c = '_';
  std::vector<std::string_view> accepted;
  for (const auto& row : rows) {
    if (detail::same_word(row.name, with_underscores) || detail::has_word(row.aliases, with_underscores))
      return row.value;
    accepted.push_back(row.name);
  }
  std::string text;
  for (const auto& row : rows) {
    text += " " + std::string(row.name);
    if (!row.aliases.empty()) text += " (" + std::string(row.aliases) + ")";
    add_words(accepted, row.aliases);
  }
  throw Error(unknown(what, word, accepted) + text);
}

}  // namespace

std::string_view name_of(Rounding r) { return rounding_names[static_cast<std::size_t>(r)].name; }
std::string_view name_of(Overflow o) { return overflow_names[static_cast<std::size_t>(o)].name; }
std::string_view name_of(Subnormals s) { return subnormals_names[static_cast<std::size_t>(s)].name; }
std::string_view name_of(Nan n) { return nan_names[static_cast<std::size_t>(n)].name; }
std::string_view name_of(ValueClass c) { return value_class_names[static_cast<std::size_t>(c)].name; }

Rounding parse_rounding(std::string_view name) { return parse_enum<Rounding>("rounding", name, rounding_names); }
Overflow parse_overflow(std::string_view name) { return parse_enum<Overflow>("overflow", name, overflow_names); }
Subnormals parse_subnormals(std::string_view name) {
  return parse_enum<Subnormals>("subnormals", name, subnormals_names);
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
              " or any eXmY (2 <= X <= 8, 1 <= Y <= 23), eXmYfn, eXmYf");
}

}  // namespace narrow
