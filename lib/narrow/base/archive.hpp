// Values as bytes and back, for another process of the same program: what is trivially copyable as it lies, strings and
// containers with their length before them, other types by naming their members:
//
//   template <class Archive>
//   void members(Archive& archive, Statistics& s) { archive(s.input, s.formats, s.scale); }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "narrow/base/error.hpp"

namespace narrow {

using Bytes = std::vector<std::byte>;

namespace detail {

template <class T>
inline constexpr bool is_container = false;
template <class T>
inline constexpr bool is_container<std::vector<T>> = true;
template <>
inline constexpr bool is_container<std::string> = true;

}  // namespace detail

class ByteWriter {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  Bytes take() { return std::move(bytes_); }

 private:
  void raw(const void* from, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  template <class T>
  void put(const T& x) {
    if constexpr (detail::is_container<T>) {
      put(std::uint64_t{x.size()});
      if constexpr (std::is_trivially_copyable_v<typename T::value_type>) {
        raw(x.data(), x.size() * sizeof(typename T::value_type));
      } else {
        for (const auto& element : x) put(element);
      }
    } else if constexpr (std::is_trivially_copyable_v<T>) {
      raw(&x, sizeof x);
    } else {
      members(*this, const_cast<T&>(x));  // one list of members for both directions; this one only reads
    }
  }
  template <class T>
  void put(const std::optional<T>& x) {
    put(x.has_value());
    if (x) put(*x);
  }
  template <class K, class V>
  void put(const std::map<K, V>& x) {
    put(std::uint64_t{x.size()});
    for (const auto& [key, value] : x) put(key), put(value);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& x) {
    put(x.first), put(x.second);
  }
  template <class... T>
  void put(const std::variant<T...>& x) {
    put(std::uint64_t{x.index()});
    std::visit([&](const auto& held) { put(held); }, x);
  }

  Bytes bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  bool is_at_end() const { return bytes_.empty(); }

 private:
  // Empty values have no address to copy to.
  void raw(void* to, std::size_t size) {
    if (size > bytes_.size()) throw Error("an archive of values ends too early");
    if (size != 0) std::memcpy(to, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
  }
  std::size_t length() {
    std::uint64_t size = 0;
    get(size);
    if (size > bytes_.size()) throw Error("an archive of values ends too early");  // nothing takes less than a byte
    return static_cast<std::size_t>(size);
  }
  template <class T>
  void get(T& x) {
    if constexpr (detail::is_container<T>) {
      x.resize(length());
      if constexpr (std::is_trivially_copyable_v<typename T::value_type>) {
        raw(x.data(), x.size() * sizeof(typename T::value_type));
      } else {
        for (auto& element : x) get(element);
      }
    } else if constexpr (std::is_trivially_copyable_v<T>) {
      raw(&x, sizeof x);
    } else {
      members(*this, x);
    }
  }
  template <class T>
  void get(std::optional<T>& x) {
    bool has = false;
    get(has);
    if (has) get(x.emplace());
    else x.reset();
  }
  template <class K, class V>
  void get(std::map<K, V>& x) {
    x.clear();
    for (std::size_t n = length(); n > 0; --n) {
      K key{};
      get(key), get(x[key]);
    }
  }
  template <class A, class B>
  void get(std::pair<A, B>& x) {
    get(x.first), get(x.second);
  }
  template <class... T>
  void get(std::variant<T...>& x) {
    std::uint64_t index = 0;
    get(index);
    if (index >= sizeof...(T)) throw Error("an archive of values names a kind that there is not");
    const auto take = [&]<std::size_t... k>(std::index_sequence<k...>) {
      ((k == index ? get(x.template emplace<k>()) : void()), ...);
    };
    take(std::index_sequence_for<T...>());
  }

  std::span<const std::byte> bytes_;
};

template <class T>
Bytes to_bytes(const T& x) {
  ByteWriter out;
  out(x);
  return out.take();
}

template <class T>
T from_bytes(std::span<const std::byte> bytes) {
  T x{};
  ByteReader in(bytes);
  in(x);
  if (!in.is_at_end()) throw Error("an archive of values has more than it should");
  return x;
}

}  // namespace narrow
