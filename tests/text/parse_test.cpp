#include <doctest/doctest.h>

#include "narrow/format/find_format.hpp"
#include "narrow/text/text.hpp"
#include "support/contains.hpp"

using namespace narrow;

namespace {

std::string error_of(std::string_view text, const Format& f) {
  return test::error_of([&] { parse_code(text, f); });
}

}  // namespace

TEST_CASE("text: codes are read in three bases") {
  const Format fp16 = "fp16"_fmt, fp64 = "fp64"_fmt;
  CHECK(parse_code("0x2E66", fp16) == 0x2E66);
  CHECK(parse_code(" 0X2e66 ", fp16) == 0x2E66);
  CHECK(parse_code("0b101", fp16) == 5);
  CHECK(parse_code("65535", fp16) == 65535);
  CHECK(parse_code("0x" + std::string(1000, '0') + "1", fp16) == 1);
  CHECK(parse_code("0xFFFFFFFFFFFFFFFF", fp64) == ~0ull);
  CHECK(parse_code("18446744073709551615", fp64) == ~0ull);
  CHECK(parse_code("3", *find_format("e1m0f")) == 3);
}

TEST_CASE("text: what is no code is an error that shows the range") {
  const Format fp16 = "fp16"_fmt, fp64 = "fp64"_fmt;
  for (const char* text : {"", "0x", "-1", "+1", "1.5", "0b2", "0xG", "x", "1_0", "inf"}) {
    CAPTURE(text);
    CHECK(error_of(text, fp16) ==
          "'" + std::string(text) + "' is not a code; accepted: 0x2E66, 0b101, 77, from 0x0000 to 0xFFFF");
  }
  CHECK(error_of("0x10000", fp16) == "'0x10000' is no code of 16 bits; accepted: 0x0000 to 0xFFFF");
  CHECK(error_of("65536", fp16) == "'65536' is no code of 16 bits; accepted: 0x0000 to 0xFFFF");
  CHECK(error_of("0x80000", "tf32"_fmt) == "'0x80000' is no code of 19 bits; accepted: 0x00000 to 0x7FFFF");
  CHECK(error_of("18446744073709551616", fp64).find("is no code of 64 bits") != std::string::npos);
  CHECK(error_of("0x10000000000000000", fp64).find("is no code of 64 bits") != std::string::npos);
  CHECK(error_of(std::string(1000000, '9'), fp64).find("is no code of 64 bits") != std::string::npos);
  CHECK(error_of("9", *find_format("e1m0f")) == "'9' is no code of 2 bits; accepted: 0x0 to 0x3");
}
