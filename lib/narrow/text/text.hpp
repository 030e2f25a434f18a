// From text to values and codes, from codes to text, and the names of enumerators as users type them.
//
//   const Code tenth = parse_value("0.1", "fp16"_fmt);                     // one rounding, whatever the length
//   const std::string exact = to_decimal(tenth, "fp16"_fmt);               // 0.0999755859375
//   const Format f = require_format("bfloat16");                           // throws Error with what is accepted
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/format/decode.hpp"
#include "narrow/round/cast.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow {

// "0.1", "-1e-7", "0x1.8p-3", "inf", "nan", ...: one rounding, whatever the length. Throws Error with the text and
// what is accepted.
Code parse_value(std::string_view text, const Format& f, const Cast& cast = {}, std::uint64_t random = 0);

// A code: "0x2E66" (also 0b101, plain decimal); Error when it is no number or has more bits than the format.
Code parse_code(std::string_view text, const Format& f);

std::string to_decimal(Code code, const Format& f);    // every digit: "0.0999755859375", "-inf", "nan"
std::string to_shortest(Code code, const Format& f);   // the shortest decimal that nearest_even reads back: "0.1"
std::string to_hex_float(Code code, const Format& f);  // "0x1.998p-4"
std::string to_hex_code(Code code, const Format& f);   // "0x" and ceil(width / 4) upper-case digits

// The word for an enumerator.
std::string_view name_of(Rounding);
std::string_view name_of(Overflow);
std::string_view name_of(Subnormals);
std::string_view name_of(Nan);
std::string_view name_of(ValueClass);
// The name by which find_format finds a format: of the table, eXmY with its ending, or binary8p3se. Error when none
// does.
std::string name_of(const Format& format);

// Each throws Error: what was asked, what is accepted, and the closest accepted word.
Format require_format(std::string_view name);
Rounding parse_rounding(std::string_view name);
Overflow parse_overflow(std::string_view name);
Subnormals parse_subnormals(std::string_view name);

// The accepted word that is closest to `word` by edit distance; empty when none is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& accepted);
// The same within a message: "did you mean 'X'? ", or nothing.
std::string hint(std::string_view word, const std::vector<std::string_view>& accepted);

}  // namespace narrow
