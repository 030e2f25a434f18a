#include "program.hpp"

using test::check_refused;
using test::contains;
using test::Json;
using test::narrow_json;

namespace {

Json show(const std::string& value, const std::string& format, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"show", value, "--formats", format});
  const Json rows = narrow_json(more);
  REQUIRE(rows.size() == 1);
  return rows[0];
}

}  // namespace

TEST_CASE("apps: show gives the promised keys with the right values") {
  const Json rows = narrow_json({"show", "0.1", "--formats", "fp16,bf16,e4m3,e5m2"});
  REQUIRE(rows.size() == 4);
  const Json& fp16 = rows[0];
  CHECK(fp16["input"] == "0.1");
  CHECK(fp16["format"] == "fp16");
  CHECK(fp16["code"] == "0x2E66");
  CHECK(fp16["value"] == "0.0999755859375");
  CHECK(fp16["hex_float"] == "0x1.998p-4");
  CHECK(fp16["error_ulp"].get<double>() == doctest::Approx(-0.4));
  CHECK(fp16["class"] == "normal");
  CHECK(fp16["below"] == 0.09991455078125);
  CHECK(fp16["above"] == 0.10003662109375);
  CHECK(fp16["fields"] == "0 01011 1001100110");
  CHECK(rows[1]["code"] == "0x3DCD");
  CHECK(rows[2]["code"] == "0x1D");
  CHECK(rows[3]["code"] == "0x2E");
}

TEST_CASE("apps: show takes every format when none is named") {
  CHECK(narrow_json({"show", "0.1"}).size() == 20);
  CHECK(narrow_json({"show", "0.1", "--formats", "all"}).size() == 20);
  CHECK(narrow_json({"show", "1", "2", "--formats", " fp16 , half,bf16"}).size() == 4);
  CHECK(show("1", "tf32")["code"] == "0x1FC00");
  CHECK(show("1", "E5M10")["format"] == "e5m10");
}

TEST_CASE("apps: negative numbers are values and not flags") {
  CHECK(show("-0.1", "fp16")["code"] == "0xAE66");
  CHECK(show("-.5", "fp16")["code"] == "0xB800");
  CHECK(show("-1e-7", "fp16")["value"] == "-0.00000011920928955078125");
  CHECK(show("-inf", "fp16")["value"] == "-inf");
  CHECK(show("-Infinity", "fp16")["code"] == "0xFC00");
  CHECK(show("-0", "fp16")["code"] == "0x8000");
  CHECK(show("-0x1.8p-3", "fp16")["code"] == "0xB200");
  CHECK(show("-nan", "fp16")["class"] == "nan");
  CHECK(test::narrow({"show", "--formats", "fp16", "--", "-0.1"}).out.rfind("-0.1\n", 0) == 0);
  CHECK(narrow_json({"show", "--formats", "fp16", "-1", "2", "-3"}).size() == 3);
}

TEST_CASE("apps: what JSON cannot hold is a string and what is not there is null") {
  const Json top = show("65504", "fp16");
  CHECK(top["above"] == "inf");
  CHECK(top["below"] == 65472.0);
  const Json inf = show("1e6", "fp16");
  CHECK(inf["class"] == "inf");
  CHECK(inf["value"] == "inf");
  CHECK(inf["error_ulp"] == "inf");
  CHECK(inf["above"].is_null());
  CHECK(inf["below"] == 65504.0);
  const Json nan = show("nan", "e4m3");
  CHECK(nan["error_ulp"].is_null());
  CHECK(nan["above"].is_null());
  CHECK(nan["below"].is_null());
  CHECK(show("448", "e4m3")["above"].is_null());
}

TEST_CASE("apps: 465 in e4m3 depends on who casts") {
  CHECK(show("465", "e4m3", {"--cast", "torch"})["class"] == "nan");
  CHECK(show("465", "e4m3", {"--cast", "torch", "--overflow", "saturate"})["value"] == "448");
  CHECK(show("465", "e4m3", {"--overflow", "saturate"})["value"] == "448");
  CHECK(show("465", "e4m3", {"--cast", "cuda"})["value"] == "448");
  CHECK(show("465", "e4m3", {"--rounding", "toward_zero"})["value"] == "448");
  CHECK(show("464", "e4m3")["value"] == "448");  // a tie: 480 would be odd, and does not exist
}

TEST_CASE("apps: rounding and subnormals are obeyed") {
  CHECK(show("0.1", "fp16", {"--rounding", "up"})["code"] == "0x2E67");
  CHECK(show("-0.1", "fp16", {"--rounding", "up"})["code"] == "0xAE66");
  CHECK(show("1e-7", "fp16")["class"] == "subnormal");
  CHECK(show("1e-7", "fp16", {"--subnormals", "flush_results"})["class"] == "zero");
  // 0.1 = 0x2E66 + 0.6 quanta: up when the random bits are at least 0.4 of their range
  CHECK(show("0.1", "fp16", {"--rounding", "stochastic"})["code"] == "0x2E66");
  CHECK(show("0.1", "fp16", {"--rounding", "stochastic", "--random", "0xFFFFFFFF"})["code"] == "0x2E67");
  CHECK(show("0.1", "fp16", {"--rounding", "stochastic", "--random", "1", "--random-bits", "1"})["code"] == "0x2E66");
}

TEST_CASE("apps: a decimal of any length is rounded once") {
  // Just above the tie between 1 and 1 + 2^-10, by less than a double can hold.
  const std::string tie = "1.00048828125";
  CHECK(show(tie, "fp16")["code"] == "0x3C00");
  CHECK(show(tie + std::string(100000, '0') + "1", "fp16")["code"] == "0x3C01");
  CHECK(show("1e999999999999", "fp16")["value"] == "inf");
  CHECK(show("1e-999999999999", "fp16", {"--rounding", "up"})["code"] == "0x0001");
}

