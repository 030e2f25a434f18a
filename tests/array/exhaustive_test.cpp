// Do arrays of all 2^32 floats get the bits of the scalar functions?
#include <doctest/doctest.h>

#include <chrono>
#include <type_traits>

#include "array/inputs.hpp"
#include "narrow/array/array.hpp"
#include "narrow/base/parallel.hpp"

using narrow::Code;
using narrow::Format;

namespace {

// The first elements that differ from the scalar function. The format is a template argument, so that its constants
// fold and a float costs a few nanoseconds; values come from a table of decode().
template <Format F, class Out>
[[gnu::flatten, gnu::noinline]] void compare(std::span<const float> in, std::span<const Out> codes,
                                             std::span<const float> values, std::span<const std::uint32_t> decoded,
                                             test::Mismatches& wrong) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Code want = narrow::encode(in[i], F);
    if (want != codes[i] || decoded[want] != test::bits(values[i])) [[unlikely]]
      wrong.add([&] {
        return "bits " + test::hex(test::bits(in[i])) + ": scalar " + test::hex(want) + " " + test::hex(decoded[want]) +
               ", arrays " + test::hex(codes[i]) + " " + test::hex(test::bits(values[i]));
      });
  }
}

// Pieces of 2^16 consecutive words: a piece of ordinary values, of Inf and NaN alone, or of both.
template <Format F>
void sweep(const char* name, int number) {
  using Out = std::conditional_t<F.width() <= 8, std::uint8_t,
                                 std::conditional_t<F.width() <= 16, std::uint16_t, std::uint32_t>>;
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::uint32_t> decoded(std::size_t{1} << F.width());
  for (std::size_t code = 0; code < decoded.size(); ++code)
    decoded[code] = test::bits(static_cast<float>(narrow::decode(code, F)));
  test::Mismatches wrong;
  constexpr std::size_t piece = 1 << 16;
  narrow::parallel_parts(std::size_t{1} << 32, piece, 0, [&](std::size_t begin, std::size_t end) {
    std::vector<float> in(end - begin), values(end - begin);
    std::vector<Out> codes(end - begin);
    for (std::size_t i = begin; i < end; ++i) in[i - begin] = test::from_bits<float>(i);
    narrow::round_array(in, values, F, {}, 0, 1);
    narrow::encode_array(in, F, {}, std::span(codes), 0, 1);
    compare<F, Out>(in, codes, values, decoded, wrong);
  });
  wrong.require_none(name);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("sweep %d/5  %-5s %5.1f s\n", number, name, seconds);
  std::fflush(stdout);
}

}  // namespace

TEST_CASE("array: all 2^32 floats get the bits of the scalar functions") {
  using narrow::operator""_fmt;
  sweep<"fp16"_fmt>("fp16", 1);
  sweep<"bf16"_fmt>("bf16", 2);
  sweep<"tf32"_fmt>("tf32", 3);
  sweep<"e4m3"_fmt>("e4m3", 4);
  sweep<"e5m2"_fmt>("e5m2", 5);
}
