// Formats as users name them: a row of the table, an alias, any eXmY, and comma lists of these.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "narrow/format/format_table.hpp"

namespace app {

struct ChosenFormat {
  std::string name;  // the row's own name, also when an alias was asked for
  narrow::Format format;
  std::string aliases;
  std::string source;
};

std::vector<ChosenFormat> all_formats();
ChosenFormat choose_format(std::string_view name);                   // throws narrow::Error
std::vector<ChosenFormat> parse_format_list(std::string_view list);  // "fp16, bf16" or "all"; throws narrow::Error

}  // namespace app
