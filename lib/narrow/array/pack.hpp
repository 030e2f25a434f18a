// Codes of fewer than eight bits without gaps: low bits first, as .safetensors stores F4 and F6.
//
//   const std::vector<std::uint8_t> codes = {1, 2, 3};  // of e2m1: four bits each
//   std::vector<std::uint8_t> packed(packed_size(codes.size(), 4));
//   pack_codes(codes, 4, packed);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace narrow {

// Bytes that n codes of `bits` bits take.
constexpr std::size_t packed_size(std::size_t n, int bits) noexcept {
  return n / 8 * static_cast<std::size_t>(bits) + (n % 8 * static_cast<std::size_t>(bits) + 7) / 8;
}

// One code a byte to packed bytes and back; bits is 1 to 8, packed.size() must be packed_size(codes.size(), bits). Bits of
// a code above its width are dropped, unused bits of the last byte are zero.
void pack_codes(std::span<const std::uint8_t> codes, int bits, std::span<std::uint8_t> packed);
void unpack_codes(std::span<const std::uint8_t> packed, int bits, std::span<std::uint8_t> codes);

}  // namespace narrow
