// The numbers that describe a format, for tables, JSON and the card.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "narrow/format/decode.hpp"

namespace app {

struct Limits {
  double largest, lowest, smallest_normal;
  std::optional<double> smallest_subnormal;
  double epsilon;
  double decades;  // log10(largest / smallest positive value)
};

inline Limits limits_of(const narrow::Format& f) {
  Limits limits{narrow::largest(f), narrow::lowest(f), narrow::smallest_normal(f), {}, narrow::epsilon(f), 0};
  if (f.has_subnormals()) limits.smallest_subnormal = narrow::smallest_positive(f);
  // A difference of logarithms: the quotient would overflow for fp64.
  limits.decades = std::log10(limits.largest) - std::log10(narrow::smallest_positive(f));
  return limits;
}

inline std::string specials_text(const narrow::Format& f) {
  const char* text = "none";
  switch (f.specials) {
    case narrow::Specials::inf_and_nan: text = "Inf, NaN"; break;
    case narrow::Specials::nan_only: text = "NaN"; break;
    case narrow::Specials::nan_is_negative_zero: text = "NaN is -0"; break;
    case narrow::Specials::extended: text = f.has_sign ? "Inf, NaN is -0" : "Inf, NaN"; break;
    case narrow::Specials::none: break;
  }
  return std::string(text) + (f.has_zero ? "" : ", no zero") + (f.has_sign ? "" : ", no sign");
}

}  // namespace app
