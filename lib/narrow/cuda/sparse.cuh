// Sparse instructions: A holds half of K, and which half. The pattern is the same for a whole tile (the metadata is
// then one nibble, repeated, whoever holds it); B's other half is filled with any bits, NaN among them, which must not
// matter.
#pragma once

#include "narrow/base/random.hpp"
#include "narrow/golden/tile_inputs.hpp"

namespace narrow::detail {

// Two of four: six patterns of two indices. TF32: one of two, as an index in each pair.
__device__ inline unsigned pattern_of(bool one_of_two, std::uint64_t tile) {
  const unsigned two_of_four[] = {0x4, 0x8, 0xC, 0x9, 0xD, 0xE};
  const std::uint64_t round = tile / tile_families;
  return one_of_two ? (round % 2 == 0 ? 0x4 : 0xE) : two_of_four[round % 6];
}

// Row n of B with all of K in bytes [0, 2 * row_bytes) from the kept half.
template <int ElementBytes>
__device__ inline void expand_row(unsigned char* to, const unsigned char* kept, int row_bytes, unsigned pattern,
                                  std::uint64_t junk) {
  constexpr bool one_of_two = ElementBytes == 4;
  const int kept_count = row_bytes / ElementBytes, all = 2 * kept_count;
  for (int i = 0; i < all * ElementBytes; ++i)
    to[i] = static_cast<unsigned char>(random_bits(junk, static_cast<std::uint64_t>(i)));
  for (int j = 0; j < kept_count; ++j) {
    const int k = one_of_two ? 2 * j + (pattern == 0xE ? 1 : 0)
                             : j / 2 * 4 + static_cast<int>(j % 2 == 0 ? pattern & 3 : pattern >> 2);
    for (int byte = 0; byte < ElementBytes; ++byte) to[k * ElementBytes + byte] = kept[j * ElementBytes + byte];
  }
}

}  // namespace narrow::detail
