// Kernel forensics: which models and plans turn A, B and C into this D, bit for bit; else what D is, and where it differs.
//
//   ValidateRequest request;  // A, B, C and the D that a kernel gave
//   request.plan = parse_plan("chain");
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "narrow/dot/gemm.hpp"

namespace narrow {

// A model and a plan, and how far they come.
struct Candidate {
  const DotModel* model = nullptr;
  Plan plan = {};
  // On how many outputs it was held against D, or proved to give what another gives: all of them, but where so many
  // candidates are left that only the most telling outputs were computed for the less likely ones.
  std::uint64_t compared = 0;
};

// Several products of one shape: elements from a matrix to the next, 0 where all share one.
struct ProductBatch {
  std::size_t count = 1;
  std::size_t a = 0, b = 0, c = 0, d = 0;
};

// The operands, the result in question, and what is known of its making.
struct ValidateRequest {
  CodeMatrix a, b, c, d;                     // of the first item; c may be empty, or one row for all (pitch 0)
  Format a_format, b_format, d_format;
  const DotModel* model = nullptr;           // nullptr: every model that fits the formats
  std::optional<Plan> plan = {};             // empty: a ladder of plans
  GemmOptions options = {};                  // alpha, beta, scales
  std::function<void(double)> progress = {}; // share of the work that is done; from any thread
  ProductBatch batch = {};
  std::optional<Generation> gpu = {};  // what it computes is tried first, and others only where that fails
};

// The output that differs with the fewest products that are not zero; zeros at the end of K are left out.
struct FailingDot {
  std::size_t row = 0, col = 0, item = 0;
  std::vector<Code> a, b;
  Code c = 0, expected = 0, found = 0;       // expected: by the first candidate; found: in D
};

// A product that would tell candidates apart: A is a row of ones, B the column `b`, both of the request's formats.
struct TellingTest {
  std::vector<Code> b;
  struct Answer {
    Code code;                               // of D
    std::vector<Candidate> candidates;
  };
  std::vector<Answer> answers;               // at least two; the likeliest candidate's first
};

// What explains D, or what is known of the difference.
struct ValidateResult {
  bool exact = false;
  // All that give these bits, the likeliest first: the newest generation that fits, the simplest plan. Where none does: the
  // one that explains most outputs, else the nearest.
  std::vector<Candidate> candidates;
  std::uint64_t equal_count = 0, total = 0, max_ulp = 0;  // of the first candidate, over all of D
  std::array<std::uint64_t, 33> ulp_counts{};  // [0]: equal, [i]: 2^(i-1) <= distance < 2^i
  std::uint64_t nan_mismatch = 0;
  std::string relation;                      // what D is instead, in a word or two ("relu"); empty: as asked, or unknown
  std::vector<std::string> suspicions;       // sentences; empty when exact
  std::string differences;                   // in what the candidates differ; empty when they are one arithmetic
  std::optional<TellingTest> telling;
  std::optional<FailingDot> failing;
  std::size_t models_tried = 0, plans_tried = 0;
};

// First asks by value what D is of the product; then tries candidates on the outputs that tell most, and confirms what is
// left on all of them. What was not asked for (an epilogue, a factor) is a suspicion and never exact. Throws Error for
// shapes and formats that fit no model, for empty matrices and for data that cannot tell anything (only NaN).
ValidateResult validate(const ValidateRequest& request);

}  // namespace narrow
