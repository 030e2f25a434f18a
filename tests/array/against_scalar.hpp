// Holds round_array and encode_array against the scalar functions, bit by bit, for every type of codes that fits.
#pragma once

#include <array>
#include <cstring>
#include <span>

#include "array/inputs.hpp"
#include "narrow/array/array.hpp"
#include "narrow/base/random.hpp"

namespace test {

// Elements with `offset` others before them and one after, which nobody may write.
template <class T>
class Guarded {
 public:
  Guarded(std::size_t size, std::size_t offset) : offset_(offset), all_(size + offset + 1, guard()) {}
  std::span<T> span() { return {all_.data() + offset_, all_.size() - offset_ - 1}; }
  bool intact() const {
    for (std::size_t i = 0; i < offset_; ++i)
      if (!is_guard(all_[i])) return false;
    return is_guard(all_.back());
  }

 private:
  static T guard() { return static_cast<T>(77); }
  static bool is_guard(T x) { return std::memcmp(&x, std::array{guard()}.data(), sizeof x) == 0; }
  std::size_t offset_;
  std::vector<T> all_;
};

struct Request {
  std::string name;
  narrow::Format format;
  narrow::Cast cast = {};
  std::uint64_t seed = 0;
  std::size_t offset = 0;  // elements between the start of the memory and the spans
  int threads = 1;
};

template <class T>
struct Expected {
  std::vector<narrow::Code> codes;
  std::vector<T> values;
};

template <class T>
Expected<T> by_scalar(std::span<const T> in, const Request& r) {
  Expected<T> e{std::vector<narrow::Code>(in.size()), std::vector<T>(in.size())};
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool stochastic = r.cast.rounding == narrow::Rounding::stochastic;
    const std::uint64_t random = stochastic ? narrow::random_bits(r.seed, i) : 0;
    e.codes[i] = narrow::encode(in[i], r.format, r.cast, random);
    e.values[i] = narrow::round_to(in[i], r.format, r.cast, random);
  }
  return e;
}

template <class T>
std::string describe(const Request& r, std::size_t i, std::size_t size, T x) {
  return r.name + " [" + describe(r.cast) + "] element " + std::to_string(i) + " of " + std::to_string(size) +
         " at offset " + std::to_string(r.offset) + ": " + hex_float(static_cast<double>(x)) + " (bits " +
         hex(bits(x)) + ")";
}

template <class T>
void compare_values(std::span<const T> in, std::span<const T> want, std::span<const T> got, const char* what,
                    const Request& r, Mismatches& wrong) {
  for (std::size_t i = 0; i < in.size(); ++i)
    if (bits(want[i]) != bits(got[i]))
      wrong.add([&] {
        return describe(r, i, in.size(), in[i]) + " scalar " + hex(bits(want[i])) + ", " + what + " " +
               hex(bits(got[i]));
      });
}

template <class Out, class T>
void compare_codes(std::span<const T> in, const Expected<T>& e, const Request& r, Mismatches& wrong) {
  if (r.format.width() > static_cast<int>(8 * sizeof(Out))) return;
  Guarded<Out> out(in.size(), r.offset);
  narrow::encode_array(in, r.format, r.cast, out.span(), r.seed, r.threads);
  for (std::size_t i = 0; i < in.size(); ++i)
    if (e.codes[i] != out.span()[i])
      wrong.add([&] {
        return describe(r, i, in.size(), in[i]) + " scalar " + hex(e.codes[i]) + ", encode_array to " +
               std::to_string(8 * sizeof(Out)) + " bits " + hex(out.span()[i]);
      });
  if (!out.intact()) wrong.add([&] { return r.name + ": encode_array wrote outside its span"; });
}

template <class T>
void compare_with_scalar(std::span<const T> data, const Request& r, Mismatches& wrong) {
  Guarded<T> in(data.size(), r.offset), out(data.size(), (r.offset + 1) % 4);
  std::copy(data.begin(), data.end(), in.span().begin());
  const std::span<const T> source = in.span();
  const Expected<T> e = by_scalar(source, r);
  compare_codes<std::uint8_t>(source, e, r, wrong);
  compare_codes<std::uint16_t>(source, e, r, wrong);
  compare_codes<std::uint32_t>(source, e, r, wrong);
  compare_codes<std::uint64_t>(source, e, r, wrong);
  narrow::round_array(source, out.span(), r.format, r.cast, r.seed, r.threads);
  compare_values<T>(source, e.values, out.span(), "round_array", r, wrong);
  narrow::round_array(source, in.span(), r.format, r.cast, r.seed, r.threads);
  compare_values<T>(data, e.values, in.span(), "round_array in place", r, wrong);
  if (!out.intact() || !in.intact()) wrong.add([&] { return r.name + ": round_array wrote outside its span"; });
}

}  // namespace test
