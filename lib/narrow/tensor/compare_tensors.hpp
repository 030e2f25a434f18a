// How two tensors differ: equal bits, distances in units of the last place, values within a tolerance, the first and
// the worst places.
//
//   const Tensor a = open_tensor("before.safetensors:w"), b = open_tensor("after.safetensors:w");
//   const Comparison c = compare_tensors(a, b);
#pragma once

#include <array>
#include <optional>

#include "narrow/tensor/tensor.hpp"

namespace narrow {

class PieceLog;

// One place at which two tensors differ.
struct Difference {
  std::uint64_t index = 0;           // of the value, in C order
  Code x = 0, y = 0;                 // codes, or integers as they are stored
  std::optional<std::uint64_t> ulp;  // empty when exactly one of them is NaN
};

// Bin 0 holds distance 0, bin k > 0 the distances (2^(k-2), 2^(k-1)]: 1, 2, 3-4, 5-8, ...
inline constexpr std::size_t ulp_bins = 66;
constexpr std::size_t ulp_bin(std::uint64_t ulp) noexcept {
  return ulp == 0 ? 0 : 1 + static_cast<std::size_t>(bit_length(ulp - 1));
}

// What is compared, and how far two values may be apart to be close.
struct CompareOptions {
  std::optional<Format> in = {};  // floating numbers of another type are rounded to it first, to nearest even
  std::optional<std::uint64_t> max_ulp = {};
  // Values: |y - x| <= atol + rtol * |x|, in double; infinities only when they are equal. Empty: not asked for.
  std::optional<double> atol = {}, rtol = {};
  std::size_t listed = 10;
  int threads = 0;

  bool has_tolerance() const { return atol || rtol; }
};

// How two tensors differ.
struct Comparison {
  std::optional<Format> format;  // of the codes below, where there is one; fp64 holds the values of two types
  bool has_ulp = true;           // false where two types were compared by their values: distances mean nothing then
  std::uint64_t total = 0;
  std::uint64_t equal = 0;                       // the same bits
  std::uint64_t nan_mismatch = 0;                // one is NaN, the other is not
  std::uint64_t nan_payload = 0;                 // both are NaN with other bits
  std::uint64_t zero_sign_mismatch = 0;          // zeros of unlike sign
  std::uint64_t max_ulp = 0;                     // over the pairs without NaN
  std::array<std::uint64_t, ulp_bins> by_ulp{};  // pairs without NaN that are not equal; zeros of unlike sign in bin 0
  std::vector<Difference> first, worst;  // at most `listed` each; worst: by distance, NaN against a number before all
  // With a tolerance: pairs that are neither within it nor within max_ulp (NaN is close to NaN only), the largest |y -
  // x| and the largest |y - x| / |x| over the pairs without NaN.
  std::uint64_t outside = 0;
  double max_abs = 0, max_rel = 0;

  bool equal_bits() const { return equal == total; }
  // Every pair is at most max_ulp apart; NaN is close to NaN only.
  bool within(std::uint64_t limit) const { return nan_mismatch == 0 && max_ulp <= limit; }
};

// The distance is the difference of the codes in the order of their values (Inf is one beyond the largest value); of
// integers the difference. Throws Error when the shapes differ, and when the types do without `in` or a tolerance.
Comparison compare_tensors(const Tensor& x, const Tensor& y, const CompareOptions& options = {},
                           const BytesDone& done = {}, PieceLog* log = nullptr);

}  // namespace narrow
