#include "matrices.hpp"

using test::check_refused;
using test::contains;
using test::Folder;
using test::Json;
using test::narrow_json;
using namespace narrow;  // formats by name: "fp16"_fmt

namespace {

constexpr const char* half_model = "hopper.wgmma.f32.f16.f16";

std::string halves(const std::vector<float>& values) {
  std::string data;
  for (const float x : values) data += test::little_endian(encode(x, "fp16"_fmt), 2);
  return data;
}
std::string quoted(std::size_t rows, std::size_t cols) {
  return "(" + std::to_string(rows) + ", " + std::to_string(cols) + ")";
}

Json gemm(std::vector<std::string> words) {
  words.insert(words.begin(), "gemm");
  return narrow_json(words);
}

}  // namespace

TEST_CASE("apps: gemm multiplies small matrices and shows them") {
  const Folder folder;
  const std::string a = folder.write("a.npy", test::npy_of("<f2", "(2, 3)", halves({1, 2, 3, 4, 5, 6})));
  const std::string b = folder.write("b.npy", test::npy_of("<f2", "(3, 2)", halves({1, 0, -1, 0.5f, 2, 0})));
  const std::string c =
      folder.write("c.npy", test::npy_of("<f4", "(2, 2)", test::raw(std::vector<float>{0.25f, 0, 0, 100})));
  const Json d = gemm({"--model", half_model, "--a", a, "--b", b, "--c", c});
  CHECK(d["model"] == half_model);
  CHECK(d["plan"] == "chain");
  CHECK(d["m"] == 2);
  CHECK(d["n"] == 2);
  CHECK(d["k"] == 3);
  CHECK(d["format"] == "fp32");
  CHECK(d["values"] == Json::parse("[[5.25, 1.0], [11.0, 102.5]]"));
  CHECK(d["codes"][1][1] == "0x42CD0000");
  CHECK(d["finite"] == 4);
  CHECK(gemm({"--model", half_model, "--a", a, "--b", b, "--c", c, "--alpha", "2", "--beta", "-1"})["values"] ==
        Json::parse("[[9.75, 2.0], [22.0, -95.0]]"));
  CHECK(gemm({"--model", half_model, "--a", a, "--b", b, "--scale-a", "0.5", "--scale-b", "4"})["values"] ==
        Json::parse("[[10.0, 2.0], [22.0, 5.0]]"));
  CHECK(gemm({"--model", half_model, "--a", a, "--b", b, "--output", "bf16"})["codes"][1][0] == "0x4130");
  const std::string text = test::narrow({"gemm", "--model", half_model, "--a", a, "--b", b}).out;
  CHECK(contains(text, "2x2 = 2x3 * 3x2"));
  CHECK(contains(text, "2.5"));
}

TEST_CASE("apps: Fortran order and transposed files give the same product") {
  const Folder folder;
  const std::string a = folder.write("a.npy", test::npy_of("<f2", "(2, 3)", halves({1, 2, 3, 4, 5, 6})));
  const std::string a_fortran = folder.write("af.npy", test::npy_of("<f2", "(2, 3)", halves({1, 4, 2, 5, 3, 6}), true));
  const std::string a_turned = folder.write("at.npy", test::npy_of("<f2", "(3, 2)", halves({1, 4, 2, 5, 3, 6})));
  const std::string b = folder.write("b.npy", test::npy_of("<f2", "(3, 2)", halves({1, 0, -1, 0.5f, 2, 0})));
  const std::string b_turned = folder.write("bt.npy", test::npy_of("<f2", "(2, 3)", halves({1, -1, 2, 0, 0.5f, 0})));
  const Json d = gemm({"--model", half_model, "--a", a, "--b", b})["values"];
  CHECK(gemm({"--model", half_model, "--a", a_fortran, "--b", b})["values"] == d);
  CHECK(gemm({"--model", half_model, "--a", a_turned, "--transpose-a", "--b", b_turned, "--transpose-b"})["values"] ==
        d);
  check_refused({"gemm", "--model", half_model, "--a", a, "--b", b_turned}, {"2x3", "--transpose-b"});
}

