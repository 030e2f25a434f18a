#include "program.hpp"

using test::check_refused;
using test::contains;
using test::Json;
using test::narrow_json;

namespace {

std::string times(const std::string& value, int n) {
  std::string list = value;
  for (int i = 1; i < n; ++i) list += "," + value;
  return list;
}

Json dot(const std::string& model, const std::string& a, const std::string& b, const std::string& c = "0") {
  return narrow_json({"dot", "--model", model, "--a=" + a, "--b=" + b, "--c=" + c});
}

struct Probe {
  const char* model;
  std::string a, b, c, code;
};

constexpr const char* fp16 = "hopper.mma.f32.f16.f16.k16";
constexpr const char* fp16_to_fp16 = "hopper.mma.f16.f16.f16.k16";
constexpr const char* bf16 = "hopper.mma.f32.bf16.bf16.k16";
constexpr const char* tf32 = "hopper.mma.f32.tf32.tf32.k8";
constexpr const char* fp8 = "hopper.wgmma.f32.e4m3.e4m3";
constexpr const char* fp8_mma = "hopper.mma.f32.e4m3.e4m3.k32";

}  // namespace

// Each of these was measured on an H200 by hand-made operands.
TEST_CASE("apps: dot gives what the silicon gave to hand-made probes") {
  const std::vector<Probe> probes = {
      // fraction bits kept: 25 for half formats, 13 for FP8
      {fp16, "1,-1,2^-12", "1,1,2^-13", "0", "0x33000000"},
      {fp16, "1,-1,2^-13", "1,1,2^-13", "0", "0x00000000"},
      {fp16, "1,-1", "1,1", "2^-25", "0x33000000"},
      {fp8, "1,-1,2^-6", "1,1,2^-7", "0", "0x39000000"},
      {fp8, "1,-1,2^-7", "1,1,2^-7", "0", "0x00000000"},
      // cut toward zero, not toward minus infinity
      {fp16, "1,-1,-1.5*2^-12", "1,1,2^-13", "0", "0xB3000000"},
      {fp8, "1,-1,-1.5*2^-6", "1,1,2^-7", "0", "0xB9000000"},
      // a product of 2.25 has the exponent 0
      {fp16, "1.5,-1.5,2^-12", "1.5,1.5,2^-13", "0", "0x33000000"},
      // a subnormal factor keeps its raw exponent; a zero product has none
      {fp16, "2^-24,-2^-24,2^-12", "2^15,2^15,2^-12", "0", "0x33800000"},
      {fp16, "2^-24,-2^-24,2^-12", "2^15,2^15,2^-13", "0", "0x00000000"},
      {bf16, "0,2^-12", "2^127,2^-19", "0", "0x30000000"},
      // rounding of the result
      {fp16, "1,2^-12,2^-12", "1,2^-12,2^-13", "0", "0x3F800000"},
      {fp16, "-1,-2^-12,-2^-12", "1,2^-12,2^-13", "0", "0xBF800000"},
      {fp8, "1.5,1.5*2^-6", "1.5,2^-6", "0", "0x40100400"},
      {fp8, "0", "0", "0x3F800001", "0x3F800000"},
      {fp8, "0", "0", "0x7F7FFFFF", "0x7F7FFC00"},
      {fp8, "0", "0", "2^-140", "0x00000000"},
      {fp8, "0", "0", "2^-139", "0x00000400"},
      {fp16_to_fp16, "0.5,0.5,0.5,0.5", "1,1,2^-10,2^-23", "0", "0x3C01"},
      {fp16_to_fp16, "0.25", "32", "65504", "0x7BFF"},
      {fp16_to_fp16, "0.5", "32", "65504", "0x7C00"},
      // the range: overflow, products beyond it, underflow
      {bf16, "0.75*2^127,0.75*2^127", "1,1", "0x7E7FFFFF", "0x7F7FFFFF"},
      {bf16, "1,1", "2^127,2^127", "0", "0x7F800000"},
      {bf16, "2^127,-2^127", "2^127,2^127", "1", "0x00000000"},
      {bf16, "2^127", "2^127", "0", "0x7F800000"},
      {bf16, "-2^-76", "2^-76", "0", "0x00000000"},
      {bf16, "-2^-76", "2^-76", "-0", "0x00000000"},
      // the floor of the largest exponent: -133, and -21 for an FP16 accumulator
      {bf16, "2^-74,-2^-75", "2^-75,2^-83", "0", "0x00000000"},
      {bf16, "2^-74,-2^-75", "2^-75,2^-84", "0", "0x00000001"},
      {fp16_to_fp16, "2^-12,2^-24", "2^-13,2^-22", "0", "0x0001"},
      {fp16_to_fp16, "2^-12,2^-24", "2^-13,2^-23", "0", "0x0000"},
      // NaN has one pattern, and TF32 ignores 13 bits
      {fp16, "1", "1", "0x7FC01234", "0x7FFFFFFF"},
      {fp16, "inf", "0", "0", "0x7FFFFFFF"},
      {fp16, "inf,1", "1,-inf", "0", "0x7FFFFFFF"},
      {fp16_to_fp16, "nan", "1", "0", "0x7FFF"},
      {tf32, "0x7F800001", "1", "0", "0x7F800000"},
      {tf32, "0x7F802000", "1", "0", "0x7FFFFFFF"},
      {tf32, "0x3F801FFF", "1", "0", "0x3F800000"},
      {tf32, "0x1FC00", "1", "0", "0x3F800000"},
      // zeros
      {fp16, "-0,-0", "1,1", "-0", "0x00000000"},
      // many terms: 0x1.07c002p+6 and 0x1.c9f8p+6
      {fp16, times("0x3FFF", 16), times("0x3FFF", 16), "0x3FFFFFFF", "0x4283E001"},
      {fp8, times("1.875", 32), times("1.875", 32), "0x3FFFFFFF", "0x42E4FC00"},
      // FP8 mma.sync is two steps by k mod 4 and an IEEE addition of c
      {fp8_mma, "128,-128,2^-7", "128,128,2^-7", "0", "0x38800000"},
      {fp8_mma, "128,0,-128", "128,0,128", "2^-20", "0x35800000"},
      {fp8_mma, "0", "0", "0x3F800001", "0x3F800001"},
  };
  for (const Probe& probe : probes) {
    CAPTURE(probe.model);
    CAPTURE(probe.a);
    CAPTURE(probe.b);
    CAPTURE(probe.c);
    CHECK(dot(probe.model, probe.a, probe.b, probe.c)["result"]["code"] == probe.code);
  }
}

