// Arrays in block formats: floats to codes and scales and back. The same bits for any number of threads.
//
//   const std::vector<float> data(2 * 32, 0.7F);
//   const Quantised q = quantise(data, 2, 32, require_block_format("mxfp4"));
//   const std::vector<float> back = dequantise(q);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "narrow/scale/block_format.hpp"

namespace narrow {

// A matrix in a block format. Scales stand row by row of the grid of blocks.
struct Quantised {
  BlockFormat format;
  std::size_t rows = 0, cols = 0;
  std::vector<std::uint8_t> codes;  // one a byte, row by row
  std::vector<float> scales;        // the values of the scales, exact
  float tensor_scale = 1;  // NVFP4: te_nvfp4 keeps the tensor's amax, torchao_nvfp4 amax / 2688, ct_nvfp4 its G
  std::vector<float> row_scales = {};  // te_nvfp4_row: the same of every row
};

// How many blocks lie along the rows and the columns of a matrix.
std::size_t grid_rows(const BlockFormat& format, std::size_t rows);
std::size_t grid_cols(const BlockFormat& format, std::size_t cols);

// Largest magnitude of a tensor: Inf counts, NaN as the rule says.
float tensor_amax(std::span<const float> data, const BlockFormat& format, int threads = 0);

// data holds rows x cols floats, row by row. Throws Error when it does not.
Quantised quantise(std::span<const float> data, std::size_t rows, std::size_t cols, const BlockFormat& format,
                   int threads = 0);

// The same with elements rounded stochastically, by random_bits(seed, index).
Quantised quantise_stochastically(std::span<const float> data, std::size_t rows, std::size_t cols,
                                  const BlockFormat& format, std::uint64_t seed, int threads = 0);

// The same into memory of the caller, for data that comes in pieces of whole blocks (rows in multiples of block_rows).
// amax: of the whole tensor, needed when format.needs_tensor_amax(). Factors of rows are the caller's to keep:
// row_amaxes.
void quantise_into(std::span<const float> data, std::size_t rows, std::size_t cols, const BlockFormat& format,
                   float amax, std::span<std::uint8_t> codes, std::span<float> scales, int threads = 0);

// What the two levels decode to, in FP32 as the systems do it.
void dequantise(const Quantised& q, std::span<float> out, int threads = 0);
std::vector<float> dequantise(const Quantised& q, int threads = 0);
// Of every row its largest magnitude, as the rule takes it.
std::vector<float> row_amaxes(std::span<const float> data, std::size_t rows, std::size_t cols,
                              const BlockFormat& format, int threads = 0);

// The same from parts that lie elsewhere; with one factor for all, or one for every row.
void dequantise_into(std::span<const std::uint8_t> codes, std::span<const float> scales,
                     std::span<const float> row_scales, std::size_t rows, std::size_t cols, const BlockFormat& format,
                     std::span<float> out, int threads = 0);
void dequantise_into(std::span<const std::uint8_t> codes, std::span<const float> scales, float tensor_scale,
                     std::size_t rows, std::size_t cols, const BlockFormat& format, std::span<float> out,
                     int threads = 0);

// The scales as codes of their own format: one byte each for e8m0 and e4m3; Error for FP32 scales.
std::vector<std::uint8_t> scale_codes(std::span<const float> scales, const BlockFormat& format);
// The element codes without gaps, as files hold them.
std::vector<std::uint8_t> packed_codes(std::span<const std::uint8_t> codes, const BlockFormat& format);

// The plain definition, one element after the other: what quantise_into must equal bit for bit.
void quantise_plainly(std::span<const float> data, std::size_t rows, std::size_t cols, const BlockFormat& format,
                      float amax, std::span<std::uint8_t> codes, std::span<float> scales);

}  // namespace narrow
