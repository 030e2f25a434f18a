// Casts, statistics and histograms of data that lies on the device. Every function only puts work on the stream:
// pointers are device pointers, results are there when the stream is. The bits are those of the functions in array/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "narrow/array/histogram.hpp"
#include "narrow/array/statistics.hpp"

struct CUstream_st;

namespace narrow {

using GpuStream = CUstream_st*;  // cudaStream_t; null is the default stream

// in and out may be the same. Stochastic casts take random_bits(seed, index).
void round_on_device(const float* in, float* out, std::size_t count, const Format& f, const Cast& cast,
                     std::uint64_t seed, GpuStream stream);
void encode_on_device(const float* in, std::uint8_t* out, std::size_t count, const Format& f, const Cast& cast,
                      std::uint64_t seed, GpuStream stream);
void encode_on_device(const float* in, std::uint16_t* out, std::size_t count, const Format& f, const Cast& cast,
                      std::uint64_t seed, GpuStream stream);
void encode_on_device(const float* in, std::uint32_t* out, std::size_t count, const Format& f, const Cast& cast,
                      std::uint64_t seed, GpuStream stream);
void decode_on_device(const std::uint8_t* in, float* out, std::size_t count, const Format& f, GpuStream stream);
void decode_on_device(const std::uint16_t* in, float* out, std::size_t count, const Format& f, GpuStream stream);
void decode_on_device(const std::uint32_t* in, float* out, std::size_t count, const Format& f, GpuStream stream);

// What a pass leaves on the device; clear it first (all bytes zero), passes add to it.
struct DeviceStatistics {
  unsigned long long count, zeros, nan, inf;
  unsigned long long underflow, subnormal, overflow, saturated, compared;
  double sum, squared_error, signal;
  unsigned amax, min_nonzero_inverted;  // bits of the float; the smallest as ~bits, so that zero means none
  unsigned max_relative_error;          // bits of a float

  Statistics host(double scale = 1) const;  // of a copy on the host
};
// Counts are exact. Sums are of rounded terms in no fixed order: their last bits may differ from run to run.
// Formats with a sign, a zero and at most 8 exponent bits, rounded to nearest even or toward zero; Error for others.
bool has_device_statistics(const FormatCast& to);
void statistics_on_device(const float* data, std::size_t count, const FormatCast& to, DeviceStatistics* out,
                          GpuStream stream);

// Counts by the upper nine bits of the word, of zeros and Inf by sign, and the largest finite magnitude of each sign,
// as the bits of a float; clear first.
struct DeviceHistogram {
  unsigned long long by_field[512];
  unsigned long long zero[2], inf[2];
  unsigned largest[2];

  ExponentHistogram host() const;  // of a copy on the host
};
void histogram_on_device(const float* data, std::size_t count, DeviceHistogram* out, GpuStream stream);

// The histogram and the statistics of any number of formats (out: one for each), in one pass for up to three; of
// floats, or of codes of a format with a sign, a zero and at most 8 exponent bits.
bool has_device_tally(const Format& codes);
void tally_on_device(const float* data, std::size_t count, std::span<const FormatCast> formats,
                     DeviceHistogram* histogram, DeviceStatistics* out, GpuStream stream);
void tally_on_device(const std::uint8_t* codes, const Format& f, std::size_t count, std::span<const FormatCast> formats,
                     DeviceHistogram* histogram, DeviceStatistics* out, GpuStream stream);
// How often each code of 16 bits is there. With one to count in (all zero, and zero again afterwards; not for two
// streams) large arrays are counted first, and each of their codes is looked at once.
struct CodeCounts {
  unsigned long long of[65536];
};
void tally_on_device(const std::uint16_t* codes, const Format& f, std::size_t count,
                     std::span<const FormatCast> formats, DeviceHistogram* histogram, DeviceStatistics* out,
                     CodeCounts* counts, GpuStream stream);

// Moves records to pages of the host (cudaMallocHost) and clears them, in one kernel of a few microseconds.
void take_from_device(void* records, void* pages, std::size_t bytes, GpuStream stream);

}  // namespace narrow
