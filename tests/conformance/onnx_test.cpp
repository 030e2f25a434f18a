// The tables of ONNX's Cast (docs/Operators.md) as inputs and codes, and what changed between its versions. What its
// reference implementation gives for every input stands in data/conformance.
#include <limits>

#include "conformance/recordings.hpp"

using namespace narrow;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
const float nan = test::from_bits<float>(0x7FC00000), minus_nan = test::from_bits<float>(0xFFC00000);

struct Fp8Row {
  const char* system;
  float input;
  Code e4m3, e4m3fnuz, e5m2, e5m2fnuz;
};

// Largest values: 448, 240, 57344, 57344. Overflow is decided after rounding: 464 is a tie and goes to 448.
// clang-format off: tables
const Fp8Row fp8_rows[] = {
    {"onnx", 0.0f, 0x00, 0x00, 0x00, 0x00},
    {"onnx", -0.0f, 0x80, 0x00, 0x80, 0x00},
    {"onnx", nan, 0x7F, 0x80, 0x7E, 0x80},
    {"onnx", minus_nan, 0xFF, 0x80, 0xFE, 0x80},
    {"onnx", inf, 0x7E, 0x7F, 0x7B, 0x7F},
    {"onnx", -inf, 0xFE, 0xFF, 0xFB, 0xFF},
    {"onnx", 1e6f, 0x7E, 0x7F, 0x7B, 0x7F},
    {"onnx", -1e6f, 0xFE, 0xFF, 0xFB, 0xFF},
    {"onnx", 1.0f, 0x38, 0x40, 0x3C, 0x40},
    {"onnx", -1.1f, 0xB9, 0xC1, 0xBC, 0xC0},
    {"onnx", 464.0f, 0x7E, 0x7F, 0x5F, 0x63},
    {"onnx", 465.0f, 0x7E, 0x7F, 0x5F, 0x63},
    {"onnx", 0x1p-20f, 0x00, 0x00, 0x00, 0x00},
    {"onnx", -0x1p-20f, 0x80, 0x00, 0x80, 0x00},
    {"onnx-nosat", 0.0f, 0x00, 0x00, 0x00, 0x00},
    {"onnx-nosat", -0.0f, 0x80, 0x00, 0x80, 0x00},
    {"onnx-nosat", nan, 0x7F, 0x80, 0x7E, 0x80},
    {"onnx-nosat", minus_nan, 0xFF, 0x80, 0xFE, 0x80},
    {"onnx-nosat", inf, 0x7F, 0x80, 0x7C, 0x80},
    {"onnx-nosat", -inf, 0xFF, 0x80, 0xFC, 0x80},
    {"onnx-nosat", 1e6f, 0x7F, 0x80, 0x7C, 0x80},
    {"onnx-nosat", -1e6f, 0xFF, 0x80, 0xFC, 0x80},
    {"onnx-nosat", 464.0f, 0x7E, 0x80, 0x5F, 0x63},
    {"onnx-nosat", 465.0f, 0x7F, 0x80, 0x5F, 0x63},
    {"onnx-nosat", 0x1p-10f, 0x00, 0x01, 0x14, 0x18},
    {"onnx-nosat", -0x1p-12f, 0x80, 0x00, 0x8C, 0x90},
};
// clang-format on

struct E8m0Row {
  float input;
  Code up, down, nearest, nosat_up, nosat_down, nosat_nearest;
};

// By the exponent field whatever the sign. Inf and NaN are 0xFF; what rounds beyond 0xFE stays there when saturated.
// clang-format off: tables
const E8m0Row e8m0_rows[] = {
    {0.0f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00},       {-0.0f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00},
    {1.0f, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F},       {-1.0f, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F},
    {1.25f, 0x80, 0x7F, 0x7F, 0x80, 0x7F, 0x7F},      {1.5f, 0x80, 0x7F, 0x80, 0x80, 0x7F, 0x80},
    {-1.75f, 0x80, 0x7F, 0x80, 0x80, 0x7F, 0x80},     {0x1p127f, 0xFE, 0xFE, 0xFE, 0xFE, 0xFE, 0xFE},
    {0x1.8p127f, 0xFE, 0xFE, 0xFE, 0xFF, 0xFE, 0xFF}, {0x1.4p127f, 0xFE, 0xFE, 0xFE, 0xFF, 0xFE, 0xFE},
    {inf, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},        {-inf, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
    {nan, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},        {0x1p-149f, 0x01, 0x00, 0x00, 0x01, 0x00, 0x00},
    {0x1p-127f, 0x01, 0x00, 0x00, 0x01, 0x00, 0x00},  {0x1.8p-127f, 0x01, 0x00, 0x01, 0x01, 0x00, 0x01},
    {0x1p-126f, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01},
};
// clang-format on

Code cast_to(float x, const char* system, const Format& f, Rounding rounding = Rounding::nearest_even) {
  return encode(x, f, named_cast(system, f, rounding));
}

}  // namespace

TEST_CASE("conformance: the fp8 tables of ONNX hold") {
  for (const Fp8Row& row : fp8_rows) {
    CAPTURE(row.system);
    CAPTURE(row.input);
    CHECK(cast_to(row.input, row.system, "e4m3"_fmt) == row.e4m3);
    CHECK(cast_to(row.input, row.system, "e4m3fnuz"_fmt) == row.e4m3fnuz);
    CHECK(cast_to(row.input, row.system, "e5m2"_fmt) == row.e5m2);
    CHECK(cast_to(row.input, row.system, "e5m2fnuz"_fmt) == row.e5m2fnuz);
  }
}

TEST_CASE("conformance: the e8m0 rules of ONNX hold in its three round modes") {
  constexpr Format f = "e8m0"_fmt;
  for (const E8m0Row& row : e8m0_rows) {
    CAPTURE(row.input);
    CHECK(cast_to(row.input, "onnx", f, Rounding::up) == row.up);
    CHECK(cast_to(row.input, "onnx", f, Rounding::toward_zero) == row.down);
    CHECK(cast_to(row.input, "onnx", f, Rounding::nearest_even) == row.nearest);
    CHECK(cast_to(row.input, "onnx-nosat", f, Rounding::up) == row.nosat_up);
    CHECK(cast_to(row.input, "onnx-nosat", f, Rounding::toward_zero) == row.nosat_down);
    CHECK(cast_to(row.input, "onnx-nosat", f, Rounding::nearest_even) == row.nosat_nearest);
  }
}

// Until 1.18 the tables (not the reference implementation) made NaN of Inf in the fnuz formats, and the code of e5m2's
// NaN was 0x7F, as onnxruntime has it. Both can still be asked for.
TEST_CASE("conformance: what ONNX said before 1.19 is a cast too") {
  for (const char* name : {"e4m3fnuz", "e5m2fnuz"}) {
    const Format f = find_format(name).value();
    Cast older = named_cast("onnx", f);
    older.overflow = Overflow::saturate_finite;
    CHECK(encode(inf, f, older) == 0x80);
    CHECK(encode(-1e6f, f, older) == 0xFF);
  }
  Cast older = named_cast("onnx", "e5m2"_fmt);
  older.nan = Nan::keep_sign;
  CHECK(encode(minus_nan, "e5m2"_fmt, older) == 0xFF);
}
