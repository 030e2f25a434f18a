// Statistics of many numbers of 16 bits by way of how often each code is there.
#pragma once

#include "narrow/cuda/arrays.hpp"

namespace narrow::detail {

// False, and nothing done, where counting does not pay: few elements, data that is not aligned, formats of fewer bits,
// a device without the memory.
bool tally_by_counts(const std::uint16_t* codes, const Format& f, std::size_t count,
                     std::span<const FormatCast> formats, DeviceHistogram* histogram, DeviceStatistics* out,
                     CodeCounts& counts, GpuStream stream);

}  // namespace narrow::detail
