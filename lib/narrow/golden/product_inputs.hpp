// Inputs of what was recorded by number, the same on every machine: roughly normal values, rounded into the format, for
// whole products and for the transformer blocks of data/golden/blocks.tsv.
//
//   const Code third_of_a = product_code(/*seed=*/1, /*matrix=*/0, /*index=*/2, "fp16"_fmt);
//   const GptBlock block = recorded_gpt_block("bf16"_fmt, 64, 2, /*seed=*/1);
//   const std::uint64_t input = stage_hash(recorded_gpt_input(block, 16, 1));
#pragma once

#include <span>
#include <vector>

#include "narrow/base/random.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/special/gpt_block.hpp"

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

// Parameter number i of the model is product_value(1000 seed + i, 0, index): matrices times 0.04, biases times 0.1, the
// weights of norms 1 + value / 4, each rounded to the type.
inline GptBlock recorded_gpt_block(const Format& type, std::size_t width, std::size_t heads, std::uint64_t seed) {
  std::uint64_t number = 0;
  const auto make = [&](std::size_t count, float factor, float offset) {
    std::vector<std::uint16_t> codes(count);
    for (std::size_t i = 0; i < count; ++i)
      codes[i] = static_cast<std::uint16_t>(encode(product_value(1000 * seed + number, 0, i) * factor + offset, type));
    ++number;
    return codes;
  };
  const auto matrix = [&](std::size_t rows, std::size_t cols) { return make(rows * cols, 0.04f, 0); };
  const auto bias = [&](std::size_t count) { return make(count, 0.1f, 0); };
  const auto norm = [&] { return make(width, 0.25f, 1); };
  // Braces evaluate from left to right, in the order of the parameters.
  return {type,
          width,
          heads,
          norm(),
          bias(width),
          matrix(3 * width, width),
          bias(3 * width),
          matrix(width, width),
          bias(width),
          norm(),
          bias(width),
          matrix(4 * width, width),
          bias(4 * width),
          matrix(width, 4 * width),
          bias(width)};
}

// Rows of block.width, one a token.
inline std::vector<std::uint16_t> recorded_gpt_input(const GptBlock& block, std::size_t tokens, std::uint64_t seed) {
  std::vector<std::uint16_t> codes(tokens * block.width);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint16_t>(encode(product_value(seed, 1, i), block.type));
  return codes;
}

// The sum over all codes of mix_bits(code << 32 | index), modulo 2^64.
inline std::uint64_t stage_hash(std::span<const std::uint16_t> codes) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) hash += mix_bits(std::uint64_t{codes[i]} << 32 | i);
  return hash;
}

}  // namespace narrow
