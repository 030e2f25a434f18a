// A dot product from inside: what every step of a model saw, kept, cut and rounded. Computes nothing of its own: fused
// steps are watched, other rules call the library's operations one by one, and the end is compared with narrow::dot.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "narrow/dot/dot.hpp"
#include "narrow/text/exact_number.hpp"

namespace app {

struct DotOperands {
  std::vector<narrow::Code> a, b;
  narrow::Code c = 0;
  std::vector<narrow::Code> scale_a, scale_b;  // block-scaled models: one for each block
};

// A term that is not zero: a product, a group of products, or the addend.
struct TracedTerm {
  std::string label;  // "k 3", "k 16..31", "c"
  narrow::DotTerm term;
  std::uint64_t kept = 0;  // in quanta 2^lowest
};

// Terms aligned to one exponent, cut and added as integers.
struct FusedStage {
  std::string title;
  std::vector<std::size_t> ks;  // which products
  std::string addend;           // what c is called here; empty when the stage has none
  narrow::Code c = 0;
  bool special = false;         // NaN or Inf decides, and nothing is added
  int largest = 0, lowest = 0;  // 2^lowest is the quantum
  std::vector<TracedTerm> terms;
  std::int64_t sum = 0;
  std::optional<narrow::Code> result;  // rounded; none where the sum goes on as it is
};

// Operations one after the other, each with its exact result and what became of it.
struct Operation {
  std::string label, formula;
  narrow::ExactNumber exact;           // NaN where Inf or NaN take part
  std::optional<narrow::Code> result;  // none: nothing is rounded here
};
struct OperationStage {
  std::string title;
  std::vector<Operation> operations;
};

using Stage = std::variant<FusedStage, OperationStage>;

struct DotTrace {
  std::vector<Stage> stages;
  narrow::Code result = 0;
  narrow::ExactNumber exact;       // of all products and c; NaN or Inf where that is the answer
  narrow::Code exact_rounded = 0;  // once, to nearest even, in the accumulator's format
};

// Scales must be there for block-scaled models. Throws narrow::Error as narrow::dot does.
DotTrace trace_dot(const narrow::DotModel& model, const DotOperands& operands);

}  // namespace app
