// What every array function does before its loop: check the request, and know how large a part is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "narrow/base/error.hpp"
#include "narrow/format/format.hpp"
#include "narrow/round/cast.hpp"

namespace narrow::detail {

// Parts of 2^16 elements: large enough to hide a thread's start, small enough to balance and to stay in cache.
inline constexpr std::size_t part_size = std::size_t{1} << 16;

inline void check_spans(std::size_t in, std::size_t out, const Format& f) {
  if (in != out)
    throw Error("array of " + std::to_string(in) + " elements into one of " + std::to_string(out) + ": sizes must be equal");
  if (!f.is_valid()) throw Error("array: not a valid format (double must hold every value)");
}

template <class A, class B>
bool lie_apart(std::span<const A> x, std::span<B> y) {
  const auto a = reinterpret_cast<std::uintptr_t>(x.data()), b = reinterpret_cast<std::uintptr_t>(y.data());
  return a + x.size_bytes() <= b || b + y.size_bytes() <= a;
}

// Element i of the output may take the place of element i of the input, where both are as large: any other overlap
// would let what is written be read again, sooner or later as the number of threads has it.
template <class In, class Out>
void check_overlap(std::span<const In> in, std::span<Out> out) {
  const bool same = static_cast<const void*>(in.data()) == static_cast<const void*>(out.data());
  if (!lie_apart(in, out) && !(same && sizeof(In) == sizeof(Out)))
    throw Error("array: input and output overlap; they may be one span of elements of the same size, or lie apart");
}

inline void check_cast(const Cast& cast) {
  if (cast.random_bits < 1 || cast.random_bits > 64)
    throw Error("array: random_bits is " + std::to_string(cast.random_bits) + ": 1 to 64 are possible");
}

inline void check_code_type(const Format& f, std::size_t bytes) {
  if (f.width() > static_cast<int>(8 * bytes))
    throw Error("codes of " + std::to_string(f.width()) + " bits do not fit elements of " + std::to_string(8 * bytes));
}

}  // namespace narrow::detail
