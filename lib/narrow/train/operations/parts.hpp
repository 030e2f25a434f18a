// How much work is worth a thread: loops are cut by these sizes, never by the number of threads.
#pragma once

#include <cstddef>

#include "narrow/base/parallel.hpp"

namespace narrow::train {

inline constexpr std::size_t elements_a_part = std::size_t{1} << 13;
inline constexpr std::size_t multiplications_a_part = std::size_t{1} << 18;

// Rows of `width` elements, or lines of `work` multiplications, that make a part.
constexpr std::size_t rows_a_part(std::size_t width) noexcept { return 1 + (elements_a_part - 1) / (width + 1); }
constexpr std::size_t lines_a_part(std::size_t work) noexcept { return 1 + (multiplications_a_part - 1) / (work + 1); }

}  // namespace narrow::train
