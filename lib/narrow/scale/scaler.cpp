#include "narrow/scale/scaler.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

namespace narrow {

std::string_view name_of(ScaleEvent event) {
  constexpr std::string_view names[] = {"none",       "grew",       "backed_off", "held_back",
                                        "at_minimum", "at_maximum", "lost",       "ended"};
  return names[static_cast<int>(event)];
}

namespace detail {

// A power of two reads better as one.
std::string scale_text(double x) {
  int exponent = 0;
  if (std::isfinite(x) && x > 0 && std::frexp(x, &exponent) == 0.5 && (x >= 1024 || x < 0.01))
    return "2^" + std::to_string(exponent - 1);
  std::array<char, 64> text;  // to_chars and from_chars know no locale
  char* end = text.data();
  for (int digits = 6; digits <= 17; ++digits) {
    end = std::to_chars(text.data(), text.data() + text.size(), x, std::chars_format::general, digits).ptr;
    double back = 0;
    if (std::from_chars(text.data(), end, back).ec == std::errc() && back == x) break;
  }
  return {text.data(), end};
}

}  // namespace detail

}  // namespace narrow
