// A tensor in pieces of fixed size, so that files larger than memory can be read: the bytes of a piece, or its numbers.
#pragma once

#include <algorithm>
#include <functional>

#include "narrow/tensor/piece_log.hpp"
#include "narrow/tensor/tensor.hpp"

namespace narrow {

// 2^22 values: 16 MiB of FP32. A multiple of the parts of the array passes (2^16) and of eight sub-byte codes, and cut
// by size alone, so that no result depends on the number of threads.
inline constexpr std::size_t chunk_values = std::size_t{1} << 22;

// Values [first, first + count) of a tensor, whose bytes lie in memory: any thread may read them in any order.
struct Window {
  Tensor tensor;            // itself where it is mapped, else a copy of these bytes
  std::uint64_t first = 0;  // where the window starts in `tensor`
  std::size_t count = 0;

  std::span<const std::byte> bytes() const;
};
// first is a multiple of chunk_values.
Window load_window(const Tensor& tensor, std::uint64_t first, std::size_t count);

std::uint64_t bytes_of_values(const TensorHeader& header, std::uint64_t count);

// How many of these codes are NaN or Inf; of a floating type of 16, 32 or 64 bits.
std::uint64_t count_not_finite(std::span<const std::byte> bytes, const ElementType& type, int threads = 0);

// merge(compute(first, count)) for consecutive pieces of the tensor; `done` is told of those that are computed here.
template <class Compute, class Merge>
void fold_chunks(const Tensor& tensor, const BytesDone& done, PieceLog* log, const Compute& compute,
                 const Merge& merge) {
  const std::uint64_t values = tensor.values();
  fold_pieces(
      log, static_cast<std::size_t>((values + chunk_values - 1) / chunk_values),
      [&](std::size_t k) {
        const std::uint64_t first = std::uint64_t{k} * chunk_values;
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_values, values - first));
        auto left = compute(first, count);
        if (done) done(bytes_of_values(tensor, count));
        return left;
      },
      merge);
}

// The numbers of one piece after the other, decoded by all threads; aligned FP32 in the machine's byte order is not
// copied.
class ValueReader {
 public:
  ValueReader(const Tensor& tensor, int threads) : tensor_(tensor), threads_(threads) {}

  std::span<const float> floats(std::uint64_t first, std::size_t count);
  std::span<const double> doubles(std::uint64_t first, std::size_t count);

 private:
  template <class T>
  std::span<const T> decode(const Window& window, std::vector<T>& into);

  const Tensor& tensor_;
  int threads_;
  Window window_;
  std::vector<float> floats_;
  std::vector<double> doubles_;
};

// Whether FP32 holds every value of the tensor (NaN payloads aside); else its numbers are read as doubles.
bool fits_float(const TensorHeader& header);

}  // namespace narrow
