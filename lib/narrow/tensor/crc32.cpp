#include "narrow/tensor/crc32.hpp"

#include <array>

#include "narrow/tensor/little_endian.hpp"

namespace narrow {

namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b]: the remainder of byte b followed by k zero bytes, of the polynomial 0x04C11DB7 with reflected bits.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t rest = b;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? 0xEDB88320u : 0);
    tables[0][b] = rest;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t b = 0; b < 256; ++b) tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 0xFF];
  return tables;
}

constexpr Tables tables = make_tables();

}  // namespace

std::uint32_t crc32_of(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  crc = ~crc;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    // The CRC is linear: each byte contributes by itself, moved by the bytes that follow it in the group.
    const std::uint64_t word = load_le<std::uint64_t>(bytes, i) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][word >> (8 * k) & 0xFF];
  }
  for (; i < bytes.size(); ++i) crc = crc >> 8 ^ tables[0][(crc ^ std::to_integer<std::uint32_t>(bytes[i])) & 0xFF];
  return ~crc;
}

}  // namespace narrow