TEST_CASE("apps: gemm writes the type of the result and the same bits with any number of threads") {
  const Folder folder;
  const std::string file =
      folder.write("m.safetensors",
                   test::random_file({{"a", "F8_E4M3", 70, 300, "e4m3"_fmt}, {"b", "F8_E4M3", 300, 33, "e4m3"_fmt}}));
  const auto run = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> words{"gemm",      "--model",     "hopper.wgmma.f32.e4m3.e4m3",
                                   "--plan",    "promote:128", "--a",
                                   file + ":a", "--b",         file + ":b",
                                   "-o",        folder / out};
    words.insert(words.end(), more.begin(), more.end());
    const test::Ran ran = test::narrow(words);
    CHECK(ran.status == 0);
    CHECK(ran.err == "");
    return test::read_file(folder / out);
  };
  const std::string one = run("d1.safetensors", {"--threads", "1"});
  CHECK(one == run("d2.safetensors", {"--threads", "3"}));
  CHECK(test::header_of(one)["D"]["dtype"] == "F32");
  CHECK(test::header_of(one)["D"]["shape"] == Json::parse("[70, 33]"));
  CHECK(test::header_of(run("d3.safetensors", {"--output", "bf16"}))["D"]["dtype"] == "BF16");
  CHECK(test::header_of(run("d4.safetensors", {"--output", "e5m2"}))["D"]["dtype"] == "F8_E5M2");
  CHECK(contains(run("d5.npy", {}), "'descr': '<f4'"));
  CHECK(test::data_of(one) == run("d6.npy", {}).substr(run("d6.npy", {}).size() - 70 * 33 * 4));
  CHECK(contains(run("d7.npy", {"--output", "fp16"}), "'descr': '<f2'"));
}

TEST_CASE("apps: gemm tells how far the product is from the exact one") {
  const Folder folder;
  const std::string file =
      folder.write("m.safetensors",
                   test::random_file({{"a", "F8_E4M3", 16, 512, "e4m3"_fmt}, {"b", "F8_E4M3", 512, 16, "e4m3"_fmt}}));
  const auto error = [&](const std::string& model, const std::string& plan) {
    return gemm({"--model", model, "--plan", plan, "--a", file + ":a", "--b", file + ":b", "--reference"})["reference"];
  };
  const Json chain = error("hopper.wgmma.f32.e4m3.e4m3", "chain"),
             promoted = error("hopper.wgmma.f32.e4m3.e4m3", "promote:128");
  const Json wide = error("software.fma.f64.e4m3.e4m3", "chain");
  for (const char* key :
       {"outputs", "compared", "exact", "max_relative", "mean_relative", "max_bits_lost", "mean_bits_lost", "worst"})
    CHECK(chain.contains(key));
  CHECK(chain["outputs"] == 256);
  CHECK(promoted["mean_relative"].get<double>() < chain["mean_relative"].get<double>());
  CHECK(chain["mean_bits_lost"].get<double>() > 5);  // 13 fraction bits where FP32 has 23
  CHECK(wide["exact"] == 256);                       // products of FP8 add exactly in FP64
  CHECK(wide["max_relative"] == 0);
  // Scales are powers of two: they move the exact product and the sums alike.
  const std::string scale = folder.write("s.npy", test::npy_of("<f4", "(16,)", test::raw(std::vector<float>(16, 0.25f))));
  const Json scaled = gemm({"--model", "hopper.wgmma.f32.e4m3.e4m3", "--a", file + ":a", "--b", file + ":b",
                            "--reference", "--alpha", "2", "--scale-a", scale})["reference"];
  for (const char* key : {"exact", "mean_relative", "max_bits_lost"}) CHECK(scaled[key] == chain[key]);
}

TEST_CASE("apps: a bias is one value a column and a batch has one product an item") {
  const Folder folder;
  // A[0] = (1 2), A[1] = (3 4); one B for both; the bias joins at the end.
  const std::string a = folder.write("a.npy", test::npy_of("<f2", "(2, 1, 2)", halves({1, 2, 3, 4})));
  const std::string b = folder.write("b.npy", test::npy_of("<f2", "(2, 3)", halves({1, 0, 2, 0, 1, 2})));
  const std::string bias = folder.write("bias.npy", test::npy_of("<f4", "(3,)", test::raw(std::vector<float>{10, 20, 30})));
  const std::string wrong = folder.write("wrong.npy", test::npy_of("<f4", "(2,)", test::raw(std::vector<float>{10, 20})));
  const std::string three = folder.write("three.npy", test::npy_of("<f2", "(3, 2, 3)", std::string(36, '\0')));
  const Json out = gemm({"--model", half_model, "--a", a, "--b", b, "--c", bias});
  CHECK(out["values"] == Json::parse("[[[11.0, 22.0, 36.0]], [[13.0, 24.0, 44.0]]]"));
  const std::string d = folder / "d.npy";
  CHECK(test::narrow({"gemm", "--model", half_model, "--a", a, "--b", b, "--c", bias, "-o", d}).status == 0);
  CHECK(contains(test::read_file(d), "(2, 1, 3)"));
  const Json found = test::narrow_json({"validate", "--a", a, "--b", b, "--c", bias, "--d", d});
  CHECK(found["exact"] == true);
  CHECK(found["total"] == 6);
  const Json missing = test::failing_json({"validate", "--a", a, "--b", b, "--d", d});
  CHECK(missing["exact"] == false);
  check_refused({"gemm", "--model", half_model, "--a", a, "--b", b, "--c", wrong}, {"the bias has 2 numbers", "one a column"});
  check_refused({"gemm", "--model", half_model, "--a", a, "--b", three}, {"2", "3"});
}