TEST_CASE("apps: with --from a value is a code") {
  CHECK(show("0x2E66", "fp16", {"--from", "fp16"})["value"] == "0.0999755859375");
  CHECK(show("0x2E66", "e4m3", {"--from", "fp16"})["code"] == "0x1D");
  CHECK(show("31", "fp16", {"--from", "e4m3"})["value"] == "0.1171875");
  CHECK(show("0x7D", "e5m2", {"--from", "e5m2"})["code"] == "0x7D");  // an uncommon NaN is shown as it is
  CHECK(show("0x80", "fp16", {"--from", "e4m3fnuz"})["class"] == "nan");
  CHECK(show("0x80", "fp16", {"--from", "int8"})["value"] == "-128");
  CHECK(show("0x8000", "bf16", {"--from", "fp16"})["code"] == "0x8000");
  CHECK(show("0xFC00", "fp32", {"--from", "fp16"})["code"] == "0xFF800000");
  CHECK(show("0x0001", "fp32", {"--from", "fp16", "--subnormals", "flush_inputs"})["class"] == "zero");
}

TEST_CASE("apps: formats that a system lacks are left out unless they were named") {
  const test::Ran ran = test::narrow({"show", "1", "--cast", "torch", "--json"});
  CHECK(ran.status == 0);
  CHECK(contains(ran.err, "note"));
  CHECK(contains(ran.err, "e2m1"));
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  CHECK(Json::parse(ran.out).size() > 3);
  check_refused({"show", "1", "--cast", "torch", "--formats", "fp16,e2m1"}, {"torch", "e2m1"});
  check_refused({"show", "1", "--cast", "torch", "--rounding", "up"}, {"torch", "up"});
}

TEST_CASE("apps: show as text has a heading and a line a format") {
  const test::Ran ran = test::narrow({"show", "0.1", "-0.1", "--formats", "fp16,e8m0"});
  CHECK(ran.status == 0);
  CHECK(ran.out.rfind("0.1\n", 0) == 0);
  CHECK(contains(ran.out, "\n\n-0.1\n"));
  CHECK(contains(ran.out, "0x2E66"));
  CHECK(contains(ran.out, "0 01011 1001100110\n"));
  CHECK(!contains(ran.out, " \n"));
  // Exact digits without end are cut, and numbers far from one are marked as shortened.
  CHECK(contains(test::narrow({"show", "0.1", "--formats", "fp64"}).out, "0.10000000000000000555111512312578270..."));
  CHECK(contains(test::narrow({"show", "1e-40", "--formats", "fp32"}).out, "~"));
  // 450 would be the shortest decimal that reads back as 448: not what one wants to read.
  CHECK(contains(test::narrow({"show", "416", "--formats", "e4m3"}).out, " 448 "));
}

TEST_CASE("apps: a narrow terminal cuts only the fields") {
  test::RunOptions terminal;
  terminal.output = test::RunOptions::Output::terminal;
  terminal.environment = {{"NO_COLOR", "1"}};
  const std::string out = test::narrow({"show", "0.1", "--formats", "fp64"}, terminal).out;
  CHECK(contains(out, "0 01111111011 1001"));
  CHECK(contains(out, "..."));
}

TEST_CASE("apps: show refuses what it cannot read") {
  check_refused({"show"}, {"no value", "narrow show 0.1"});
  check_refused({"show", ""}, {"empty value"});
  check_refused({"show", "  "}, {"empty value"});
  check_refused({"show", "abc"}, {"'abc'"});
  check_refused({"show", "1.2.3"}, {"'1.2.3'"});
  check_refused({"show", "-1x"}, {"'-1x'"});
  check_refused({"show", "0x2E66"}, {"--from"});
  check_refused({"show", "1", "--formats", ""}, {"--formats", "empty"});
  check_refused({"show", "1", "--formats", ","}, {"--formats"});
  check_refused({"show", "1", "--formats", "fp16,,bf16"}, {"--formats"});
  check_refused({"show", "1", "--formats", "pf16"}, {"--formats", "'pf16'", "did you mean 'fp16'"});
  check_refused({"show", "1", "--formats", "fp8"}, {"--formats", "e4m3", "e5m2"});
  check_refused({"show", "1", "--from", "fp99"}, {"--from", "fp99"});
  check_refused({"show", "0x1FF", "--from", "e4m3"}, {"0x1FF"});
  check_refused({"show", "-1", "--from", "e4m3"}, {"'-1'"});
  check_refused({"show", "0.1", "--from", "e4m3"}, {"'0.1'"});
  check_refused({"show", "1", "--cast", "tourch"}, {"--cast", "did you mean 'torch'", "onnx-nosat"});
  check_refused({"show", "1", "--rounding", "nearest"}, {"--rounding", "nearest_even"});
  check_refused({"show", "1", "--overflow", "saturat"}, {"--overflow", "did you mean 'saturate'"});
  check_refused({"show", "1", "--subnormals", "flush"}, {"--subnormals", "flush_results"});
  check_refused({"show", "1", "--random", "5"}, {"--random", "stochastic"});
  check_refused({"show", "1", "--rounding", "stochastic", "--random", "-5"}, {"--random", "'-5'"});
  check_refused({"show", "1", "--rounding", "stochastic", "--random-bits", "65"}, {"--random-bits", "1 to 64"});
  check_refused({"show", "1", "--rounding", "stochastic", "--random-bits", "0"}, {"--random-bits", "1 to 64"});
}
