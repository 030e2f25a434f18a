// Formatting of Number<F> with fmt: its exact value, with the format specification of a double.
//
//   const std::string text = fmt::format("{:.3f}", Number<"fp16"_fmt>(0.1F));  // 0.100
#pragma once

#include <fmt/format.h>

#include "narrow/arith/number.hpp"

// As a double.
template <narrow::Format F>
struct fmt::formatter<narrow::Number<F>> : fmt::formatter<double> {
  template <class Context>
  auto format(narrow::Number<F> x, Context& context) const {
    return fmt::formatter<double>::format(static_cast<double>(x), context);
  }
};
