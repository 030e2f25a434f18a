// How often each binade occurs in a tensor, by sign; doubles keep their own range of exponents.
#pragma once

#include "narrow/array/histogram.hpp"
#include "narrow/tensor/tensor_statistics.hpp"

namespace narrow {

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

BinadeCounts to_binade_counts(const ExponentHistogram& histogram);

// The values times the scale (one multiplication in the carrier).
BinadeCounts tensor_histogram(const Tensor& tensor, double scale = 1, const TensorPass& pass = {});

// What the cast makes of them, by binade. Throws Error for stochastic casts.
BinadeFates tensor_fates(const Tensor& tensor, const FormatCast& to, double scale = 1, const TensorPass& pass = {});

}  // namespace narrow