TEST_CASE("apps: dot tells every step in JSON") {
  const Json out = dot(fp16, "1,-1,1.5*2^-12", "1,1,2^-13");
  CHECK(out["model"] == fp16);
  CHECK(out["a"].size() == 3);
  CHECK(out["a"][0]["code"] == "0x3C00");
  CHECK(out["c"]["value"] == "0");
  REQUIRE(out["steps"].size() == 1);
  const Json& step = out["steps"][0];
  CHECK(step["largest_exponent"] == 0);
  CHECK(step["quantum_exponent"] == -25);
  REQUIRE(step["terms"].size() == 3);
  CHECK(step["terms"][2]["term"] == "k 2");
  CHECK(step["terms"][2]["exponent"] == -25);
  CHECK(step["terms"][2]["kept"] == 1);
  CHECK(step["terms"][0]["kept"] == 1 << 25);
  CHECK(step["sum"] == 1);
  CHECK(out["result"]["hex_float"] == "0x1p-25");
  CHECK(out["exact"]["unrounded"] == "3*2^-26");
  CHECK(out["exact"]["code"] == "0x33400000");
  CHECK(out["error_ulp"] == -4194304.0);  // half of 2^-25 in quanta of 2^-48
}

TEST_CASE("apps: a value that the format cannot hold is rounded and the output says so") {
  const Json out = dot(fp16, "0.1,1", "1,1", "0.3");
  CHECK(out["a"][0]["rounded"] == true);
  CHECK(out["a"][0]["value"] == "0.0999755859375");
  CHECK(out["a"][1]["rounded"] == false);
  CHECK(out["c"]["rounded"] == true);
  const std::string text = test::narrow({"dot", "--model", fp16, "--a", "0.1,1", "--b", "1,1"}).out;
  CHECK(contains(text, "note: a[0] = 0.1 became 0.0999755859375 in fp16"));
  CHECK(!contains(text, "a[1]"));
}

