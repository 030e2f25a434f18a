#include "narrow/tensor/chunks.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "narrow/array/parts.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/format/find_format.hpp"

namespace narrow {

std::uint64_t bytes_of_values(const TensorHeader& header, std::uint64_t count) {
  const auto bits = static_cast<std::uint64_t>(header.type.bits / header.type.values());
  return count / 8 * bits + count % 8 * bits / 8;  // all of them times the bits need not fit
}

std::span<const std::byte> Window::bytes() const {
  return tensor.source->mapped().subspan(bytes_of_values(tensor, first), bytes_of_values(tensor, count));
}

Window load_window(const Tensor& tensor, std::uint64_t first, std::size_t count) {
  if (count == 0 || !tensor.source->mapped().empty()) {
    tensor.source->check();
    return {tensor, first, count};
  }
  std::vector<std::byte> bytes(bytes_of_values(tensor, count));
  tensor.source->read(bytes_of_values(tensor, first), bytes);
  const TensorHeader header{tensor.name, tensor.type, {count / static_cast<std::uint64_t>(tensor.type.values())}};
  Window window{make_tensor(header, std::move(bytes)), 0, count};
  window.tensor.big_endian = tensor.big_endian;
  return window;
}

namespace {

// Words that have all bits of a mask: the exponent of Inf and NaN.
template <class Word>
std::uint64_t count_masked(std::span<const std::byte> bytes, Word mask, int threads) {
  constexpr std::size_t part = std::size_t{1} << 16;
  std::vector<std::uint32_t> counts(bytes.size() / sizeof(Word) / part + 1);
  parallel_parts(bytes.size() / sizeof(Word), part, threads, [&](std::size_t begin, std::size_t end) {
    std::uint32_t n = 0;
    for (std::size_t i = begin; i < end; ++i) {
      Word word;
      std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
      n += (word & mask) == mask ? 1 : 0;
    }
    counts[begin / part] = n;
  });
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

}  // namespace

std::uint64_t count_not_finite(std::span<const std::byte> bytes, const ElementType& type, int threads) {
  const std::uint64_t mask = ((std::uint64_t{1} << type.format.exponent_bits) - 1) << type.format.mantissa_bits;
  if (type.bits == 16) return count_masked(bytes, static_cast<std::uint16_t>(mask), threads);
  if (type.bits == 32) return count_masked(bytes, static_cast<std::uint32_t>(mask), threads);
  return count_masked(bytes, mask, threads);
}

bool fits_float(const TensorHeader& header) {
  if (!header.type.has_format()) return header.type.bits <= 16;  // integers
  const Format& f = header.type.format;
  return f.mantissa_bits <= 23 && f.max_exponent() <= 127 && f.min_quantum_exponent() >= -149;
}

template <class T>
std::span<const T> ValueReader::decode(const Window& window, std::vector<T>& into) {
  into.resize(std::max(into.size(), window.count));
  parallel_parts(window.count, detail::part_size, threads_, [&](std::size_t begin, std::size_t end) {
    read_values(window.tensor, window.first + begin, std::span<T>(into.data() + begin, end - begin));
  });
  return {into.data(), window.count};
}

std::span<const float> ValueReader::floats(std::uint64_t first, std::size_t count) {
  window_ = load_window(tensor_, first, count);
  const bool is_fp32 = window_.tensor.type.has_format() && window_.tensor.type.format == "fp32"_fmt;
  const bool aligned = reinterpret_cast<std::uintptr_t>(window_.bytes().data()) % alignof(float) == 0;
  if (is_fp32 && aligned && !window_.tensor.big_endian)
    return view_values(window_.tensor, window_.first, count, floats_);
  return decode(window_, floats_);
}

std::span<const double> ValueReader::doubles(std::uint64_t first, std::size_t count) {
  window_ = load_window(tensor_, first, count);
  return decode(window_, doubles_);
}

}  // namespace narrow
