#include <cstring>
#include <functional>

#include "matrices.hpp"
#include "narrow/dot/model.hpp"
#include "support/scale.hpp"

using test::check_refused;
using test::contains;
using test::Folder;
using test::Json;
using namespace narrow;  // formats by name: "fp16"_fmt

namespace {

struct Planted {
  std::string model, plan;
  std::size_t k;
  std::string not_plan = "";  // one that this data tells apart
};

std::string dtype_of(const DotType& type) {
  if (type.format == "tf32"_fmt || type.format == "fp32"_fmt) return "F32";
  if (type.format == "fp16"_fmt) return "F16";
  if (type.format == "bf16"_fmt) return "BF16";
  return type.format == "e4m3"_fmt ? "F8_E4M3" : "F8_E5M2";
}
Format file_format(const DotType& type) { return dtype_of(type) == "F32" ? "fp32"_fmt : type.format; }

// Random operands, and D as narrow gemm computes it.
struct Product {
  Folder folder;
  std::string a, b, d;

  explicit Product(const Planted& p, std::size_t rows = 16, std::size_t cols = 24, std::vector<std::string> more = {}) {
    const DotModel& m = *find_dot_model(p.model);
    const std::string file =
        folder.write("m.safetensors", test::random_file({{"a", dtype_of(m.a), rows, p.k, file_format(m.a)},
                                                         {"b", dtype_of(m.b), p.k, cols, file_format(m.b)}}));
    a = file + ":a", b = file + ":b", d = folder / "d.safetensors";
    std::vector<std::string> words{"gemm", "--model", p.model, "--plan", p.plan, "--a", a, "--b", b, "-o", d};
    words.insert(words.end(), more.begin(), more.end());
    CHECK(test::narrow(words).status == 0);
  }
  // D with one bit of one output turned.
  std::string corrupted(std::size_t output, int bit) const {
    std::string bytes = test::read_file(d);
    const std::size_t data = bytes.size() - test::data_of(bytes).size();
    bytes[data + 4 * output + static_cast<std::size_t>(bit / 8)] ^= static_cast<char>(1 << (bit % 8));
    return folder.write("corrupted.safetensors", bytes);
  }
  std::vector<std::string> words(const std::string& result) const {
    return {"validate", "--a", a, "--b", b, "--d", result};
  }
};

bool has_candidate(const Json& out, const std::string& model, const std::string& plan) {
  for (const Json& c : out["candidates"])
    if (c["model"] == model && c["plan"] == plan) return true;
  return false;
}

}  // namespace

TEST_CASE("apps: validate names the plan of products that gemm made") {
  // With 25 fraction bits sums of FP8 products are exact up to large K, and every plan gives the same.
  const std::vector<Planted> planted = {
      {"hopper.wgmma.f32.e4m3.e4m3", "promote:128", 1024, "chain"},
      {"hopper.mma.f32.tf32.tf32.k8", "split:192,rne", 1024, "split:192"},
      {"ada.mma.f32.e4m3.e4m3.k32", "chain", 1024, "promote:128"},
      {"hopper.wgmma.f32.f16.f16", "split:1408", 4096, "chain"},
      {"hopper.wgmma.f32.f16.f16", "chain", 1024, "split:512"},
      {"hopper.wgmma.f32.e4m3.e4m3", "chain", 1024, "promote:128"},
      {"hopper.wgmma.f32.e5m2.e4m3", "split:512", 2048, "split:256"},
      {"hopper.mma.f32.e4m3.e4m3.k32", "chain", 1024},
      {"ampere.mma.f32.bf16.bf16.k16", "split:192", 1024, "split:208"},
      {"hopper.mma.f32.tf32.tf32.k8", "chain", 1024, "chain,rna"},
      {"volta.mma.f32.f16.f16.k4", "chain", 512, "split:256"},
      {"software.fma.f32.bf16.bf16", "chain", 512, "split:256"},
  };
  const std::size_t count = std::min<std::size_t>(planted.size(), test::scaled(planted.size(), 3));
  for (std::size_t i = 0; i < count; ++i) {
    const Planted& p = planted[i];
    CAPTURE(p.model);
    CAPTURE(p.plan);
    const Product product(p);
    const Json out = test::narrow_json(product.words(product.d));
    CHECK(out["exact"] == true);
    CHECK(out["total"] == 384);
    CHECK(out["equal_count"] == 384);
    CHECK(out["max_ulp"] == 0);
    CHECK(has_candidate(out, p.model, p.plan));
    CHECK(out["model"] == out["candidates"][0]["model"]);
    CHECK(out["plan"] == out["candidates"][0]["plan"]);
    CHECK(!has_candidate(out, p.model, p.not_plan));
  }
}

