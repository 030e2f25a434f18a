// A dot product that differs, as a test vector: in hex, and as a program that shows the difference.
#pragma once

#include <string>

#include "narrow/dot/validate.hpp"

namespace app {

struct FailingVector {
  const narrow::Candidate& candidate;  // what was expected
  const narrow::FailingDot& dot;
  narrow::Format a_format, b_format, c_format, d_format;
  float alpha = 1, beta = 1;
  bool has_c = false;
};

// A code as matrices hold it: TF32 as the FP32 word.
std::string operand_text(narrow::Code code, const narrow::Format& format);

std::string hex_lines(const FailingVector& vector, std::size_t indent);  // a, b, c, expected, found
std::string cpp_program(const FailingVector& vector);                    // compiles against narrow/narrow.hpp

}  // namespace app
