// A dot product from inside: what every step of a model saw, kept, cut and rounded. Computes nothing of its own: fused
// steps are watched, other rules call the library's operations one by one, and the end is compared with dot.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "narrow/dot/dot.hpp"
#include "narrow/dot/step.hpp"
#include "narrow/text/exact_number.hpp"

namespace narrow {

struct DotOperands {
  std::vector<Code> a, b;
  Code c = 0;
  std::vector<Code> scale_a, scale_b;  // block-scaled models: one for each block
};

// A term that is not zero: a product, a group of products, or the addend.
struct TracedTerm {
  std::string label;  // "k 3", "k 16..31", "c"
  DotTerm term;
  std::uint64_t kept = 0;  // in quanta 2^lowest
};

// Terms aligned to one exponent, cut and added as integers.
struct FusedStage {
  std::string title;
  std::vector<std::size_t> ks;  // which products
  std::string addend;           // what c is called here; empty when the stage has none
  Code c = 0;
  bool special = false;         // NaN or Inf decides, and nothing is added
  int largest = 0, lowest = 0;  // 2^lowest is the quantum
  std::vector<TracedTerm> terms;
  std::int64_t sum = 0;
  std::optional<Code> result;  // rounded; none where the sum goes on as it is
};

// Operations one after the other, each with its exact result and what became of it.
struct TracedOperation {
  std::string label, formula;
  ExactNumber exact;           // NaN where Inf or NaN take part
  std::optional<Code> result;  // none: nothing is rounded here
};
struct OperationStage {
  std::string title;
  std::vector<TracedOperation> operations;
};

using DotStage = std::variant<FusedStage, OperationStage>;

struct DotTrace {
  std::vector<DotStage> stages;
  Code result = 0;
  ExactNumber exact;       // of all products and c; NaN or Inf where that is the answer
  Code exact_rounded = 0;  // once, to nearest even, in the accumulator's format
};

// Scales must be there for block-scaled models. Throws Error as dot does.
DotTrace trace_dot(const DotModel& model, const DotOperands& operands);

}  // namespace narrow
