// What travels between ranks: values in a narrow format or in blocks, and the bytes of a message.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "narrow/scale/block_format.hpp"

namespace narrow::cluster {

// A plain format with its cast, or a block format, whose blocks lie along the message. fp32: nothing is rounded.
struct Wire {
  Format format = "fp32"_fmt;
  Cast cast = {};
  std::optional<BlockFormat> blocks = {};
};

Wire require_wire(std::string_view name);  // "bf16", "mxfp8_e5m2"; Error says what is accepted
void check(const Wire& wire);              // Error for a format that has no sign or zero or does not fit FP32

// Values as they come out of a message. Every NaN becomes the same one: which of two NaN a sum keeps, and the sign of
// Inf - Inf, depend on compiler and machine. Stochastic casts take random_bits(seed, index).
void round_values(std::span<float> values, const Wire& wire, std::uint64_t seed, int threads = 1);

// The same, and the message itself: codes without gaps, after them scales, after them the scale of the whole message.
std::vector<std::byte> pack(std::span<float> values, const Wire& wire, std::uint64_t seed, int threads = 1);
std::size_t packed_bytes(std::size_t values, const Wire& wire);
// Bytes that one value takes for itself in a message; 0 where values share bytes.
std::size_t value_bytes(const Wire& wire);
void unpack(std::span<const std::byte> message, const Wire& wire, std::span<float> values, int threads = 1);

}  // namespace narrow::cluster
