#include "options/number_option.hpp"

#include <charconv>
#include <cmath>

#include "narrow/base/error.hpp"
#include "narrow/scale/scaler_table.hpp"
#include "narrow/text/quote.hpp"

namespace app {

double parse_scale(const std::string& text, const char* also) {
  double scale = 0;
  try {
    scale = narrow::parse_scale_number(text);
  } catch (const narrow::Error&) {
    scale = 0;
  }
  // In the carrier of most tensors, too.
  if (scale > 0 && static_cast<float>(scale) > 0 && std::isfinite(static_cast<float>(scale))) return scale;
  throw narrow::Error("--scale: " + narrow::quote(text) +
                      " is not accepted; accepted: a positive number within FP32, 2^k" + also);
}

std::uint64_t parse_count(const std::string& text, const char* flag, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    throw narrow::Error(std::string(flag) + ": " + narrow::quote(text) + " is no integer from " +
                        std::to_string(least) + " to " + std::to_string(most));
  return value;
}

}  // namespace app
