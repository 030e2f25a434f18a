#include "narrow/array/pack.hpp"

#include <string>

#include "narrow/array/parts.hpp"
#include "narrow/base/bits.hpp"
#include "narrow/base/error.hpp"

namespace narrow {

namespace {

void check(std::size_t codes, int bits, std::size_t packed, bool apart) {
  if (bits < 1 || bits > 8) throw Error("pack: codes of " + std::to_string(bits) + " bits; 1 to 8 are possible");
  if (packed != packed_size(codes, bits))
    throw Error("pack: " + std::to_string(codes) + " codes of " + std::to_string(bits) + " bits take " +
                std::to_string(packed_size(codes, bits)) + " bytes, not " + std::to_string(packed));
  if (!apart) throw Error("pack: codes and packed bytes overlap");
}

// Two codes a byte, in a loop that the compiler turns into lanes.
void pack_halves(std::span<const std::uint8_t> codes, std::span<std::uint8_t> packed) {
  const std::size_t pairs = codes.size() / 2;
  for (std::size_t i = 0; i < pairs; ++i)
    packed[i] = static_cast<std::uint8_t>((codes[2 * i] & 0xF) | codes[2 * i + 1] << 4);
  if (codes.size() % 2 != 0) packed[pairs] = codes.back() & 0xF;
}

void unpack_halves(std::span<const std::uint8_t> packed, std::span<std::uint8_t> codes) {
  const std::size_t pairs = codes.size() / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    codes[2 * i] = packed[i] & 0xF;
    codes[2 * i + 1] = packed[i] >> 4;
  }
  if (codes.size() % 2 != 0) codes.back() = packed[pairs] & 0xF;
}

}  // namespace

// Eight codes fill `bits` whole bytes, so groups of eight are independent of each other.
void pack_codes(std::span<const std::uint8_t> codes, int bits, std::span<std::uint8_t> packed) {
  check(codes.size(), bits, packed.size(), detail::lie_apart(codes, packed));
  if (bits == 4) return pack_halves(codes, packed);
  const std::uint64_t mask = low_mask(bits);
  std::size_t byte = 0;
  for (std::size_t i = 0; i < codes.size(); i += 8) {
    std::uint64_t group = 0;
    for (std::size_t k = 0; k < 8 && i + k < codes.size(); ++k) group |= (codes[i + k] & mask) << (k * static_cast<unsigned>(bits));
    for (int k = 0; k < bits && byte < packed.size(); ++k, group >>= 8) packed[byte++] = static_cast<std::uint8_t>(group);
  }
}

void unpack_codes(std::span<const std::uint8_t> packed, int bits, std::span<std::uint8_t> codes) {
  check(codes.size(), bits, packed.size(), detail::lie_apart(packed, codes));
  if (bits == 4) return unpack_halves(packed, codes);
  const std::uint64_t mask = low_mask(bits);
  std::size_t byte = 0;
  for (std::size_t i = 0; i < codes.size(); i += 8) {
    std::uint64_t group = 0;
    for (int k = 0; k < bits && byte < packed.size(); ++k) group |= static_cast<std::uint64_t>(packed[byte++]) << (8 * k);
    for (std::size_t k = 0; k < 8 && i + k < codes.size(); ++k, group >>= bits) codes[i + k] = static_cast<std::uint8_t>(group & mask);
  }
}

}  // namespace narrow
