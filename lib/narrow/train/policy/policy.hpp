// Precision as data: which format every operation and role of a training step has, and how its products are summed.
// Says nothing about models or loops; a recipe is a name for one of these values.
//
//   train::Policy policy;  // all in FP32
//   policy[train::Operation::linear].weights.format = "bf16"_fmt;
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "narrow/dot/plan.hpp"
#include "narrow/round/cast.hpp"
#include "narrow/scale/block_format.hpp"
#include "narrow/scale/delayed_scaling.hpp"

namespace narrow::train {

// What a model is made of: a row here and in the table below.
enum class Operation : std::uint8_t {
  embedding,    // rows of the tables, added
  norm,         // LayerNorm, RMSNorm, also those of queries and keys
  batch_norm,   // over the batch, with running statistics
  linear,       // x W^T + b, but for the last
  convolution,  // the same of every window of x
  activation,   // GELU, ReLU
  scores,       // Q K^T
  scale,        // scores / sqrt(width of a head)
  soft_cap,     // cap * tanh(scores / cap)
  softmax,      // over what a position may see
  context,      // P V
  residual,     // x + f(x)
  logits,       // the last linear
  loss          // cross entropy
};
// A product is one of matrices, the others work element by element; only what has weights has their two roles;
// arithmetic is all but a product (linear, convolution and logits add a bias).
struct OperationRow {
  std::string_view name;
  bool is_product, has_weights, has_arithmetic;
};
// All operations, in the order of the enumerators.
inline constexpr OperationRow operation_table[] = {
    {"embedding", false, true, true}, {"norm", false, true, true},       {"batch_norm", false, true, true},
    {"linear", true, true, true},     {"convolution", true, true, true}, {"activation", false, false, true},
    {"scores", true, false, false},   {"scale", false, false, true},     {"soft_cap", false, false, true},
    {"softmax", false, false, true},  {"context", true, false, false},   {"residual", false, false, true},
    {"logits", true, true, true},     {"loss", false, false, true}};
// How many there are, and their names.
inline constexpr std::size_t operation_count = std::size(operation_table);
// The names of the operations.
inline constexpr auto operation_names = [] {
  std::array<std::string_view, operation_count> names;
  for (std::size_t i = 0; i < operation_count; ++i) names[i] = operation_table[i].name;
  return names;
}();

// Which tensor of an operation. The first three are what it takes in, the others what it gives out:
//   forward   y  = f(activations, weights)             -> output
//   backward  dx = f'(gradients, weights)              -> input_gradients
//             dw = f'(gradients, activations)          -> weight_gradients
enum class Role : std::uint8_t { weights, activations, gradients, output, input_gradients, weight_gradients };
inline constexpr std::size_t role_count = 6;
inline constexpr std::array<std::string_view, role_count> role_names = {
    "weights", "activations", "gradients", "output", "input_gradients", "weight_gradients"};

// What an operand of a product is multiplied by before it is cast. Rules: scale/.
enum class Scaling : std::uint8_t {
  none,
  tensor_current,  // limit / amax of this very tensor
  tensor_delayed,  // limit / largest amax of the steps before
  block_1x128,     // runs of 128 along the sum
  block_128x128,
  mx,     // runs of 32 along the sum with a power of two
  nvfp4,  // E2M1: runs of 16 along the sum with an E4M3 scale, below one of the tensor
  nvfp4_16x16
};
inline constexpr std::array<std::string_view, 8> scaling_names = {
    "none", "tensor_current", "tensor_delayed", "block_1x128", "block_128x128", "mx", "nvfp4", "nvfp4_16x16"};

// Whether scales belong to blocks.
constexpr bool is_block(Scaling s) noexcept { return s >= Scaling::block_1x128; }

// How one role loses bits. fp32 means "as the machine computes": nothing is rounded, also when a model runs in double.
struct Precision {
  Format format = "fp32"_fmt;
  // fp32: plain. With scaling, plain or saturating, for element_cast says the rest; blocks may be stochastic
  Cast cast = {};
  Scaling scaling = Scaling::none;     // weights, activations and gradients of products only
  std::optional<ScaleRule> rule = {};  // another rule than the scaling's own (te_current, te_block, ocp_floor)