TEST_CASE("apps: validate says bit-exact in its first line and who else computes the same") {
  const Product product({"hopper.wgmma.f32.e4m3.e4m3", "promote:128", 1024});
  const auto asked = [&](std::vector<std::string> more) {
    std::vector<std::string> words = product.words(product.d);
    words.insert(words.end(), more.begin(), more.end());
    return test::narrow(words);
  };
  const test::Ran ran = asked({});
  CHECK(ran.status == 0);
  CHECK(ran.out.rfind("bit-exact: hopper.wgmma.f32.e4m3.e4m3, promote:128, 384 of 384\n", 0) == 0);
  CHECK(contains(ran.out, "have the same bits on this data"));
  CHECK(contains(ran.out, "split:128"));
  CHECK(asked({"--model", "hopper.wgmma.f32.e4m3.e4m3", "--plan", "promote:128"}).status == 0);
  const test::Ran other = asked({"--model", "hopper.wgmma.f32.e4m3.e4m3", "--plan", "chain"});
  CHECK(other.status == 1);
  CHECK(other.out.rfind("not bit-exact; ", 0) == 0);
  CHECK(contains(other.out.substr(0, other.out.find('\n')), "hopper.wgmma.f32.e4m3.e4m3, chain, "));
}

TEST_CASE("apps: of equal candidates the newest generation comes first or the GPU that is named") {
  const Product product({"hopper.wgmma.f32.f16.f16", "chain", 64});
  const auto first = [&](std::vector<std::string> more) {
    std::vector<std::string> words = product.words(product.d);
    words.insert(words.end(), more.begin(), more.end());
    return test::narrow_json(words)["model"].get<std::string>();
  };
  CHECK(first({}).rfind("rtx-blackwell.", 0) == 0);
  CHECK(first({"--gpu", "b200"}).rfind("blackwell.", 0) == 0);
  CHECK(first({"--gpu", "H200"}).rfind("hopper.", 0) == 0);
  std::vector<std::string> words = product.words(product.d);
  words.insert(words.end(), {"--gpu", "h2000"});
  check_refused(words, {"--gpu", "h2000"});
}

TEST_CASE("apps: the test that validate writes tells its candidates apart") {
  const Product product({"hopper.wgmma.f32.f16.f16", "chain", 64});
  const std::string file = product.folder / "test.safetensors";
  std::vector<std::string> words = product.words(product.d);
  words.insert(words.end(), {"--test", file});
  const Json out = test::narrow_json(words);
  REQUIRE(out["telling"]["answers"].size() >= 2);
  for (const Json& answer : out["telling"]["answers"]) {
    const std::string name = answer["candidates"][0];
    const std::size_t comma = name.find(", ");
    const Json d = test::narrow_json({"gemm", "--model", name.substr(0, comma), "--plan", name.substr(comma + 2), "--a",
                                      file + ":a", "--b", file + ":b"});
    CHECK(d["codes"][0][0] == answer["code"]);
  }
}

TEST_CASE("apps: what was not asked for is a suspicion in a short report and never bit-exact") {
  struct Change {
    std::string name, word;
    std::function<float(float, std::size_t)> apply;  // of an output and its place
  };
  const Change changes[] = {
      {"relu", "relu", [](float x, std::size_t) { return x > 0 ? x : 0.0f; }},
      {"factor", "2^-3 times the product", [](float x, std::size_t) { return 0.125f * x; }},
      {"negated", "negat", [](float x, std::size_t) { return -x; }},
      {"tile", "rows 4 to 7, columns 8 to 15", [](float x, std::size_t n) {
         return n / 24 / 4 == 1 && n % 24 / 8 == 1 ? 0.0f : x;
       }},
      {"bias", "bias", [](float x, std::size_t n) { return x + 64 * static_cast<float>(1 + n % 24); }}};
  const Product product({"hopper.wgmma.f32.f16.f16", "chain", 64});
  for (const Change& change : changes) {
    CAPTURE(change.name);
    std::string bytes = test::read_file(product.d);
    const std::size_t data = bytes.size() - test::data_of(bytes).size();
    for (std::size_t n = 0; n < 384; ++n) {
      float x = 0;
      std::memcpy(&x, bytes.data() + data + 4 * n, 4);
      x = change.apply(x, n);
      std::memcpy(bytes.data() + data + 4 * n, &x, 4);
    }
    const test::Ran ran = test::narrow(product.words(product.folder.write("changed.safetensors", bytes)));
    CHECK(ran.status == 1);
    CHECK(ran.out.rfind("not bit-exact; ", 0) == 0);
    const std::size_t at = ran.out.find("suspicion: ");
    REQUIRE(at != std::string::npos);
    CHECK(contains(ran.out.substr(at), change.word));
    CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') <= 25);
  }
}

TEST_CASE("apps: one turned bit is no exact match") {
  const Product product({"hopper.wgmma.f32.f16.f16", "chain", 64});
  for (const int bit : {0, 22, 30}) {
    const Json out = test::failing_json(product.words(product.corrupted(77, bit)));
    CHECK(out["exact"] == false);
    CHECK(out["equal_count"] == 383);
    CHECK(out["max_ulp"] == 1u << bit);
    CHECK(has_candidate(out, "hopper.wgmma.f32.f16.f16", "chain"));
    CHECK(out["failing"]["row"] == 77 / 24);
    CHECK(out["failing"]["col"] == 77 % 24);
    CHECK(out["failing"]["a"].size() == 64);
    CHECK(out["failing"]["expected"] != out["failing"]["found"]);
  }
}

