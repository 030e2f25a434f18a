// What a block format does to data: the counts and errors of FormatStatistics, and how the scales of the blocks are
// spread.
#pragma once

#include <map>
#include <span>

#include "narrow/array/histogram.hpp"
#include "narrow/scale/block_format.hpp"

namespace narrow {

// The scales that are stored: E8M0 or E4M3 values, FP32 decode scales.
struct ScaleSpread {
  std::uint64_t blocks = 0;
  std::uint64_t zeros = 0;               // scales that are 0 (NVFP4 of small blocks)
  std::uint64_t non_finite = 0;          // scales that are Inf or NaN
  std::map<int, std::uint64_t> by_log2;  // the others by floor(log2 scale)

  // floor(log2) of the scale below which the given share of by_log2 lies (nearest rank); 0 where there is none.
  int quantile_log2(double share) const;
  void merge(const ScaleSpread& next);
};

struct BlockFormatStatistics {
  InputStatistics input;
  FormatStatistics elements;  // subnormal: of the element format; overflow: beyond its largest value once scaled, and
                              // clamped to it
  ScaleSpread scales;
  BinadeFates fates = {};  // of the data times `scale`; empty unless it was asked for

  void merge(const BlockFormatStatistics& next);  // of the data that follows
};

// rows x cols floats, each multiplied by `scale` first; errors in unscaled units. amax: of the whole tensor times
// scale, for formats that need it. Pieces of whole blocks can be merged in order: sums then differ in their last bits
// only.
BlockFormatStatistics block_format_statistics(std::span<const float> data, std::size_t rows, std::size_t cols,
                                              const BlockFormat& format, float amax, float scale = 1, int threads = 0,
                                              bool with_fates = false);
// The same for a tensor as a whole.
BlockFormatStatistics block_format_statistics(std::span<const float> data, std::size_t rows, std::size_t cols,
                                              const BlockFormat& format);

}  // namespace narrow
