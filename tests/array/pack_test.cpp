// Are codes packed low bits first, without gaps, and do they come back?
#include "narrow/array/pack.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "narrow/base/error.hpp"
#include "support/inputs.hpp"

using Bytes = std::vector<std::uint8_t>;

namespace {

Bytes packed(const Bytes& codes, int bits) {
  Bytes out(narrow::packed_size(codes.size(), bits), 0xAA);
  narrow::pack_codes(codes, bits, out);
  return out;
}

Bytes unpacked(const Bytes& bytes, int bits, std::size_t count) {
  Bytes out(count, 0xAA);
  narrow::unpack_codes(bytes, bits, out);
  return out;
}

// Bit b of code i is bit i * bits + b of the whole, bit 0 the lowest of the first byte.
Bytes by_definition(const Bytes& codes, int bits) {
  Bytes out((codes.size() * static_cast<std::size_t>(bits) + 7) / 8);
  for (std::size_t i = 0; i < codes.size(); ++i)
    for (std::size_t b = 0; b < static_cast<std::size_t>(bits); ++b) {
      const std::size_t at = i * static_cast<std::size_t>(bits) + b;
      const int bit = (codes[i] >> b & 1) << (at % 8);
      out[at / 8] = static_cast<std::uint8_t>(out[at / 8] | bit);
    }
  return out;
}

}  // namespace

TEST_CASE("array: two codes of four bits share a byte and the first has the low half") {
  CHECK(packed({0x1, 0x2, 0xF, 0x0, 0x7}, 4) == Bytes{0x21, 0x0F, 0x07});
  CHECK(unpacked({0x21, 0x0F, 0xF7}, 4, 5) == Bytes{0x1, 0x2, 0xF, 0x0, 0x7});
}

TEST_CASE("array: four codes of six bits fill three bytes from the low bits up") {
  // 000001 | 100000 << 6 | 111111 << 12 | 000010 << 18 = 0x0BF801
  CHECK(packed({0x01, 0x20, 0x3F, 0x02}, 6) == Bytes{0x01, 0xF8, 0x0B});
  CHECK(unpacked({0x01, 0xF8, 0x0B}, 6, 4) == Bytes{0x01, 0x20, 0x3F, 0x02});
  CHECK(packed({0x3F}, 6) == Bytes{0x3F});
  CHECK(packed({0x00, 0x3F}, 6) == Bytes{0xC0, 0x0F});
}

TEST_CASE("array: bits above a code are dropped and unused bits of the last byte are zero") {
  CHECK(packed({0xF1, 0xF2, 0xFF}, 4) == Bytes{0x21, 0x0F});
  CHECK(packed({0xFF}, 1) == Bytes{0x01});
}

TEST_CASE("array: codes of any number of bits and any length are packed by the definition and come back") {
  for (int bits = 1; bits <= 8; ++bits)
    for (std::size_t count = 0; count <= 67; ++count) {
      CAPTURE(bits);
      CAPTURE(count);
      Bytes codes(count), kept(count);
      for (std::size_t i = 0; i < count; ++i) {
        codes[i] = static_cast<std::uint8_t>(test::mix(i + count));
        kept[i] = static_cast<std::uint8_t>(codes[i] & oracle::ones(bits));
      }
      CHECK(packed(codes, bits) == by_definition(codes, bits));
      CHECK(unpacked(packed(codes, bits), bits, count) == kept);
    }
}

TEST_CASE("array: packed_size is the number of bits rounded up to bytes") {
  CHECK(narrow::packed_size(0, 4) == 0);
  CHECK(narrow::packed_size(3, 4) == 2);
  CHECK(narrow::packed_size(5, 6) == 4);
  for (std::size_t bits = 1; bits <= 8; ++bits)
    for (std::size_t n = 0; n < 100; ++n) CHECK(narrow::packed_size(n, static_cast<int>(bits)) == (n * bits + 7) / 8);
  CHECK(narrow::packed_size(~std::size_t{0} / 8, 6) == ~std::size_t{0} / 64 * 6 + 6);  // no overflow on the way
}

TEST_CASE("array: packing refuses impossible bit counts and wrong sizes") {
  Bytes codes(4), out(3), wrong(2);
  CHECK_THROWS_AS(narrow::pack_codes(codes, 6, wrong), narrow::Error);
  CHECK_THROWS_AS(narrow::unpack_codes(wrong, 6, codes), narrow::Error);
  for (const int bits : {-1, 0, 9}) {
    CHECK_THROWS_AS(narrow::pack_codes(codes, bits, out), narrow::Error);
    CHECK_THROWS_AS(narrow::unpack_codes(out, bits, codes), narrow::Error);
  }
}
