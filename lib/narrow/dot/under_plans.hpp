// One output of a product under many plans at once: what kernel forensics asks a thousand times.
#pragma once

#include <memory>

#include "narrow/dot/epilogue.hpp"
#include "narrow/dot/kernels.hpp"

namespace narrow::detail {

// A plan with its chains for one output.
struct ChainPlan {
  Plan plan;
  std::vector<std::int32_t> order = {};  // which k stands where; empty: k itself, so that only `ends` matters
  std::vector<std::size_t> ends = {};    // of the chains, as positions
};
ChainPlan chain_plan(const Plan& plan, const DotModel& model, std::size_t k, std::size_t rows, std::size_t cols,
                     std::size_t row, std::size_t col);

// How a finished sum becomes an output where it is not as asked for.
enum class Finish : std::uint8_t {
  as_asked,
  through_fp16,  // rounded to a format between first
  through_bf16,
  through_tf32,
  relu  // negative outputs are zero
};
// The output of relu: what has a sign is +0, NaN stays.
constexpr Code relu_of(Code code, const Format& f) noexcept {
  return (code & f.sign_mask()) != 0 && !is_nan(code, f) ? f.zero_code() : code;
}

// The row and the column of one output, decoded once for a model.
class OutputUnderPlans {
 public:
  // request: its plan counts for the preparation of operands only.
  OutputUnderPlans(const Product& request, std::size_t row, std::size_t col);
  ~OutputUnderPlans();
  OutputUnderPlans(OutputUnderPlans&&) noexcept;

  // D's code under each plan. Sixteen plans without an order of their own cost as much as one.
  void codes(std::span<const ChainPlan* const> plans, std::span<Code> out, Finish finish = Finish::as_asked) const;

 private:
  struct Operands;
  std::unique_ptr<const Operands> operands_;
};

}  // namespace narrow::detail
