// What the header of a tensor file may ask for at most: far above any real file, far below what could hurt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace narrow {

inline constexpr std::uint64_t largest_safetensors_header = std::uint64_t{1} << 26;  // the reference: 100,000,000
inline constexpr std::uint64_t largest_npy_header = 10'000;                          // as numpy.load
inline constexpr std::size_t most_tensors = std::size_t{1} << 20;
inline constexpr std::size_t most_shards = 10'000;
inline constexpr std::size_t most_dimensions = 16;
inline constexpr std::size_t longest_name = 4096;
inline constexpr int deepest_json = 16;
inline constexpr std::uint64_t largest_pipe = std::uint64_t{1} << 34;  // of standard input, kept on disk
inline constexpr std::uint64_t largest_number = std::numeric_limits<std::int64_t>::max();

struct Size {
  std::uint64_t elements = 1, bytes = 0;
  const char* problem = nullptr;  // "is too large", ...: the other numbers mean nothing then
};

// Product of the shape, and bytes of so many elements, both checked. From left to right as in the reference:
// [0, 2^40, 2^40] is 0, [2^40, 2^40, 0] is too large.
constexpr Size size_of(std::span<const std::uint64_t> shape, int bits) noexcept {
  constexpr const char* too_large = "is too large";
  Size size;
  for (const std::uint64_t n : shape)
    if (__builtin_mul_overflow(size.elements, n, &size.elements)) return {.problem = too_large};
  std::uint64_t all_bits = 0;
  if (__builtin_mul_overflow(size.elements, static_cast<std::uint64_t>(bits), &all_bits)) return {.problem = too_large};
  if (all_bits % 8 != 0) return {.problem = "does not fill whole bytes"};
  size.bytes = all_bits / 8;
  return size;
}

}  // namespace narrow