TEST_CASE("apps: an epilogue is named in words and validate knows it") {
  const Folder folder;
  const std::string a = folder.write("a.npy", test::npy_of("<f2", "(2, 3)", halves({1, 2, 3, 4, 5, 6})));
  const std::string b = folder.write("b.npy", test::npy_of("<f2", "(3, 2)", halves({1, 0, -1, 0.5f, -2, 0})));
  const std::string bias = folder.write("c.npy", test::npy_of("<f2", "(2,)", halves({7.5f, -3})));
  const std::string full = folder.write("f.npy", test::npy_of("<f2", "(2, 2)", halves({1, 2, 3, 4})));
  const std::vector<std::string> words{"--model", half_model, "--a", a, "--b", b, "--c", bias, "--epilogue"};
  const auto with = [&](const char* epilogue, std::vector<std::string> more = {}) {
    std::vector<std::string> all = words;
    all.push_back(epilogue);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Json relu = gemm(with("bias+relu"));
  CHECK(relu["epilogue"] == "bias+relu");
  CHECK(relu["values"] == Json::parse("[[0.5, 0.0], [0.0, 0.0]]"));
  CHECK(gemm(with("bias"))["values"] == Json::parse("[[0.5, -2.0], [-5.5, -0.5]]"));
  // 0.5 / 2 * (1 + erf(0.5 / sqrt 2)) and 0.5 / (1 + exp(-0.5))
  CHECK(gemm(with("bias+gelu"))["codes"][0][0] == "0x3EB103AF");
  CHECK(gemm(with("bias+round+silu", {"--output", "fp16"}))["codes"][0][0] == "0x34FB");
  const auto refused = [&](std::vector<std::string> all, const std::string& why) {
    all.insert(all.begin(), "gemm");
    check_refused(all, {"--epilogue", why});
  };
  refused(with("bias+swish"), "'swish'");
  refused(with(""), "accepted");
  refused(with("gelu+bias"), "accepted");
  refused(with("relu+gelu"), "accepted");
  refused(with("bias+round"), "ends with round");
  refused({"--model", half_model, "--a", a, "--b", b, "--epilogue", "bias+relu"}, "there is no --c");
  refused({"--model", half_model, "--a", a, "--b", b, "--c", full, "--epilogue", "bias+relu"}, "is a matrix");
  refused(with("bias+relu", {"--reference"}), "'bias+relu' of one");
  CHECK(gemm(with("bias+relu", {"--beta", "2"}))["values"] == Json::parse("[[8.0, 0.0], [2.0, 0.0]]"));
}

TEST_CASE("apps: gemm takes codes in integers and words of TF32") {
  const Folder folder;
  const std::string u16 = folder.write(
      "a.npy", test::npy_of("<u2", "(1, 2)", test::little_endian(0x3F80, 2) + test::little_endian(0x4000, 2)));
  const std::string f32 = folder.write("b.npy", test::npy_of("<f4", "(2, 1)", test::raw(std::vector<float>{3, 4})));
  const std::string f32_a =
      folder.write("c.npy", test::npy_of("<f4", "(1, 2)", test::raw(std::vector<float>{0x1.000ffep0f, 0x1.001p0f})));
  const std::string bf16 = "hopper.wgmma.f32.bf16.bf16", tf32 = "hopper.wgmma.f32.tf32.tf32";
  CHECK(gemm({"--model", bf16, "--a", u16, "--a-format", "bf16", "--b", f32, "--round"})["values"][0][0] == 11.0);
  // 1 + 2^-12 + ..: the low 13 bits are ignored, or rounded before
  CHECK(gemm({"--model", tf32, "--a", f32_a, "--b", f32})["values"][0][0] == 7.0);
  CHECK(gemm({"--model", tf32, "--plan", "chain,rna", "--a", f32_a, "--b", f32})["values"][0][0].get<double>() ==
        doctest::Approx(7.0).epsilon(0.01));
  const std::string i8 = folder.write("i.npy", test::npy_of("|i1", "(1, 2)", std::string("\xFF\x7F", 2)));
  const std::string i8_b = folder.write("ib.npy", test::npy_of("|i1", "(2, 1)", std::string("\x02\x7F", 2)));
  CHECK(gemm({"--model", "hopper.mma.s32.s8.s8.k32", "--a", i8, "--b", i8_b})["values"][0][0] == 16127.0);
  CHECK(gemm({"--model", "hopper.mma.s32.s8.s8.k32", "--a", i8, "--b", i8_b, "--reference"})["reference"]["exact"] ==
        1);
  check_refused({"gemm", "--model", bf16, "--a", u16, "--b", f32}, {"--a", "--a-format bf16"});
  check_refused({"gemm", "--model", bf16, "--a", u16, "--a-format", "bf16", "--b", f32},
                {"--b", "fp32", "takes bf16", "narrow cast", "--round"});
  check_refused({"gemm", "--model", bf16, "--a", u16, "--a-format", "e4m3", "--b", f32}, {"--a-format"});
  check_refused({"gemm", "--model", bf16, "--a", i8, "--b", i8_b}, {"--a", "int8", "takes bf16"});
}

TEST_CASE("apps: scales come as numbers or rows or blocks") {
  const Folder folder;
  const std::string file = folder.write(
      "m.safetensors", test::random_file({{"a", "F8_E4M3", 3, 256, "e4m3"_fmt}, {"b", "F8_E4M3", 256, 2, "e4m3"_fmt}}));
  const std::string model = "hopper.wgmma.f32.e4m3.e4m3";
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--model", model, "--a", file + ":a", "--b", file + ":b", "--plan", "promote:128"});
    return gemm(more)["values"];
  };
  const std::string rows =
      folder.write("rows.npy", test::npy_of("<f4", "(3,)", test::raw(std::vector<float>{1, 2, 4})));
  const std::string blocks =
      folder.write("blocks.npy", test::npy_of("<f4", "(3, 2)", test::raw(std::vector<float>{1, 1, 2, 2, 4, 4})));
  const std::string columns =
      folder.write("columns.npy", test::npy_of("<f4", "(2, 1)", test::raw(std::vector<float>{0.5f, 0.5f})));
  const std::string wrong =
      folder.write("wrong.npy", test::npy_of("<f4", "(5,)", test::raw(std::vector<float>{1, 2, 4, 8, 16})));
  const Json plain = run({}), by_row = run({"--scale-a", rows}), by_block = run({"--scale-a", blocks}),
             both = run({"--scale-b", columns});
  CHECK(by_row[2][1].get<double>() == 4 * plain[2][1].get<double>());
  CHECK(by_row == by_block);
  CHECK(both[1][0].get<double>() == 0.5 * plain[1][0].get<double>());
  check_refused({"gemm", "--model", model, "--a", file + ":a", "--b", file + ":b", "--scale-a", wrong},
                {"--scale-a", "5 scales for 3"});
  check_refused({"gemm", "--model", model, "--a", file + ":a", "--b", file + ":b", "--scale-a", blocks},
                {"promote:128"});
}