  friend bool operator==(const Precision&, const Precision&) = default;
};
// Whether nothing is rounded.
constexpr bool is_exact(const Precision& p) noexcept { return p.format == "fp32"_fmt && p.scaling == Scaling::none; }
// The block format whose rule scales such an operand (whole tensors are one block). Not for none and tensor_delayed.
BlockFormat block_format_of(const Precision& precision);

// How the products of a matrix product are added.
enum class Accumulation : std::uint8_t {
  native,           // acc = acc + a * b in FP32 (double in a double model), both rounded, ascending k
  every_operation,  // the same with both rounded to `accumulator`
  model             // a tensor core: gemm(model, plan)
};
// The words for it.
inline constexpr std::array<std::string_view, 3> accumulation_names = {"native", "every_operation", "model"};

// How one matrix product is summed.
struct ProductPolicy {
  Accumulation accumulation = Accumulation::native;
  Format accumulator = "fp32"_fmt;  // every_operation
  const DotModel* model = nullptr;  // model: its operand formats must be those of the roles
  Plan plan = {};
  // wgrad of operands in blocks: both are turned by a random Hadamard matrix along the sum, which spreads an outlier
  // over 16 elements and leaves the product as it is: (H x) . (H y) = x . y
  bool hadamard = false;
};

// The precision of one operation: its roles and its products.
struct OperationPolicy {
  Precision weights, activations, gradients;
  Precision output, input_gradients, weight_gradients;
  // Every elementary operation inside (each sum, product, exp, ...) is rounded to this. fp32: not rounded.
  Precision arithmetic;
  // forward: activations x weights (scores: queries x keys, context: softmax x values)
  // dgrad:   gradients x weights     wgrad: gradients x activations
  ProductPolicy forward, dgrad, wgrad;

  const Precision& role(Role r) const noexcept;
  Precision& role(Role r) noexcept;
};

// What happens to gradients and parameters outside the model.
struct TrainingPolicy {
  Precision parameters;             // between steps: fp32 means master weights, fp16 that there are none
  Precision optimiser_state;        // momentum, second moments
  Precision update;                 // every operation of the update; stochastic rounding of the result is its cast
  Precision gradient_accumulation;  // sums over micro-batches
  Precision reduction;              // sums over ranks
  Precision clipping;               // the norm and the scaled gradients
  Precision buffers;                // what is neither trained nor thrown away: running statistics of batch norm
  bool kahan = false;               // a compensation beside each parameter keeps what the update lost
};

// The roles of the training loop by name.
inline constexpr std::pair<std::string_view, Precision TrainingPolicy::*> training_roles[] = {
    {"parameters", &TrainingPolicy::parameters}, {"optimiser_state", &TrainingPolicy::optimiser_state},
    {"update", &TrainingPolicy::update},         {"gradient_accumulation", &TrainingPolicy::gradient_accumulation},
    {"reduction", &TrainingPolicy::reduction},   {"clipping", &TrainingPolicy::clipping},
    {"buffers", &TrainingPolicy::buffers}};

// The precision of a training step.
struct Policy {
  std::array<OperationPolicy, operation_count> operations;
  TrainingPolicy training;
  TeDelayedScaling delayed;  // history, margin; its fp8_max is that of each operand's format

  OperationPolicy& operator[](Operation o) noexcept { return operations[static_cast<std::size_t>(o)]; }
  const OperationPolicy& operator[](Operation o) const noexcept { return operations[static_cast<std::size_t>(o)]; }
};

// Words and rows by enumerator.
constexpr std::string_view name_of(Operation o) noexcept { return operation_names[static_cast<std::size_t>(o)]; }
constexpr std::string_view name_of(Role r) noexcept { return role_names[static_cast<std::size_t>(r)]; }
constexpr std::string_view name_of(Scaling s) noexcept { return scaling_names[static_cast<std::size_t>(s)]; }
constexpr std::string_view name_of(Accumulation a) noexcept { return accumulation_names[static_cast<std::size_t>(a)]; }
constexpr const OperationRow& row_of(Operation o) noexcept { return operation_table[static_cast<std::size_t>(o)]; }
constexpr bool is_product(Operation o) noexcept { return row_of(o).is_product; }

// Which roles an operation reads. The two operands of attention's products are activations.
constexpr bool has_role(Operation o, Role r) noexcept {
  return row_of(o).has_weights || (r != Role::weights && r != Role::weight_gradients);
}
// Whether an operation computes anything that is rounded.
constexpr bool has_arithmetic(Operation o) noexcept { return row_of(o).has_arithmetic; }

// Throws Error when a policy cannot be computed: a model whose operands are of other formats, a scaling where there is
// no product, a plan that the model cannot follow, a cast that would be ignored.
void check(const Policy& policy);

}  // namespace narrow::train
