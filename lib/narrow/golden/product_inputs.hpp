// Inputs for whole products by number, the same on every machine: roughly normal values, rounded into the format.
//
//   const Code third_of_a = product_code(/*seed=*/1, /*matrix=*/0, /*index=*/2, "fp16"_fmt);
#pragma once

#include "narrow/base/random.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow {

// Element `index` of matrix 0 (A) or 1 (B). The sum of four 16-bit fields, centred, is an integer of 18 bits, and six
// more random bits make it fill the mantissa of a float: exact arithmetic, so no machine differs.
constexpr float product_value(std::uint64_t seed, int matrix, std::uint64_t index) noexcept {
  const std::uint64_t r = random_bits(seed * 2 + static_cast<std::uint64_t>(matrix), index);
  const std::uint64_t sum = (r & 0xFFFF) + (r >> 16 & 0xFFFF) + (r >> 32 & 0xFFFF) + (r >> 48);
  const std::int64_t centred = static_cast<std::int64_t>(sum * 64 + (mix_bits(r) & 63)) - std::int64_t{131070} * 64;
  return static_cast<float>(centred) * 0x1p-21f;
}

// The code of the element in a format; integers are any byte; tf32 is asked as fp32.
constexpr Code product_code(std::uint64_t seed, int matrix, std::uint64_t index, const Format& f) noexcept {
  if (f.is_integer()) return random_bits(seed * 2 + static_cast<std::uint64_t>(matrix), index) & f.code_mask();
  return encode(product_value(seed, matrix, index), f, Cast{.overflow = Overflow::saturate});
}

}  // namespace narrow
