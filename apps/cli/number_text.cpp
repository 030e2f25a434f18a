#include "cli/number_text.hpp"

#include <cmath>
#include <cstdio>

#include "narrow/format/decode.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

int count_digits(const std::string& text) {
  int digits = 0;
  for (const char c : text) {
    if (c == 'e') break;
    if (c >= '0' && c <= '9' && (digits > 0 || c != '0')) ++digits;
  }
  return digits;
}

std::string readable(narrow::Code code, const narrow::Format& f) {
  constexpr int least_digits = 6;
  const std::string shortest = narrow::to_shortest(code, f);
  return count_digits(shortest) >= least_digits ? shortest : digits_text(narrow::decode(code, f), least_digits);
}

}  // namespace

std::string decimal_text(double x, int decimals) {
  char text[400];  // the longest double has 309 digits before the point
  return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.*f", decimals, x))};
}

std::string digits_text(double x, int digits) {
  char text[64];
  return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.*g", digits, x))};
}

std::string exact_text(narrow::Code code, const narrow::Format& f) {
  constexpr std::size_t longest = 40;
  std::string exact = narrow::to_decimal(code, f);
  if (exact.size() <= longest) return exact;
  const double magnitude = std::fabs(narrow::decode(code, f));
  if (magnitude < 1e-6 || magnitude > 1e20) return "~" + readable(code, f);
  return exact.substr(0, longest - 3) + "...";
}

std::string short_text(narrow::Code code, const narrow::Format& f) {
  constexpr std::size_t longest = 17;
  std::string exact = narrow::to_decimal(code, f);
  return exact.size() <= longest ? exact : readable(code, f);
}

std::string limit_text(double x) {
  constexpr std::size_t longest = 9;
  constexpr narrow::Format fp64 = narrow::operator""_fmt("fp64", 4);
  const std::string exact = narrow::to_decimal(std::bit_cast<std::uint64_t>(x), fp64);
  return exact.size() <= longest ? exact : digits_text(x, 5);
}

std::string scale_text(double scale) {
  int exponent = 0;
  if (std::frexp(scale, &exponent) != 0.5) return digits_text(scale, 6);
  return exponent == 1 ? "1" : "2^" + std::to_string(exponent - 1);
}

}  // namespace app
