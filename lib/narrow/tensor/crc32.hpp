// The CRC-32 of zip archives, eight bytes a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace narrow {

// crc of what came before (0 at the beginning) continued with bytes.
std::uint32_t crc32_of(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;

}  // namespace narrow
