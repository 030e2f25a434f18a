// One tensor of one operation on its way through a role's rounding: format, cast, scale, and memory where it is
// delayed.
#pragma once

#include <string>
#include <vector>

#include "narrow/scale/quantise.hpp"
#include "narrow/train/operations/matrix.hpp"
#include "narrow/train/operations/observer.hpp"
#include "narrow/train/operations/tensor.hpp"

namespace narrow::train {

// What holds for a whole step. Random bits of a tensor come from (seed, number, name of the tensor, index), so that
// threads do not matter; micro-batches of one step want different numbers.
struct Step {
  std::uint64_t seed = 0, number = 0;
  Observer* observer = nullptr;
  int threads = 0;
  bool is_training = true;  // else evaluation: batch norm takes its running statistics
};

// A matrix as products take it: values in the role's format, and what the product is multiplied by afterwards.
//   none, per tensor   values hold the elements (x, or x * scale cast); decode = 1 / scale
//   blocks             values hold element * scale of its block; codes and scales stand in `blocks`, K running fastest
template <class T>
struct Factor {
  Matrix<const T> values;
  float decode = 1;
  const Precision* precision = nullptr;
  const Quantised* blocks = nullptr;
};

// Where the state of a quantiser has the largest magnitude of the step so far: the only part that ranks do not agree
// on.
inline constexpr std::size_t state_amax = 3;

template <class T>
class Quantiser {
 public:
  Quantiser(std::string tensor, Operation operation, Role role, const Policy& policy);

  // Element by element, in place. Not for scaled roles.
  void round(std::span<T> values, const Step& step);

  // A matrix (rows x cols, row by row) is kept as an operand, then given to products that sum over its columns (or
  // rows). Blocks run along the sum, so each direction is quantised by itself. `values` must outlive the operand.
  void keep(std::span<const T> values, std::size_t rows, std::size_t cols, const Step& step);
  Factor<T> over_cols(const Step& step);  // rows x K
  // cols x K: the transposed matrix. hadamard: turned along K first; for blocks.
  Factor<T> over_rows(const Step& step, bool hadamard = false);
  // What keep() left, and a part of it as an operand: one head of many. Not for blocks.
  std::span<const T> kept() const noexcept { return {kept_, rows_ * cols_}; }
  Factor<T> part_of(const Matrix<const T>& part) const noexcept { return {part, decode_, &precision_, nullptr}; }

  // Delayed scaling: the amax of the step joins the history. Everything else has no memory.
  void end_step();
  bool has_state() const noexcept { return precision_.scaling == Scaling::tensor_delayed; }
  std::vector<float> state() const;            // scale, window_max, oldest, amax of this step (state_amax), history ...
  void restore(std::span<const float> state);  // throws Error when it is none

  const std::string& tensor() const noexcept { return tensor_; }
  Role role() const noexcept { return role_; }
  Operation operation() const noexcept { return operation_; }
  const Precision& precision() const noexcept { return precision_; }

 private:
  void announce(std::span<const T> before, std::span<const T> after, const Step& step,
                const Quantised* blocks = nullptr) const;
  std::uint64_t seed(const Step& step) const noexcept;
  void scale_tensor(std::span<const T> values, const Step& step);
  Factor<T> blocks_along(bool cols, bool hadamard, const Step& step);

  std::string tensor_;
  Operation operation_;
  Role role_;
  Precision precision_;
  TeDelayedScaling delayed_;
  std::uint64_t id_ = 0;  // of the name and the role
  DelayedState state_;
  float amax_ = 0;  // of this step so far

  const T* kept_ = nullptr;
  std::size_t rows_ = 0, cols_ = 0;
  float decode_ = 1;
  std::vector<T> rounded_, before_;
  Quantised blocks_[2];  // over columns, over rows
  std::vector<T> block_values_[2];
};

}  // namespace narrow::train
