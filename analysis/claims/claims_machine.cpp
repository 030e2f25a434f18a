// Statements about memory and speed, read from the tables of the experiment that counts and records them.
#include "analysis/claims/claims.hpp"

namespace analysis {
namespace {

using namespace narrow;

// How many times less mixed precision takes, against what is said. A part is true within the factor that is loose.
Measurement memory_saved(const Study&) {
  const Table& t = experiment_table("memory_and_speed", "memory");
  const auto saves = [&](std::string_view column) { return table_cell(t, "fp32", column) / table_cell(t, "bf16-amp", column); };
  const double weights = table_cell(t, "fp32", "parameter kept") /
                         (table_cell(t, "bf16-amp", "parameter kept") + table_cell(t, "bf16-amp", "copy for products"));
  const double gradients = saves("gradient"), activations = saves("activations");
  const auto total = [&](const char* recipe) {
    return table_cell(t, recipe, "states") + table_cell(t, recipe, "activations of the batch");
  };
  const double net = total("bf16-amp") / total("fp32");
  // The net factor depends on the batch: the states do not shrink, the activations do.
  const std::size_t right = (judge_number(1.3, weights, 0.1) == Verdict::holds) +
                            (judge_number(2, gradients, 0.5) == Verdict::holds) +
                            (judge_number(2, activations, 0.5) == Verdict::holds) + (net >= 0.55 && net < 0.75);
  const double billions = table_cell(t, "fp32", "states") / table_cell(t, "fp32", "sum per parameter");
  return {"autocast to BF16, " + fixed_text(billions, 1) + " billion parameters: weights " + fixed_text(weights, 2) +
              "x less, gradients " + fixed_text(gradients, 2) + "x, activations " + fixed_text(activations, 2) +
              "x; in all " + fixed_text(net, 2) + " of FP32 with " +
              fixed_text(table_cell(t, "bf16-amp", "sum per parameter"), 0) + " against " +
              fixed_text(table_cell(t, "fp32", "sum per parameter"), 0) + " bytes a parameter",
          judge_parts(right, 4)};
}

struct Rates {
  double fp32, tf32, fp16, bf16, fp8;
  bool known() const { return fp32 > 0 && tf32 > 0 && fp16 > 0 && bf16 > 0 && fp8 > 0; }
};
Rates rates() {
  const Table& t = experiment_table("memory_and_speed", "rates");
  const auto rate = [&](const char* type) { return table_cell(t, type, "H200 measured"); };
  return {rate("fp32"), rate("tf32"), rate("fp16"), rate("bf16"), rate("fp8")};
}

Measurement two_to_eight(const Study&) {
  const Rates r = rates();
  if (!r.known()) return not_measured_without("golden/h200-bench.txt");
  const double fastest = r.fp8 / r.fp32, slowest = r.tf32 / r.fp32, doubled = r.fp8 / r.bf16;
  return {"H200, products of 8192: against FP32 TF32 " + fixed_text(slowest, 1) + "x, FP16 " +
              fixed_text(r.fp16 / r.fp32, 1) + "x, BF16 " + fixed_text(r.bf16 / r.fp32, 1) + "x, FP8 " +
              fixed_text(fastest, 1) + "x; FP8 against BF16 " + fixed_text(doubled, 2) + "x",
          judge_parts((slowest >= 2 && fastest <= 8) + (judge_number(2, doubled, 0.5) == Verdict::holds), 2)};
}

// Against which 32-bit product? FP32 is not what a tensor core computes; TF32 is.
Measurement twice_and_four_times(const Study&) {
  const Rates r = rates();
  if (!r.known()) return not_measured_without("golden/h200-bench.txt");
  const auto fits = [&](double base) {
    return judge_number(2, r.bf16 / base, 0.5) == Verdict::holds && judge_number(4, r.fp8 / base, 1) == Verdict::holds;
  };
  return {"16 and 8 bits against TF32: " + fixed_text(r.bf16 / r.tf32, 2) + "x and " + fixed_text(r.fp8 / r.tf32, 2) +
              "x; against FP32: " + fixed_text(r.bf16 / r.fp32, 1) + "x and " + fixed_text(r.fp8 / r.fp32, 1) + "x",
          judge_cases(fits(r.tf32) + fits(r.fp32), 2)};
}

}  // namespace

Claims machine_claims() {
  const std::string command = "narrow run memory_and_speed -o out --show";
  return {
      {22, "001, 004",
       "Mixed precision needs 0.6 to 0.7 of the memory: weights 1.3x less, gradients and activations 2x less.",
       memory_saved, command},
      {25, "001", "Tensor cores are 2 to 8 times as fast as FP32, and FP8 twice as fast as FP16.", two_to_eight,
       command},
      {36, "002, 004", "A tensor core runs twice as fast in 16 bits as in 32, and four times as fast in 8.",
       twice_and_four_times, command},
  };
}

}  // namespace analysis
