// Integers in files: little endian, at any address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace narrow {

// The sizeof(T) bytes from `at` on must be there.
template <class T>
constexpr T load_le(std::span<const std::byte> bytes, std::size_t at) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= std::uint64_t{std::to_integer<std::uint8_t>(bytes[at + i])} << (8 * i);
  return static_cast<T>(value);
}

}  // namespace narrow
