// Formatting of Number<F> with fmt: its exact value, with the format specification of a double.
#pragma once

#include <fmt/format.h>

#include "narrow/arith/number.hpp"

template <narrow::Format F>
struct fmt::formatter<narrow::Number<F>> : fmt::formatter<double> {
  template <class Context>
  auto format(narrow::Number<F> x, Context& context) const {
    return fmt::formatter<double>::format(static_cast<double>(x), context);
  }
};
