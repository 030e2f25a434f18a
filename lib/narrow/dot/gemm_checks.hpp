// Whether a matrix product can be computed as asked, and by which engine.
#pragma once

#include "narrow/dot/epilogue.hpp"

namespace narrow::detail {

void check_product(const Product& product, const CodeMatrix& d);  // throws Error

// Why a model cannot follow a plan with these scales; empty when it can.
std::string plan_problem(const DotModel& model, const Plan& plan, const GemmOptions& options);

// Which engine computes a model's chains; none: dot(), one output after the other.
enum class EngineKind : std::uint8_t { none, fused_bytes, fused_words, integer, native_float, native_double, rounded };
EngineKind engine_of(const DotModel& model);

}  // namespace narrow::detail
