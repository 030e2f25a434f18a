// Matrices of random codes as files, for the tests of gemm and validate.
#pragma once

#include "narrow/base/random.hpp"
#include "narrow/round/round_to.hpp"
#include "tensor_files.hpp"

namespace test {

// About normal: the sum of twelve uniform numbers. Rounded to the format, or as FP32 words when it is fp32.
inline double random_normal(std::uint64_t seed, std::uint64_t index) {
  double sum = -6;
  for (std::uint64_t i = 0; i < 12; ++i)
    sum += static_cast<double>(narrow::random_bits(seed, index * 12 + i) >> 11) * 0x1p-53;
  return sum;
}

inline std::string random_codes(std::size_t count, const narrow::Format& f, std::uint64_t seed) {
  const int bytes = f.width() <= 8 ? 1 : f.width() <= 16 ? 2 : f.width() <= 32 ? 4 : 8;
  const double spread = f.is_integer() ? 40 : 1;
  std::string data;
  for (std::size_t i = 0; i < count; ++i)
    data += little_endian(narrow::encode(spread * random_normal(seed, i), f), bytes);
  return data;
}

struct Matrix {
  std::string name, dtype;
  std::size_t rows, cols;
  narrow::Format format;
};

// A file with random matrices; each has its own seed.
inline std::string random_file(const std::vector<Matrix>& matrices, std::uint64_t seed = 1) {
  std::vector<Entry> entries;
  for (const Matrix& m : matrices)
    entries.push_back({m.name, m.dtype, "[" + std::to_string(m.rows) + "," + std::to_string(m.cols) + "]",
                       random_codes(m.rows * m.cols, m.format, seed++)});
  return safetensors_of(entries);
}

}  // namespace test
