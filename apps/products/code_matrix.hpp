// A matrix of codes out of a tensor file: FILE[:TENSOR], the format of integers, transposed or not.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "narrow/dot/gemm.hpp"
#include "narrow/dot/model.hpp"
#include "narrow/tensor/tensor.hpp"

namespace app {

// What the flags say about one matrix.
struct MatrixFlags {
  const char* name;                                   // "--a"
  std::optional<std::string> file = {}, format = {};  // --a FILE, --a-format F
  bool transpose = false;
  bool scales = false;  // they come beside it: of a block-quantised tensor the codes are wanted, not the values
  const char* format_name = nullptr;  // the flag of `format` where it is not --a-format for --a
};

// Codes in the order of the file. TF32 and FP32 are 32-bit words.
struct LoadedMatrix {
  std::variant<std::vector<std::uint8_t>, std::vector<std::uint16_t>, std::vector<std::uint32_t>,
               std::vector<std::uint64_t>>
      codes;
  std::size_t rows = 0, cols = 0;
  std::size_t items = 1;         // several matrices one after another: a file of three dimensions
  bool one_row_for_all = false;  // a bias: what the file has is one row
  narrow::Layout layout = narrow::Layout::row_major;
  narrow::Format format;
  std::string type;  // as the file spells it: "F16", "U8"

  narrow::CodeMatrix view(std::size_t item = 0) const;
  // Elements from an item to the next; 0 where there is one for all.
  std::size_t item_step() const { return items > 1 ? rows * cols : 0; }
};

// Formats of operands as users name them: rows of the table and aliases, and the integers u8 and s32.
narrow::Format choose_code_format(std::string_view name);
std::string code_format_name(const narrow::Format& format);

// The one tensor that the flags name, and what its codes mean. Both throw narrow::Error.
narrow::Tensor open_operand(const MatrixFlags& flags);
narrow::Format code_format_of(const narrow::Tensor& tensor, const MatrixFlags& flags);

// Throws narrow::Error: no matrix, an empty one, integers whose format is unknown. rows_of_bias: how many rows a file
// of one dimension stands for; 0: it is refused.
LoadedMatrix load_matrix(const MatrixFlags& flags, std::size_t rows_of_bias = 0);

// Makes sure that the codes are those of a model's operand. FP32 words are TF32 operands as they are; anything else is
// refused, or rounded to nearest even when `round` says so.
void fit_matrix(LoadedMatrix& matrix, const MatrixFlags& flags, const narrow::DotType& wanted, std::string_view model,
                bool round);

// An empty matrix of rows x cols codes of a format, `items` times.
LoadedMatrix make_matrix(std::size_t rows, std::size_t cols, const narrow::Format& format, std::size_t items = 1);

// Matrices as tensors of a file (.npy takes one), in the type of their format or as integers whose format is in the
// metadata.
struct NamedMatrix {
  const char* name;
  const LoadedMatrix* matrix;
};
void write_matrices(const std::string& path, const std::vector<NamedMatrix>& matrices);

}  // namespace app
