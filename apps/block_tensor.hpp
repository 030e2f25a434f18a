// Tensors of files in block formats: the matrix that a tensor is, and its rows of blocks piece by piece.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "format_list.hpp"
#include "narrow/scale/block_format_statistics.hpp"
#include "narrow/tensor/chunks.hpp"

namespace app {

struct ChosenBlockFormat {
  std::string name;  // as it was asked for, in lower case
  narrow::BlockFormat format;
};

// A comma list of formats of both kinds: "fp16,mxfp8_e4m3,nvfp4:torchao_nvfp4". Throws narrow::Error.
struct FormatLists {
  std::vector<ChosenFormat> plain;
  std::vector<ChosenBlockFormat> blocks;
};
FormatLists parse_format_lists(std::string_view list);
ChosenBlockFormat choose_block_format(std::string_view name);

// Blocks lie along the last dimension: a tensor is a matrix with rows of that length.
struct MatrixSize {
  std::size_t rows = 0, cols = 0;
};
MatrixSize matrix_of(const narrow::TensorHeader& header);

// The numbers of a tensor (in C order, as FP32) in pieces of whole blocks, one after the other.
using PieceBody = std::function<void(std::span<const float> values, std::size_t rows, std::size_t cols)>;
void for_each_piece(const narrow::Tensor& tensor, const narrow::BlockFormat& format, const narrow::BytesDone& done,
                    const PieceBody& body);

// Largest magnitude of the whole times scale, as the rule takes it; 0 without reading when the format does not need it.
float amax_for(const narrow::Tensor& tensor, const narrow::BlockFormat& format, float scale,
               const narrow::BytesDone& done);

narrow::BlockFormatStatistics block_tensor_statistics(const narrow::Tensor& tensor, const narrow::BlockFormat& format,
                                                      double scale, const narrow::BytesDone& done);

}  // namespace app