TEST_CASE("apps: dot draws the bits under each other with the cut marked") {
  const test::Ran ran = test::narrow({"dot", "--model", fp8, "--a", "1,-1,1.5*2^-6", "--b", "1,1,2^-7"});
  CHECK(ran.status == 0);
  CHECK(contains(ran.out,
                 "\n    k 0  +  10000000000000|\n"
                 "    k 1  -  10000000000000|\n"
                 "    k 2  +  .............1|1  cut 2^-14\n"
                 "         -----------------\n"
                 "    sum  +  .............1|   cut in all 2^-14\n"));
  CHECK(contains(ran.out, "largest exponent 0 (k 0, k 1)"));
  CHECK(contains(ran.out, "29 more of the step are zero products"));
  CHECK(contains(ran.out, "error     -2^-14"));
  CHECK(!contains(ran.out, "\033"));
}

TEST_CASE("apps: dot uses colour on a terminal unless told not to") {
  test::RunOptions terminal;
  terminal.output = test::RunOptions::Output::terminal;
  const std::vector<std::string> words{"dot", "--model", fp8, "--a", "1,0.01", "--b", "1,1"};
  CHECK(contains(test::narrow(words, terminal).out, "\033["));
  terminal.environment = {{"NO_COLOR", "1"}};
  CHECK(!contains(test::narrow(words, terminal).out, "\033["));
}

TEST_CASE("apps: longer dot products are chained steps and composed models show their stages") {
  const std::string ones = times("1", 16);
  const Json chained = dot("ampere.mma.f32.f16.f16.k16", ones, ones);
  CHECK(chained["steps"].size() == 2);
  CHECK(chained["steps"][0]["result"]["value"] == "8");
  CHECK(chained["steps"][1]["stage"] == "step 2 of 2, k 8..15");
  CHECK(chained["result"]["value"] == "16");
  const Json composed = dot(fp8_mma, "1,2,3,4", "1,1,1,1", "0.5");
  REQUIRE(composed["steps"].size() == 3);
  CHECK(composed["steps"][0]["result"]["value"] == "3");
  CHECK(composed["steps"][1]["result"]["value"] == "10");
  CHECK(composed["steps"][2]["operations"][0]["result"]["value"] == "10.5");
  CHECK(dot("software.fma.f32.f16.f16", "1,2", "3,4", "5")["steps"][0]["operations"].size() == 2);
  CHECK(dot("software.kahan.f32.f16.f16", "1,2", "3,4", "5")["result"]["value"] == "16");
  CHECK(dot("software.pairwise.f32.f16.f16", "1,2,3", "1,1,1")["result"]["value"] == "6");
  CHECK(dot("cdna1.mfma.f32.f16.f16.k16", times("1", 5), times("2", 5))["steps"].size() == 2);
  CHECK(dot("cdna3.mfma.f32.f16.f16.k16", "1.5,-2", "3,1", "2^-30")["result"]["value"] == "2.5");
}