TEST_CASE("apps: block-scaled models take codes of scales that stand like their matrix") {
  const Folder folder;
  const std::string model = "blackwell.tcgen05.f32.e2m1.e2m1.nvf4";  // a scale for each 16 of K, e4m3
  const std::string a = folder.write("a.npy", test::npy_of("|u1", "(2, 32)", std::string(64, '\x02')));  // 1
  const std::string b = folder.write("b.npy", test::npy_of("|u1", "(32, 3)", std::string(96, '\x04')));  // 2
  const std::string one_two_four = "\x38\x40\x48";
  const std::string sa = folder.write("sa.npy", test::npy_of("|u1", "(2, 2)", "\x38\x40\x48\x38"));  // 1 2, 4 1
  const std::string sb = folder.write("sb.npy", test::npy_of("|u1", "(2, 3)", one_two_four + "\x38\x38\x38"));
  std::vector<std::string> words{"--model", model,        "--a",  a,           "--a-format", "e2m1",      "--b",
                                 b,         "--b-format", "e2m1", "--scale-a", sa,           "--scale-b", sb};
  // 32 * (sa[i][0] * sb[0][j] + sa[i][1] * sb[1][j])
  CHECK(gemm(words)["values"] == Json::parse("[[96.0, 128.0, 192.0], [160.0, 288.0, 544.0]]"));
  words.push_back("--reference");
  CHECK(gemm(words)["reference"]["exact"] == 6);
  words.pop_back();
  words.insert(words.begin(), "gemm");
  words[2] = "hopper.wgmma.f32.f16.f16";
  check_refused(words, {"--a", "takes fp16"});
}

