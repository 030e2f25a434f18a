// Tensors in memory for the tests of the passes: of any type, in either order, mapped or as a stream that cannot go
// back.
#pragma once

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "narrow/array/pack.hpp"
#include "narrow/base/random.hpp"
#include "narrow/tensor/tensor.hpp"

namespace test {

inline const narrow::ElementType& type_named(std::string_view name) { return *narrow::find_element_type(name); }

template <class T>
std::vector<std::byte> to_bytes(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
narrow::Tensor tensor_of(const std::string& type, const std::vector<T>& values, std::vector<std::uint64_t> shape = {}) {
  if (shape.empty()) shape = {values.size()};
  return narrow::make_tensor({"t", type_named(type), shape}, to_bytes(values));
}

// Codes of any type, packed as files hold them.
inline narrow::Tensor tensor_of_codes(const narrow::ElementType& type, const std::vector<std::uint64_t>& codes) {
  std::vector<std::byte> bytes;
  const int bits = type.bits / type.values();
  if (bits < 8) {
    std::vector<std::uint8_t> narrow_codes(codes.begin(), codes.end()), packed(narrow::packed_size(codes.size(), bits));
    narrow::pack_codes(narrow_codes, bits, packed);
    bytes = to_bytes(packed);
  } else {
    for (const std::uint64_t code : codes)
      for (int b = 0; b < bits / 8; ++b) bytes.push_back(static_cast<std::byte>(code >> (8 * b)));
  }
  return narrow::make_tensor({"t", type, {codes.size() / static_cast<std::size_t>(type.values())}}, std::move(bytes));
}

// Like an inflating stream: no bytes in memory, and it only goes forward.
class ForwardOnly : public narrow::ByteSource {
 public:
  explicit ForwardOnly(std::shared_ptr<const narrow::ByteSource> inner) : inner_(std::move(inner)) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    const std::lock_guard<std::mutex> hold(lock_);
    if (offset != next_) went_back_ = true;
    next_ = offset + out.size();
    inner_->read(offset, out);
  }
  bool went_back() const { return went_back_; }

 private:
  std::shared_ptr<const narrow::ByteSource> inner_;
  mutable std::mutex lock_;
  mutable std::uint64_t next_ = 0;
  mutable bool went_back_ = false;
};

inline narrow::Tensor as_stream(narrow::Tensor tensor) {
  tensor.source = std::make_shared<ForwardOnly>(tensor.source);
  return tensor;
}

// The bytes of each element turned around.
inline narrow::Tensor as_big_endian(const narrow::Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  tensor.source->read(0, bytes);
  const auto size = static_cast<std::size_t>(tensor.type.bits / tensor.type.values() / 8);
  for (std::size_t i = 0; i + size <= bytes.size(); i += size)
    for (std::size_t k = 0; k < size / 2; ++k) std::swap(bytes[i + k], bytes[i + size - 1 - k]);
  narrow::Tensor out = narrow::make_tensor(tensor, std::move(bytes));
  out.big_endian = true;
  return out;
}

// A matrix of rows x cols in C order, laid out in the order of Fortran.
template <class T>
narrow::Tensor as_fortran(const std::string& type, const std::vector<T>& values, std::uint64_t rows,
                          std::uint64_t cols) {
  std::vector<T> moved(values.size());
  for (std::uint64_t r = 0; r < rows; ++r)
    for (std::uint64_t c = 0; c < cols; ++c) moved[c * rows + r] = values[r * cols + c];
  narrow::Tensor out = tensor_of(type, moved, {rows, cols});
  out.column_major = true;
  return out;
}

// Floats over 60 binades with zeros, Inf and NaN among them.
inline std::vector<float> mixed_floats(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t r = narrow::random_bits(seed, i);
    const auto exponent = static_cast<std::uint32_t>(127 - 40 + (r >> 32) % 60) << 23;
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(r & 0x807FFFFF) | exponent);
    switch (r >> 40 & 255) {
      case 0: values[i] = 0.0f; break;
      case 1: values[i] = -0.0f; break;
      case 2: values[i] = std::bit_cast<float>(0x7F800000u | static_cast<std::uint32_t>(r & 0x80000000)); break;
      case 3: values[i] = std::bit_cast<float>(0x7FC00001u | static_cast<std::uint32_t>(r & 0x80000000)); break;
      case 4: values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(r & 0x807FFFFF)); break;
      default: break;
    }
  }
  return values;
}

}  // namespace test
