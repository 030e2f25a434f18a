#include "products/dot_values.hpp"

#include "narrow/base/error.hpp"
#include "narrow/text/binary_text.hpp"
#include "narrow/text/characters.hpp"
#include "narrow/text/exact_number.hpp"
#include "narrow/text/exact_sum.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

bool is_code(std::string_view text) {
  return text.size() > 2 && text[0] == '0' &&
         (narrow::detail::lower(text[1]) == 'x' || narrow::detail::lower(text[1]) == 'b') &&
         text.find_first_of(".pP^") == std::string_view::npos;
}

}  // namespace

DotValue parse_dot_value(std::string_view text, const narrow::Format& format) {
  const std::string_view word = narrow::detail::trim(text);
  if (word.empty())
    throw narrow::Error(
        "an empty value; accepted: decimals (0.1), hex floats (0x1.8p-3), 2^-12, 1.5*2^-12, inf, nan, codes (0x3C00)");
  const narrow::Format f = format;
  if (is_code(word)) {
    constexpr int tf32_shift = 13;
    if (f == narrow::operator""_fmt("tf32", 4) && word.size() == 10)
      return {std::string(word), narrow::parse_code(word, narrow::operator""_fmt("fp32", 4)) >> tf32_shift, false};
    return {std::string(word), narrow::parse_code(word, f), false};
  }
  const narrow::ExactNumber x = narrow::parse_binary_number(word);
  if (x.negative && !f.has_sign && !x.is_zero())
    throw narrow::Error(narrow::quote(word) + " is negative, and the format has no sign");
  if (f.is_integer() && x.kind != narrow::NumberKind::finite)
    throw narrow::Error(narrow::quote(word) + " is no integer");
  if (x.kind == narrow::NumberKind::nan && !f.has_nan())
    throw narrow::Error(narrow::quote(word) + ": the format has no NaN");
  if (x.kind == narrow::NumberKind::inf && !f.has_infinity())
    throw narrow::Error(narrow::quote(word) + ": the format has no Inf");
  const narrow::Code code = narrow::round_number(x, f);
  const bool same = x.kind == narrow::NumberKind::nan || narrow::compare(x, narrow::exact_number(code, f)) == 0;
  return {std::string(word), code, !same};
}

std::vector<DotValue> parse_dot_list(std::string_view list, const narrow::Format& format) {
  std::vector<DotValue> values;
  if (narrow::detail::trim(list).empty()) throw narrow::Error("an empty list; for example 1,-1,2^-12");
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    values.push_back(parse_dot_value(list.substr(begin, comma - begin), format));
    begin = comma + 1;
  }
  return values;
}

std::vector<narrow::Code> codes_of(const std::vector<DotValue>& values) {
  std::vector<narrow::Code> codes;
  for (const DotValue& value : values) codes.push_back(value.code);
  return codes;
}

}  // namespace app