TEST_CASE("apps: integers wrap or saturate") {
  CHECK(dot("hopper.mma.s32.s8.s8.k32", "127,-128", "127,1", "2147483647")["result"]["value"] == "-2147467648");
  CHECK(dot("hopper.mma.s32.s8.s8.k32.satfinite", "127,-128", "127,1", "2147483647")["result"]["value"] ==
        "2147483647");
  CHECK(dot("hopper.mma.s32.u8.s8.k32", "255,255", "-1,-128", "0")["result"]["value"] == "-32895");
  CHECK(dot("hopper.mma.s32.s8.s8.k32", "1000", "1")["a"][0]["rounded"] == true);
}

TEST_CASE("apps: block scales multiply their products and not c") {
  const std::string mx = "blackwell.tcgen05.f32.e4m3.e4m3.mxf8f6f4", nv = "blackwell.tcgen05.f32.e2m1.e2m1.nvf4";
  const auto scaled = [](const std::string& model, const std::string& sa, const std::string& sb) {
    return narrow_json({"dot", "--model", model, "--a", "1,2", "--b", "3,4", "--c", "0.5", "--scale-a", sa, "--scale-b",
                        sb})["result"]["value"];
  };
  CHECK(scaled(mx, "1", "1") == "11.5");
  CHECK(scaled(mx, "4", "2^-1") == "22.5");
  CHECK(scaled(nv, "1.5", "3") == "50");
  const std::string halves = times("1", 32);
  CHECK(narrow_json({"dot", "--model", nv, "--a", halves, "--b", halves, "--scale-a", "2,8", "--scale-b",
                     "1"})["result"]["value"] == "160");
  check_refused({"dot", "--model", nv, "--a", halves, "--b", halves, "--scale-a", "1,2,3"}, {"--scale-a", "need 2"});
  check_refused({"dot", "--model", fp16, "--a", "1", "--b", "1", "--scale-a", "1"},
                {"--scale-a", "takes no block scales"});
}

TEST_CASE("apps: dot refuses what it cannot read") {
  check_refused({"dot"}, {"--model is missing"});
  check_refused({"dot", "--model", "hopper.mma.f32.f16.f16.k61", "--a", "1", "--b", "1"},
                {"--model", "did you mean 'hopper.mma.f32.f16.f16.k16'"});
  check_refused({"dot", "--model", "hopper.wgmma", "--a", "1", "--b", "1"}, {"--model", "names begin so"});
  check_refused({"dot", "--model", fp16, "--b", "1"}, {"--a is missing"});
  check_refused({"dot", "--model", fp16, "--a", "1"}, {"--b is missing"});
  check_refused({"dot", "--model", fp16, "--a", "1,2", "--b", "1"}, {"--a has 2", "--b has 1"});
  check_refused({"dot", "--model", fp16, "--a", "", "--b", "1"}, {"--a", "empty"});
  check_refused({"dot", "--model", fp16, "--a", "1,,2", "--b", "1,2,3"}, {"--a", "empty value"});
  check_refused({"dot", "--model", fp16, "--a", "one", "--b", "1"}, {"--a", "'one'"});
  check_refused({"dot", "--model", fp16, "--a", "3^2", "--b", "1"}, {"--a", "'3^2'"});
  check_refused({"dot", "--model", fp16, "--a", "2^x", "--b", "1"}, {"--a", "'2^x'"});
  check_refused({"dot", "--model", fp16, "--a", "2^99999999999", "--b", "1"}, {"--a", "4000"});
  check_refused({"dot", "--model", fp16, "--a", "0x12345", "--b", "1"}, {"--a", "'0x12345'"});
  check_refused({"dot", "--model", fp8, "--a", "inf", "--b", "1"}, {"--a", "no Inf"});
  check_refused({"dot", "--model", "hopper.mma.s32.u8.s8.k32", "--a", "-1", "--b", "1"}, {"--a", "negative"});
  check_refused({"dot", "--model", fp16, "--a", "1", "--b", "1", "--c", "x"}, {"--c", "'x'"});
}
