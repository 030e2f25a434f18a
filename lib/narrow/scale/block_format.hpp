// Block formats as values: elements of a narrow format that share a scale within a block (MX, NVFP4, FP8 with scales of
// a tensor, row or tile, block floating point), and their names.
//
//   const BlockFormat mx = require_block_format("mxfp8_e4m3");
//   const std::vector<float> data(64, 3.0F);
//   const BlockFormatStatistics s = block_format_statistics(data, 2, 32, mx);
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/array/histogram.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/cast.hpp"
#include "narrow/scale/scale_rule.hpp"

namespace narrow {

// A matrix is cut into blocks of block_rows x block_cols (0: all rows, all columns); the last ones may be smaller. The
// value of an element is element * scale of its block, for NVFP4 also times a factor of the whole tensor, or of its
// row.
struct BlockFormat {
  Format element;
  Format scale;  // e8m0, e4m3 or fp32
  std::size_t block_rows = 1;
  std::size_t block_cols = 32;
  ScaleRule rule = ScaleRule::ocp_floor;

  friend constexpr bool operator==(const BlockFormat&, const BlockFormat&) = default;

  constexpr bool has_tensor_scale() const noexcept {
    return row_of(rule).scale == ScaleKind::e4m3 && rule != ScaleRule::nvfp4_single && !has_row_scales();
  }
  // Whether there is such a factor for every row.
  constexpr bool has_row_scales() const noexcept { return rule == ScaleRule::te_nvfp4_row; }
  // Whether a block can be scaled only when the largest magnitude of the whole tensor is known.
  constexpr bool needs_tensor_amax() const noexcept { return has_tensor_scale() || block_rows == 0; }
  // Stored bits an element, scales of full blocks included; scales of rows and tensors count nothing.
  double bits_per_element() const noexcept;
};

// A row of the table: a name and what it stands for.
struct BlockFormatRow {
  std::string_view name;
  BlockFormat format;  // with the rule that is taken when none is named
  std::string_view aliases;
  std::string_view source;
};

// All rows.
std::span<const BlockFormatRow> block_format_table();

// "mxfp8_e4m3", "nvfp4:torchao_nvfp4", "bfp8x16" (8-bit two's complement, blocks of 16, shared exponent; 2 to 8 bits).
// The word after the colon names the rule. Empty when there is no such format.
std::optional<BlockFormat> find_block_format(std::string_view name);
// The same; Error says what is accepted.
BlockFormat require_block_format(std::string_view name);
// Whether a name is meant as a block format: known, or known but for its rule. Lets lists of formats take both kinds.
bool is_block_format_name(std::string_view name);

const ScaleRuleRow* find_scale_rule(std::string_view name, ScaleKind scale);  // nullptr when there is none
std::vector<std::string_view> rules_for(const BlockFormat& format);           // what may stand after the colon

// How a scaled value becomes an element: to nearest even, saturating; DeepGEMM's E2M1 takes ties toward zero. A NaN has
// no sign: a GPU's product with the scale has lost it already, and that of a CPU depends on the CPU.
Cast element_cast(const BlockFormat& format);

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

// What a block format does to data.
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
