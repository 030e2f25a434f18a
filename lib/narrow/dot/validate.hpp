// Kernel forensics: which models and plans turn A, B and C into this D, bit for bit.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "narrow/dot/gemm.hpp"

namespace narrow {

struct Candidate {
  const DotModel* model = nullptr;
  Plan plan = {};
};

struct ValidateRequest {
  CodeMatrix a, b, c, d;                     // c may be empty
  Format a_format, b_format, d_format;
  const DotModel* model = nullptr;           // nullptr: every model that fits the formats
  std::optional<Plan> plan = {};             // empty: a ladder of plans
  GemmOptions options = {};                  // alpha, beta, scales
  std::function<void(double)> progress = {}; // share of the work that is done; from any thread
};

// The output that differs with the fewest products that are not zero; zeros at the end of K are left out.
struct FailingDot {
  std::size_t row = 0, col = 0;
  std::vector<Code> a, b;
  Code c = 0, expected = 0, found = 0;       // expected: by the closest candidate; found: in D
};

struct ValidateResult {
  bool exact = false;
  std::vector<Candidate> candidates;         // all that give these bits, in the order of the table; the closest when none
  std::uint64_t equal_count = 0, total = 0, max_ulp = 0;  // of the first candidate, over all of D
  std::array<std::uint64_t, 33> ulp_counts{};  // [0]: equal, [i]: 2^(i-1) <= distance < 2^i
  std::uint64_t nan_mismatch = 0;
  std::vector<std::string> suspicions;       // sentences; empty when exact
  std::optional<FailingDot> failing;
  std::size_t models_tried = 0, plans_tried = 0;
};

// Tries candidates on a sample of outputs and confirms the survivors on all of them. Throws Error for shapes and formats
// that fit no model, for empty matrices and for data that cannot tell anything (only NaN).
ValidateResult validate(const ValidateRequest& request);

}  // namespace narrow
