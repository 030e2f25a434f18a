// A matrix of codes out of a tensor file: FILE[:TENSOR], the format of integers, transposed or not.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "narrow/dot/matrix_view.hpp"
#include "narrow/dot/model.hpp"

namespace app {

// What the flags say about one matrix.
struct MatrixFlags {
  const char* name;                         // "--a"
  std::optional<std::string> file, format;  // --a FILE, --a-format F
  bool transpose = false;
  bool scales = false;  // they come beside it: of a block-quantised tensor the codes are wanted, not the values
};

// Codes in the order of the file. TF32 and FP32 are 32-bit words.
struct LoadedMatrix {
  std::variant<std::vector<std::uint8_t>, std::vector<std::uint16_t>, std::vector<std::uint32_t>,
               std::vector<std::uint64_t>>
      codes;
  std::size_t rows = 0, cols = 0;
  narrow::Layout layout = narrow::Layout::row_major;
  narrow::Format format;
  std::string type;  // as the file spells it: "F16", "U8"

  narrow::CodeMatrix view() const;
};

// Formats of operands as users name them: rows of the table and aliases, and the integers u8 and s32.
narrow::Format choose_code_format(std::string_view name);
std::string code_format_name(const narrow::Format& format);

// Throws narrow::Error: no matrix, an empty one, integers whose format is unknown.
LoadedMatrix load_matrix(const MatrixFlags& flags);

// Makes sure that the codes are those of a model's operand. FP32 words are TF32 operands as they are; anything else is
// refused, or rounded to nearest even when `round` says so.
void fit_matrix(LoadedMatrix& matrix, const MatrixFlags& flags, const narrow::DotType& wanted, std::string_view model,
                bool round);

// An empty matrix of rows x cols codes of a format.
LoadedMatrix make_matrix(std::size_t rows, std::size_t cols, const narrow::Format& format);

}  // namespace app
