#include "narrow/scale/policy.hpp"

#include <cstdio>
#include <cstdlib>

namespace narrow {

std::string_view name_of(ScaleEvent event) {
  constexpr std::string_view names[] = {"none",       "grew",       "backed_off", "held_back",
                                        "at_minimum", "at_maximum", "lost",       "ended"};
  return names[static_cast<int>(event)];
}

namespace detail {

// A power of two reads better as one.
std::string scale_text(double x) {
  char text[64];
  int exponent = 0;
  if (std::isfinite(x) && x > 0 && std::frexp(x, &exponent) == 0.5 && (x >= 1024 || x < 0.01)) {
    std::snprintf(text, sizeof text, "2^%d", exponent - 1);
    return text;
  }
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, x);
    if (std::strtod(text, nullptr) == x) break;
  }
  return text;
}

}  // namespace detail

}  // namespace narrow
