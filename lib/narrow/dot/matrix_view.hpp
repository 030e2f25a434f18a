// A matrix of codes that somebody else owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "narrow/format/format.hpp"

namespace narrow {

enum class Layout : std::uint8_t { row_major, column_major };

// U: uint8_t, 16, 32, 64 (const where it is only read) holding codes. stride: elements from one row (or column) to the
// next; 0 means that they follow without a gap.
template <class U>
struct MatrixView {
  U* data = nullptr;
  std::size_t rows = 0, cols = 0, stride = 0;
  Layout layout = Layout::row_major;

  constexpr std::size_t pitch() const noexcept {
    return stride != 0 ? stride : layout == Layout::row_major ? cols : rows;
  }
  constexpr std::size_t index(std::size_t i, std::size_t j) const noexcept {
    return layout == Layout::row_major ? i * pitch() + j : j * pitch() + i;
  }
  constexpr U& operator()(std::size_t i, std::size_t j) const noexcept { return data[index(i, j)]; }
};

// The same for codes of any width, to read.
struct CodeMatrix {
  const void* data = nullptr;
  int code_bytes = 0;
  std::size_t rows = 0, cols = 0, pitch = 0;
  Layout layout = Layout::row_major;

  Code operator()(std::size_t i, std::size_t j) const noexcept {
    const std::size_t at = layout == Layout::row_major ? i * pitch + j : j * pitch + i;
    switch (code_bytes) {
      case 1: return static_cast<const std::uint8_t*>(data)[at];
      case 2: return static_cast<const std::uint16_t*>(data)[at];
      case 4: return static_cast<const std::uint32_t*>(data)[at];
      default: return static_cast<const std::uint64_t*>(data)[at];
    }
  }
};

template <class U>
CodeMatrix code_matrix(const MatrixView<U>& view) noexcept {
  static_assert(std::is_unsigned_v<std::remove_const_t<U>>, "codes are unsigned integers");
  return {view.data, sizeof(U), view.rows, view.cols, view.pitch(), view.layout};
}

}  // namespace narrow
