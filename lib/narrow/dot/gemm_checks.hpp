// Whether a matrix product can be computed as asked, and by which engine.
#pragma once

#include "narrow/dot/epilogue.hpp"

namespace narrow::detail {

// They throw Error.
void check_product(const Product& product, const CodeMatrix& d);
void check_scales(const GemmOptions& options, std::size_t rows, std::size_t cols, std::size_t k);
void check_blocks(const DotModel& model, const GemmOptions& options, std::size_t rows, std::size_t cols, std::size_t k);
// A matrix has data, rows that do not overlap (may_repeat: or one row for all, of pitch 0), and codes that are wide
// enough.
void check_codes(const char* name, const CodeMatrix& m, const Format& f, bool is_word, bool may_repeat = false);

// Why a model cannot follow a plan with these scales; empty when it can.
std::string plan_problem(const DotModel& model, const Plan& plan, const GemmOptions& options);

// Which engine computes a model's chains; none: dot(), one output after the other.
enum class EngineKind : std::uint8_t { none, fused_bytes, fused_words, integer, native_float, native_double, rounded };
EngineKind engine_of(const DotModel& model);

}  // namespace narrow::detail