TEST_CASE("apps: gemm refuses what does not fit") {
  const Folder folder;
  const std::string a = folder.write("a.npy", test::npy_of("<f2", "(2, 3)", halves({1, 2, 3, 4, 5, 6})));
  const std::string vector = folder.write("v.npy", test::npy_of("<f2", "(3,)", halves({1, 2, 3})));
  const std::string cube = folder.write("cube.npy", test::npy_of("<f2", "(1, 3, 1, 1)", halves({1, 2, 3})));
  const std::string empty = folder.write("empty.npy", test::npy_of("<f2", "(0, 3)", ""));
  const std::string two = folder.write(
      "two.safetensors", test::random_file({{"x", "F16", 2, 2, "fp16"_fmt}, {"y", "F16", 2, 2, "fp16"_fmt}}));
  const std::string tall = folder.write("tall.npy", test::npy_of("<f2", quoted(40000, 1), std::string(80000, '\0')));
  const std::string wide = folder.write("wide.npy", test::npy_of("<f2", quoted(1, 40000), std::string(80000, '\0')));
  const auto refused = [&](std::vector<std::string> more, const std::vector<std::string>& words) {
    more.insert(more.begin(), {"gemm", "--model", half_model});
    check_refused(more, words);
  };
  check_refused({"gemm", "--a", a, "--b", a}, {"--model is missing"});
  check_refused({"gemm", "--model", "hopper.wgmma.f32.f16.f17", "--a", a, "--b", a},
                {"--model", "did you mean 'hopper.wgmma.f32.f16.f16'"});
  refused({"--b", a}, {"--a is missing"});
  refused({"--a", a, "--b", a}, {"A is 2x3 and B is 2x3", "--transpose-b"});
  refused({"--a", a, "--b", vector}, {"--b", "[3]", "two dimensions"});
  refused({"--a", a, "--b", cube}, {"--b", "[1, 3, 1, 1]"});
  refused({"--a", a, "--b", empty}, {"--b", "empty"});
  refused({"--a", two, "--b", a}, {"--a", "x"});
  refused({"--a", two + ":x", "--b", two + ":y", "--c", a}, {"C is 2x3"});
  refused({"--a", folder / "none.npy", "--b", a}, {"--a", "none.npy"});
  refused({"--a", two + ":x", "--b", two + ":y", "--plan", "chian"}, {"--plan", "'chian'", "promote:128"});
  refused({"--a", two + ":x", "--b", two + ":y", "--plan", "split:0"}, {"--plan", "split:0"});
  refused({"--a", two + ":x", "--b", two + ":y", "--plan", "chain,rne"}, {"tf32"});
  refused({"--a", two + ":x", "--b", two + ":y", "--alpha", "x"}, {"--alpha", "'x'"});
  refused({"--a", two + ":x", "--b", two + ":y", "--beta", "2"}, {"--beta", "--c"});
  refused({"--a", two + ":x", "--b", two + ":y", "--alpha", "inf"}, {"--alpha", "finite"});
  refused({"--a", two + ":x", "--b", two + ":y", "--threads", "0"}, {"--threads"});
  refused({"--a", two + ":x", "--b", two + ":y", "--output", "fp61"}, {"--output", "did you mean 'fp16'"});
  refused({"--a", two + ":x", "--b", two + ":y", "-o", folder / "d.txt"}, {"-o", ".npy"});
  refused({"--a", tall, "--b", wide}, {"40000x40000", "2^30"});
  CHECK(!std::filesystem::exists(folder / "d.txt"));
}
