// The stages of a dot product as text: operands, exponents, aligned bits under each other with the cut marked,
// rounding.
#pragma once

#include <string>

#include "narrow/dot/dot_trace.hpp"

namespace app {

constexpr std::uint64_t magnitude_of(std::int64_t x) {
  return x < 0 ? 0 - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
}

std::string stage_text(const narrow::DotModel& model, const narrow::DotOperands& operands,
                       const narrow::DotStage& stage, bool colour);

// "0x33000000 = 2^-25 (2.98e-08)"
std::string code_and_value(narrow::Code code, const narrow::Format& f);

// The name of a format as messages use it: "fp32"; the PTX name where the table has no row ("s32").
std::string format_name(const narrow::DotType& type);

}  // namespace app
