// Formats as users name them: a row of the table, an alias, any eXmY, and comma lists of these.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "narrow/scale/block_format.hpp"

namespace app {

struct ChosenFormat {
  std::string name;  // the row's own name, also when an alias was asked for
  narrow::Format format;
  std::string aliases;
  std::string source;
};

std::vector<ChosenFormat> all_formats();
// The 8-bit formats of IEEE P3109: of every precision, signed and unsigned, with Inf and without.
std::vector<ChosenFormat> p3109_formats();
ChosenFormat choose_format(std::string_view name);                   // throws narrow::Error
std::vector<ChosenFormat> parse_format_list(std::string_view list);  // "fp16, bf16" or "all"; throws narrow::Error

struct ChosenBlockFormat {
  std::string name;  // as it was asked for, in lower case
  narrow::BlockFormat format;
};
ChosenBlockFormat choose_block_format(std::string_view name);

// A comma list of formats of both kinds: "fp16,mxfp8_e4m3,nvfp4:torchao_nvfp4". Throws narrow::Error.
struct FormatLists {
  std::vector<ChosenFormat> plain;
  std::vector<ChosenBlockFormat> blocks;
};
FormatLists parse_format_lists(std::string_view list);

}  // namespace app