TEST_CASE("apps: what differs is told with its distances and a vector that compiles") {
  const Product product({"hopper.wgmma.f32.f16.f16", "chain", 64});
  const std::string wrong = product.corrupted(5, 3);
  std::vector<std::string> words = product.words(wrong);
  const test::Ran ran = test::narrow(words);
  CHECK(ran.status == 1);
  CHECK(contains(ran.out, "not bit-exact; the closest: "));
  CHECK(contains(ran.out, "383 of 384 (99.7"));
  CHECK(contains(ran.out, "8 to 15"));
  CHECK(contains(ran.out, "D[0, 5], 64 products"));
  CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') <= 25);
  words.push_back("--verbose");
  const test::Ran verbose = test::narrow(words);
  CHECK(contains(verbose.out, "#include <narrow/narrow.hpp>"));
  words.back() = "--vector", words.push_back(product.folder / "vector.cpp");
  CHECK(test::narrow(words).status == 1);
  const std::string program = test::read_file(product.folder / "vector.cpp");
  CHECK(contains(verbose.out, program));
  const std::string command =
      std::string(NARROW_CXX) + " -std=c++20 -fsyntax-only " NARROW_INCLUDES " " + (product.folder / "vector.cpp");
  CHECK(test::run_program({"/bin/sh", "-c", command}).status == 0);
}

TEST_CASE("apps: validate takes C and alpha and an output that was rounded") {
  const Product rounded({"hopper.wgmma.f32.bf16.bf16", "chain", 512}, 16, 24, {"--output", "bf16", "--alpha", "0.5"});
  std::vector<std::string> words = rounded.words(rounded.d);
  words.insert(words.end(), {"--alpha", "0.5"});
  const Json out = test::narrow_json(words);
  CHECK(out["exact"] == true);
  CHECK(has_candidate(out, "hopper.wgmma.f32.bf16.bf16", "chain"));
}

TEST_CASE("apps: an epilogue that was asked for is exact and says so") {
  const Product gelu({"hopper.wgmma.f32.bf16.bf16", "chain", 512}, 16, 24, {"--output", "bf16", "--epilogue", "gelu"});
  std::vector<std::string> words = gelu.words(gelu.d);
  CHECK(test::failing_json(words)["relation"] == "gelu");
  CHECK(contains(test::narrow(words).out, "--epilogue gelu asks for it"));
  words.insert(words.end(), {"--epilogue", "gelu"});
  const Json out = test::narrow_json(words);
  CHECK(out["exact"] == true);
  CHECK(out["epilogue"] == "gelu");
  CHECK(has_candidate(out, "hopper.wgmma.f32.bf16.bf16", "chain"));
  CHECK(contains(test::narrow(words).out, "bf16 * bf16, gelu to bf16"));
  words.back() = "round+gelu";
  CHECK(test::failing_json(words)["relation"] == "gelu of the sum");
}

TEST_CASE("apps: validate refuses what tells nothing") {
  const Product product({"hopper.wgmma.f32.f16.f16", "chain", 32}, 4, 4);
  const Folder folder;
  const auto refused = [&](const std::string& d, std::vector<std::string> more, const std::vector<std::string>& words) {
    more.insert(more.begin(), {"validate", "--a", product.a, "--b", product.b, "--d", d});
    check_refused(more, words);
  };
  const std::string nan =
      folder.write("nan.npy", test::npy_of("<f4", "(4, 4)", test::raw(std::vector<std::uint32_t>(16, 0x7FFFFFFF))));
  const std::string shape =
      folder.write("shape.npy", test::npy_of("<f4", "(4, 5)", test::raw(std::vector<float>(20, 1))));
  const std::string flat = folder.write("flat.npy", test::npy_of("<f4", "(16,)", test::raw(std::vector<float>(16, 1))));
  const std::string empty = folder.write("empty.npy", test::npy_of("<f4", "(0, 4)", ""));
  const std::string words32 =
      folder.write("u4.npy", test::npy_of("<u4", "(4, 4)", test::raw(std::vector<std::uint32_t>(16, 1))));
  check_refused({"validate", "--a", product.a, "--b", product.b}, {"--d is missing"});
  check_refused({"validate", "--a", product.a, "--d", product.d}, {"--b is missing"});
  refused(nan, {}, {"NaN"});
  refused(shape, {}, {"4x4", "4x5"});
  refused(flat, {}, {"--d", "[16]", "two dimensions"});
  refused(empty, {}, {"--d", "empty"});
  refused(words32, {}, {"--d", "--d-format"});
  refused(product.d, {"--model", "hopper.wgmma.f32.e4m3.e4m3"}, {"--a", "fp16", "takes e4m3"});
  refused(product.d, {"--model", "hopper.wgmma.f32.f16.f61"}, {"--model", "did you mean"});
  refused(product.d, {"--plan", "splot:128"}, {"--plan", "'splot:128'", "split:1408"});
  check_refused({"validate", "--a", product.b, "--b", product.a, "--d", product.d}, {"A B is 32x32"});
}
