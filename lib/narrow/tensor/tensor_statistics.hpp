// What formats do to the numbers of a tensor, in one pass over its file and in bounded memory.
//
//   const Tensor tensor = open_tensor("gradients.npy");
//   const std::vector<ScaledCast> casts = {{.to = {"fp16"_fmt, {}}, .scale = 1024}};
//   const Statistics s = tensor_statistics(tensor, casts);
#pragma once

#include "narrow/array/histogram.hpp"
#include "narrow/array/statistics.hpp"
#include "narrow/tensor/tensor.hpp"

namespace narrow {

class PieceLog;

// A cast of data that is multiplied first.
struct ScaledCast {
  FormatCast to;
  double scale = 1;  // the data is multiplied by it first; positive
};

// What every pass over tensors takes.
struct TensorPass {
  std::uint64_t seed = 0;  // of stochastic casts: random_bits(seed, index of the value in C order)
  int threads = 0;         // 0: the default
  BytesDone done = {};
  PieceLog* log = nullptr;  // of passes whose pieces several processes share
};

// As statistics(); formats in the order asked for, each with its own scale. Tensors that FP32 cannot hold are measured
// in double. The tensor must have a format. The `scale` of the result is that of the first cast.
Statistics tensor_statistics(const Tensor& tensor, std::span<const ScaledCast> casts, const TensorPass& pass = {});

// Binades [2^e, 2^(e+1)) of the carrier: that of FP32, or that of FP64 for tensors that FP32 cannot hold. `subnormal`
// is everything below the first binade.
struct BinadeCounts {
  int min_exponent = ExponentHistogram::min_exponent;
  std::vector<SignCounts> binades;  // [k]: exponent min_exponent + k
  SignCounts zero, subnormal, inf, nan;

  std::uint64_t count() const;
  // Both may have either carrier; the result is wide when one is, and the subnormals of the narrow one stay what they
  // are.
  void merge(const BinadeCounts& other);
};

// The counts of a histogram of floats.
BinadeCounts to_binade_counts(const ExponentHistogram& histogram);

// The values times the scale (one multiplication in the carrier).
BinadeCounts tensor_histogram(const Tensor& tensor, double scale = 1, const TensorPass& pass = {});

// What the cast makes of them, by binade. Throws Error for stochastic casts.
BinadeFates tensor_fates(const Tensor& tensor, const FormatCast& to, double scale = 1, const TensorPass& pass = {});

// Of the powers of two at which no finite value overflows (the loss scale of a step that overflows is of no use: the
// step is skipped), and of equally good ones the closest to 1:
enum class ScaleGoal : std::uint8_t {
  least_loss,  // the one at which the fewest values underflow to zero
  best_sqnr    // the one with the largest SQNR (to twelve digits)
};

// A scale that was chosen.
struct AutoScale {
  double scale = 1;
  bool overflows = false;  // no normal float 2^k avoids it: this is the smallest
};

// For each cast, over all the tensors together. Stochastic casts overflow where they can; what they lose is counted as
// if they rounded to nearest, and so is the error of to_odd. What a double underflows is counted as of the float next
// to it.
std::vector<AutoScale> auto_scales(std::span<const Tensor> tensors, std::span<const FormatCast> casts,
                                   ScaleGoal goal = ScaleGoal::least_loss, const TensorPass& pass = {});

}  // namespace narrow
