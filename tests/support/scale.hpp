// How much a test does and how long it may take: NARROW_TEST_SCALE (default 1) multiplies the number of random or spread inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace test {

// Multiplies every time limit: sanitized programs are slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int patience = 10;
#else
constexpr int patience = 1;
#endif

inline double scale() {
  static const double value = [] {
    const char* text = std::getenv("NARROW_TEST_SCALE");
    const double parsed = text ? std::strtod(text, nullptr) : 1.0;
    return parsed > 0 ? parsed : 1.0;
  }();
  return value;
}

// n scaled, never less than `least`.
inline std::uint64_t scaled(std::uint64_t n, std::uint64_t least = 64) {
  return std::max<std::uint64_t>(least, static_cast<std::uint64_t>(static_cast<double>(n) * scale()));
}

}  // namespace test
