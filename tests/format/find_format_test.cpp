// Which names stand for formats: rows, aliases, and the grammar eXmY with its endings and bias.
#include "narrow/format/find_format.hpp"

#include <doctest/doctest.h>

#include <string>

using narrow::find_format;
using narrow::Format;
using narrow::Specials;
using narrow::operator""_fmt;

TEST_CASE("format: the aliases that the design promises are known") {
  CHECK(find_format("float16") == find_format("fp16"));
  CHECK(find_format("half") == find_format("fp16"));
  CHECK(find_format("bfloat16") == find_format("bf16"));
  CHECK(find_format("e4m3fn") == find_format("e4m3"));
  CHECK(find_format("float8_e4m3fn") == find_format("e4m3"));
}

TEST_CASE("format: names that stand for no format find none") {
  for (const char* name :
       {"",      "fp8",   "FP8",     "e",         "e4",     "m3",      "4m3",    "e4m",    "em3",
        "e04m3", "e4m03", "e12m3",   "e4m53",     "e1m3",   "e1m3fn",  "e2m0",   "e2m0fn", "e0m3",
        "e0m3f", "e4m3x", "e4m3f n", " e4m3",     "e4m3 ",  "e4m3fnn", "e4m3ff", "e100m3", "e4m100",
        "e-4m3", "e+4m3", "e4m3.",   "fp16 half", "binary", "e4m3uz",  "uint7",  "nan",    "e99999999999999999999m3",
        "e4m-3"})
    CHECK_MESSAGE(!find_format(name).has_value(), name);
}

TEST_CASE("format: eXmY is IEEE-like with bias 2^(X-1) - 1 wherever no row has that name") {
  for (int x = 2; x <= 11; ++x)
    for (int y = 1; y <= 52; ++y) {
      const std::string name = "e" + std::to_string(x) + "m" + std::to_string(y);
      CAPTURE(name);
      if (narrow::find_row(name) != nullptr) continue;
      const auto f = find_format(name);
      REQUIRE(f.has_value());
      CHECK(*f == Format{x, y, (1 << (x - 1)) - 1, Specials::inf_and_nan});
      CHECK(f->width() == 1 + x + y);
    }
}

TEST_CASE("format: eXmYfn has one NaN per sign and no Inf") {
  CHECK(find_format("e5m2fn") == Format{5, 2, 15, Specials::nan_only});
  CHECK(find_format("e4m3fn") == Format{4, 3, 7, Specials::nan_only});
  CHECK(find_format("E8M23FN") == Format{8, 23, 127, Specials::nan_only});
}

TEST_CASE("format: eXmYf has no specials and may lack a mantissa or have one exponent bit") {
  CHECK(find_format("e2m3f") == find_format("e2m3"));
  CHECK(find_format("e3m0f") == Format{3, 0, 3, Specials::none});
  CHECK(find_format("e1m2f") == Format{1, 2, 0, Specials::none});
  CHECK(find_format("e1m0f") == Format{1, 0, 0, Specials::none});
}

TEST_CASE("format: eXmYfnuz has one NaN, in place of -0, and a bias of one more") {
  CHECK(find_format("e4m3fnuz") == Format{4, 3, 8, Specials::nan_is_negative_zero});
  CHECK(find_format("e3m2fnuz") == Format{3, 2, 4, Specials::nan_is_negative_zero});
  CHECK(find_format("e5m10FNUZ") == Format{5, 10, 16, Specials::nan_is_negative_zero});
  CHECK_FALSE(find_format("e1m2fnuz").has_value());
}

TEST_CASE("format: a bias stands before the ending") {
  CHECK(find_format("e4m3b9fn") == Format{4, 3, 9, Specials::nan_only});
  CHECK(find_format("e4m3b11fnuz") == Format{4, 3, 11, Specials::nan_is_negative_zero});
  CHECK(find_format("e5m10b0") == Format{5, 10, 0, Specials::inf_and_nan});
  CHECK(find_format("e4m3b7") == find_format("e4m3"));  // the specials of the row that has the bare name
  CHECK(find_format("e2m1b2") == Format{2, 1, 2, Specials::none});
  CHECK(find_format("E2M1B3F") == Format{2, 1, 3, Specials::none});
  CHECK(find_format("e8m7b1023") == Format{8, 7, 1023, Specials::inf_and_nan});
  for (const char* name : {"e4m3b", "e4m3bfn", "e4m3b09fn", "e4m3b-1fn", "e4m3b99999fn", "e4m3b9999fn", "e4m3fnb9"})
    CHECK_MESSAGE(!find_format(name).has_value(), name);
}

TEST_CASE("format: eXmYieee is IEEE-like also where a row has the bare name") {
  CHECK(find_format("e2m3ieee") == narrow::ieee(2, 3));
  CHECK(find_format("e4m3ieee") == narrow::ieee(4, 3));
  CHECK(find_format("e5m10ieee") == find_format("fp16"));
}

TEST_CASE("format: eleven exponent bits without specials leave the range of double and find nothing") {
  // The top binade of such a format is 2^1024, which decode could not return.
  CHECK_FALSE(find_format("e11m52fn").has_value());
  CHECK_FALSE(find_format("e11m2f").has_value());
  CHECK(find_format("e10m2f").has_value());
}

TEST_CASE("format: names that are also rows keep the meaning of the row") {
  CHECK(find_format("e4m3") == Format{4, 3, 7, Specials::nan_only});
  CHECK(find_format("e2m1") == Format{2, 1, 1, Specials::none});
  CHECK(find_format("e8m23") == find_format("fp32"));
  CHECK(find_format("e11m52") == find_format("fp64"));
  CHECK(find_format("e8m10") == find_format("tf32"));
}

TEST_CASE("format: the literal is the same format at compile time") {
  static_assert("fp16"_fmt == narrow::ieee(5, 10));
  static_assert("e6m9"_fmt.width() == 16);
  CHECK("e4m3fnuz"_fmt == find_format("e4m3fnuz"));
}
