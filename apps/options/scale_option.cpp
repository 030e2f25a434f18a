#include "options/scale_option.hpp"

#include <bit>
#include <charconv>
#include <cmath>

#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

double read_scale(const std::string& text) {
  constexpr narrow::Format fp64 = narrow::operator""_fmt("fp64", 4);
  if (text.rfind("2^", 0) != 0) return std::bit_cast<double>(narrow::parse_value(text, fp64));
  int exponent = 0;
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data() + 2, end, exponent);
  return error == std::errc() && next == end ? std::ldexp(1.0, exponent) : 0;
}

}  // namespace

double parse_scale(const std::string& text, const char* also) {
  double scale = 0;
  try {
    scale = read_scale(text);
  } catch (const narrow::Error&) {
    scale = 0;
  }
  // In the carrier of most tensors, too.
  if (scale > 0 && static_cast<float>(scale) > 0 && std::isfinite(static_cast<float>(scale))) return scale;
  throw narrow::Error("--scale: " + narrow::quote(text) +
                      " is not accepted; accepted: a positive number within FP32, 2^k" + also);
}

}  // namespace app
