#include "narrow/cluster/wire.hpp"

#include <bit>
#include <cstring>
#include <limits>

#include "narrow/array/array.hpp"
#include "narrow/array/pack.hpp"
#include "narrow/base/error.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/text/text.hpp"

namespace narrow::cluster {

namespace {

bool is_exact(const Wire& w) { return !w.blocks && w.format == "fp32"_fmt; }

void one_nan(std::span<float> values) {
  for (float& x : values) x = x == x ? x : std::numeric_limits<float>::quiet_NaN();
}

std::size_t scale_bytes(const BlockFormat& f) { return f.scale == "fp32"_fmt ? sizeof(float) : 1; }
std::size_t scales_of(std::size_t values, const BlockFormat& f) { return grid_rows(f, 1) * grid_cols(f, values); }

std::byte* put(std::byte* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  return to + bytes;
}

void put_codes(std::byte* to, std::span<const std::uint8_t> codes, int bits) {
  pack_codes(codes, bits, {reinterpret_cast<std::uint8_t*>(to), packed_size(codes.size(), bits)});
}
std::vector<std::uint8_t> get_codes(std::span<const std::byte> from, std::size_t count, int bits) {
  std::vector<std::uint8_t> codes(count);
  unpack_codes({reinterpret_cast<const std::uint8_t*>(from.data()), packed_size(count, bits)}, bits, codes);
  return codes;
}

Quantised quantised(std::span<const float> values, const Wire& w, std::uint64_t seed, int threads) {
  return w.cast.rounding == Rounding::stochastic
             ? quantise_stochastically(values, 1, values.size(), *w.blocks, seed, threads)
             : quantise(values, 1, values.size(), *w.blocks, threads);
}

template <class Code>
void put_words(std::span<const float> values, const Format& f, std::byte* to, int threads) {
  std::vector<Code> codes(values.size());
  encode_array(values, f, {}, std::span(codes), 0, threads);
  put(to, codes.data(), codes.size() * sizeof(Code));
}
template <class Code>
void get_words(std::span<const std::byte> from, const Format& f, std::span<float> values, int threads) {
  std::vector<Code> codes(values.size());
  if (!codes.empty()) std::memcpy(codes.data(), from.data(), codes.size() * sizeof(Code));
  decode_array(std::span<const Code>(codes), f, values, threads);
}

}  // namespace

Wire require_wire(std::string_view name) {
  Wire wire;
  if (is_block_format_name(name)) wire.blocks = require_block_format(name);
  else wire.format = require_format(name);
  check(wire);
  return wire;
}

void check(const Wire& wire) {
  const Format& f = wire.format;
  if (!f.is_valid() || !f.has_sign || !f.has_zero || f.mantissa_bits > 23 || f.exponent_bits > 8)
    throw Error("ranks cannot send such a format: one with a sign and a zero that fits FP32 is needed, such as bf16");
  if (wire.blocks && wire.blocks->has_row_scales())
    throw Error("ranks send rows of one tensor each, for which nvfp4:te_nvfp4 is the same");
  if (is_exact(wire) && wire.cast != Cast{}) throw Error("fp32 is sent as it is, without a cast; leave the cast out");
}

void round_values(std::span<float> values, const Wire& w, std::uint64_t seed, int threads) {
  if (w.blocks) dequantise(quantised(values, w, seed, threads), values, threads);
  else if (!is_exact(w)) round_array(values, values, w.format, w.cast, seed, threads);
  one_nan(values);
}

std::size_t value_bytes(const Wire& w) {
  if (w.blocks || w.format.width() < 8) return 0;
  return w.format.width() == 8 ? 1 : w.format.width() <= 16 ? 2 : 4;
}

std::size_t packed_bytes(std::size_t values, const Wire& w) {
  if (values == 0) return 0;
  if (!w.blocks) return w.format.width() <= 8 ? packed_size(values, w.format.width()) : values * value_bytes(w);
  return packed_size(values, w.blocks->element.width()) + scales_of(values, *w.blocks) * scale_bytes(*w.blocks) +
         (w.blocks->has_tensor_scale() ? sizeof(float) : 0);
}

std::vector<std::byte> pack(std::span<float> values, const Wire& w, std::uint64_t seed, int threads) {
  std::vector<std::byte> message(packed_bytes(values.size(), w));
  if (values.empty()) return message;
  if (w.blocks) {
    const Quantised q = quantised(values, w, seed, threads);
    dequantise(q, values, threads);
    one_nan(values);
    put_codes(message.data(), q.codes, w.blocks->element.width());
    std::byte* at = message.data() + packed_size(values.size(), w.blocks->element.width());
    if (scale_bytes(*w.blocks) == 1) at = put(at, scale_codes(q.scales, *w.blocks).data(), q.scales.size());
    else at = put(at, q.scales.data(), q.scales.size() * sizeof(float));
    if (w.blocks->has_tensor_scale()) put(at, &q.tensor_scale, sizeof(float));
    return message;
  }
  round_values(values, w, seed, threads);  // now values of the format: what follows loses nothing
  if (is_exact(w)) put(message.data(), values.data(), message.size());
  else if (value_bytes(w) == 4) put_words<std::uint32_t>(values, w.format, message.data(), threads);
  else if (value_bytes(w) == 2) put_words<std::uint16_t>(values, w.format, message.data(), threads);
  else {
    std::vector<std::uint8_t> codes(values.size());
    encode_array(values, w.format, {}, std::span(codes), 0, threads);
    put_codes(message.data(), codes, w.format.width());
  }
  return message;
}

void unpack(std::span<const std::byte> message, const Wire& w, std::span<float> values, int threads) {
  if (message.size() != packed_bytes(values.size(), w))
    throw Error("a message of " + std::to_string(message.size()) + " bytes where " +
                std::to_string(packed_bytes(values.size(), w)) + " were to come");
  if (values.empty()) return;
  if (w.blocks) {
    const std::vector<std::uint8_t> codes = get_codes(message, values.size(), w.blocks->element.width());
    message = message.subspan(packed_size(values.size(), w.blocks->element.width()));
    std::vector<float> scales(scales_of(values.size(), *w.blocks));
    float tensor_scale = 1;
    if (scale_bytes(*w.blocks) == 1) get_words<std::uint8_t>(message, w.blocks->scale, scales, threads);
    else std::memcpy(scales.data(), message.data(), scales.size() * sizeof(float));
    if (w.blocks->has_tensor_scale()) std::memcpy(&tensor_scale, message.last(sizeof(float)).data(), sizeof(float));
    dequantise_into(codes, scales, tensor_scale, 1, values.size(), *w.blocks, values, threads);
  } else if (is_exact(w)) {
    std::memcpy(values.data(), message.data(), message.size());
  } else if (value_bytes(w) == 4) {
    get_words<std::uint32_t>(message, w.format, values, threads);
  } else if (value_bytes(w) == 2) {
    get_words<std::uint16_t>(message, w.format, values, threads);
  } else {
    const std::vector<std::uint8_t> codes = get_codes(message, values.size(), w.format.width());
    decode_array(std::span<const std::uint8_t>(codes), w.format, values, threads);
  }
  one_nan(values);
}

}  // namespace narrow::cluster
