// Casts over spans: the same bits as the scalar functions, for any number of threads and any split of the data.
// threads = 0 uses the default (OMP_NUM_THREADS, else all CPUs). Wrong sizes and codes that do not fit throw Error.
//
//   std::vector<float> values = {0.1F, 1e-8F, 70000.0F};
//   std::vector<std::uint16_t> codes(values.size());
//   encode_array(values, "fp16"_fmt, {}, std::span(codes));         // 0x2E66, 0x0000, 0x7C00
//   round_array(values, values, "bf16"_fmt, {.rounding = Rounding::stochastic}, /*seed=*/1);
#pragma once

#include <cstdint>
#include <span>

#include "narrow/round/round_to.hpp"

namespace narrow {

// Value to value; in and out may be the same span. Stochastic casts take random_bits(seed, index of the element).
void round_array(std::span<const float> in, std::span<float> out, const Format& f, const Cast& cast = {},
                 std::uint64_t seed = 0, int threads = 0);
void round_array(std::span<const double> in, std::span<double> out, const Format& f, const Cast& cast = {},
                 std::uint64_t seed = 0, int threads = 0);

// Values to codes; the code type must be at least as wide as the format.
void encode_array(std::span<const float> in, const Format& f, const Cast& cast, std::span<std::uint8_t> out, std::uint64_t seed = 0, int threads = 0);
void encode_array(std::span<const float> in, const Format& f, const Cast& cast, std::span<std::uint16_t> out, std::uint64_t seed = 0, int threads = 0);
void encode_array(std::span<const float> in, const Format& f, const Cast& cast, std::span<std::uint32_t> out, std::uint64_t seed = 0, int threads = 0);
void encode_array(std::span<const float> in, const Format& f, const Cast& cast, std::span<std::uint64_t> out, std::uint64_t seed = 0, int threads = 0);
void encode_array(std::span<const double> in, const Format& f, const Cast& cast, std::span<std::uint8_t> out, std::uint64_t seed = 0, int threads = 0);
void encode_array(std::span<const double> in, const Format& f, const Cast& cast, std::span<std::uint16_t> out, std::uint64_t seed = 0, int threads = 0);
void encode_array(std::span<const double> in, const Format& f, const Cast& cast, std::span<std::uint32_t> out, std::uint64_t seed = 0, int threads = 0);
void encode_array(std::span<const double> in, const Format& f, const Cast& cast, std::span<std::uint64_t> out, std::uint64_t seed = 0, int threads = 0);

// Codes to values, exact. Bits above the format's width are ignored.
void decode_array(std::span<const std::uint8_t> in, const Format& f, std::span<float> out, int threads = 0);
void decode_array(std::span<const std::uint16_t> in, const Format& f, std::span<float> out, int threads = 0);
void decode_array(std::span<const std::uint32_t> in, const Format& f, std::span<float> out, int threads = 0);
void decode_array(std::span<const std::uint64_t> in, const Format& f, std::span<float> out, int threads = 0);
void decode_array(std::span<const std::uint8_t> in, const Format& f, std::span<double> out, int threads = 0);
void decode_array(std::span<const std::uint16_t> in, const Format& f, std::span<double> out, int threads = 0);
void decode_array(std::span<const std::uint32_t> in, const Format& f, std::span<double> out, int threads = 0);
void decode_array(std::span<const std::uint64_t> in, const Format& f, std::span<double> out, int threads = 0);

// Codes of one format to codes of another: one rounding an element, straight from the code.
// In and Out are uint8_t, 16, 32 or 64, each at least as wide as its format.
template <class In, class Out>
void convert_array(std::span<const In> in, const Format& from, std::span<Out> out, const Format& to, const Cast& cast = {},
                   std::uint64_t seed = 0, int threads = 0);

}  // namespace narrow
