// What the operations share: the store of a result, rows on threads, and the trees in which a block of threads adds.
#pragma once

#include <algorithm>
#include <bit>
#include <span>

#include "narrow/base/parallel.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/special/operation.hpp"

namespace narrow::detail {

inline bool is_operation_type(const Format& f) noexcept {
  return f == "fp32"_fmt || f == "fp16"_fmt || f == "bf16"_fmt;
}
inline std::size_t element_bytes(const Format& type) noexcept { return type == "fp32"_fmt ? 4 : 2; }

// A result on its way to memory: one rounding to nearest even, and every NaN is the GPU's.
template <Carrier T>
std::uint32_t store_code(T x, const Format& type) noexcept {
  if (x != x) return type == "fp32"_fmt ? 0x7FFFFFFFu : 0x7FFFu;
  if constexpr (sizeof(T) == 4) {
    const auto word = std::bit_cast<std::uint32_t>(x);
    if (type.mantissa_bits == 23) return word;
    if (type.mantissa_bits == 7) return (word + 0x7FFFu + (word >> 16 & 1)) >> 16;  // a carry may end at infinity
    constexpr Format fp16 = "fp16"_fmt;
    return static_cast<std::uint32_t>(encode(x, fp16));
  } else {
    return static_cast<std::uint32_t>(encode(x, type));
  }
}

// body(begin, end) for parts of the rows, each of some ten thousand elements.
template <class Body>
void for_rows(const OperationRequest& request, const Body& body) {
  constexpr std::size_t elements = 16384;
  const std::size_t part = std::max<std::size_t>(1, elements / std::max<std::size_t>(1, request.cols));
  parallel_parts(request.rows, part, request.threads, body);
}

// values[i] takes values[i + half] for half = count / 2, .. until `left` remain. Trees in shared memory have this
// shape, and what lane 0 gets from shuffles down by 16, 8, 4, 2, 1 (any lane, where they are shuffles by xor of a sum).
template <class T, class Combine>
void fold_halves(T* values, std::size_t count, std::size_t left, const Combine& combine) {
  for (std::size_t half = count / 2; half >= left; half /= 2)
    for (std::size_t i = 0; i < half; ++i) values[i] = combine(values[i], values[i + half]);
}

// Every warp folds its 32 values, then the results of the warps are folded. Lanes beyond the last warp hold a neutral
// element, so that they can be left out.
template <class T, class Combine>
T fold_block(T* values, std::size_t warps, const Combine& combine) {
  for (std::size_t w = 0; w < warps; ++w) {
    fold_halves(values + 32 * w, 32, 1, combine);
    values[w] = values[32 * w];
  }
  fold_halves(values, warps, 1, combine);
  return values[0];
}

}  // namespace narrow::detail
