#include "options/format_list.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/split.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

ChosenFormat from_row(const narrow::NamedFormat& row) {
  return {std::string(row.name), row.format, std::string(row.aliases), std::string(row.source)};
}

std::string describe(std::string_view name, narrow::Specials specials) {
  if (name.starts_with("binary")) return std::string(narrow::p3109_source);
  switch (specials) {
    case narrow::Specials::inf_and_nan: return "eXmY: IEEE-like";
    case narrow::Specials::nan_only: return "eXmYfn: no Inf, one NaN a sign";
    case narrow::Specials::nan_is_negative_zero: return "eXmYfnuz: no Inf, NaN is the code of -0";
    case narrow::Specials::extended:
    case narrow::Specials::none: break;
  }
  return "eXmYf: every code is finite";
}

}  // namespace

std::vector<ChosenFormat> all_formats() {
  std::vector<ChosenFormat> formats;
  for (const narrow::NamedFormat& row : narrow::format_table) formats.push_back(from_row(row));
  return formats;
}

std::vector<ChosenFormat> p3109_formats() {
  std::vector<ChosenFormat> formats;
  for (const char* ending : {"se", "sf", "ue", "uf"})
    for (int precision = 1; precision <= (ending[0] == 's' ? 7 : 8); ++precision)
      formats.push_back(choose_format("binary8p" + std::to_string(precision) + ending));
  return formats;
}

ChosenFormat choose_format(std::string_view name) {
  if (const narrow::NamedFormat* row = narrow::find_row(name)) return from_row(*row);
  const narrow::Format format = narrow::require_format(name);
  std::string lower(name);
  for (char& c : lower) c = narrow::detail::lower(c);
  return {lower, format, "", describe(lower, format.specials)};
}

std::vector<ChosenFormat> parse_format_list(std::string_view list) {
  std::vector<ChosenFormat> formats;
  const auto add = [&](ChosenFormat format) {
    const auto same = [&](const ChosenFormat& other) { return other.name == format.name; };
    if (std::none_of(formats.begin(), formats.end(), same)) formats.push_back(std::move(format));
  };
  for (const std::string_view item : narrow::parts_of(list, ",")) {
    bool empty = true;
    for (const std::string_view word : narrow::parts_of(item, " \t\r\n")) {
      if (word.empty()) continue;
      empty = false;
      if (word == "all")
        for (ChosenFormat& format : all_formats()) add(std::move(format));
      else add(choose_format(word));
    }
    if (empty)
      throw narrow::Error(formats.empty() ? "an empty list of formats; accepted: names with commas (fp16,bf16), or all"
                                          : "a comma without a format name after it; accepted: names with commas "
                                            "(fp16,bf16), or all");
  }
  return formats;
}

ChosenBlockFormat choose_block_format(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = narrow::detail::lower(c);
  return {lower, narrow::require_block_format(name)};
}

FormatLists parse_format_lists(std::string_view list) {
  FormatLists lists;
  std::string plain;
  bool any = false;
  for (std::string_view word : narrow::parts_of(list, ",")) {
    while (!word.empty() && (word.front() == ' ' || word.front() == '\t')) word.remove_prefix(1);
    while (!word.empty() && (word.back() == ' ' || word.back() == '\t')) word.remove_suffix(1);
    if (!narrow::is_block_format_name(word)) {
      plain += (any ? "," : "") + std::string(word);
      any = true;
      continue;
    }
    ChosenBlockFormat chosen = choose_block_format(word);
    const auto same = [&](const ChosenBlockFormat& other) { return other.name == chosen.name; };
    if (std::none_of(lists.blocks.begin(), lists.blocks.end(), same)) lists.blocks.push_back(std::move(chosen));
  }
  if (any) lists.plain = parse_format_list(plain);
  return lists;
}

}  // namespace app
