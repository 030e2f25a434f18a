// What narrow stats counts, its gate, and its trend over steps.
#include <cmath>

#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"
#include "tensor_files.hpp"

using namespace test;
using narrow::operator""_fmt;

namespace {

// fp16: 1e-9 underflows, 1e-6 is subnormal, 1e6 overflows.
const std::vector<float> mixed{0.0f, 1.0f, 1e-9f, 1e-6f, 1e6f, -2.0f, INFINITY, NAN};

// Four values of which `tiny` underflow in fp16.
std::string step_file(int tiny, float extra = 1.0f) {
  std::vector<float> values;
  for (int i = 0; i < 100; ++i) values.push_back(i < tiny ? 1e-9f : 1.0f);
  values.back() = extra;
  return floats_file("grad", values);
}

}  // namespace

TEST_CASE("apps: stats gives the promised keys and counts") {
  const Folder folder;
  const std::string path =
      folder.write("a.safetensors", safetensors_of({{"w", "F32", "[8]", raw(mixed)}, {"n", "I32", "[1]", "1234"}}));
  const Json rows = narrow_json({"stats", path, "--formats", "fp16,bf16"});
  REQUIRE(rows.size() == 2);
  const Json& fp16 = rows[0];
  CHECK(fp16["tensor"] == "w");
  CHECK(fp16["format"] == "fp16");
  CHECK(fp16["scale"] == 1.0);
  CHECK(fp16["count"] == 8);
  CHECK(fp16["zeros"] == 1);
  CHECK(fp16["nan"] == 1);
  CHECK(fp16["inf"] == 1);
  CHECK(fp16["underflow"] == 1);
  CHECK(fp16["subnormal"] == 1);
  CHECK(fp16["overflow"] == 1);
  CHECK(fp16["amax"] == 1e6);
  CHECK(fp16["min_nonzero"] == static_cast<double>(1e-9f));
  CHECK(fp16["mse"].is_null());  // a finite value overflowed
  CHECK(fp16["sqnr_db"].is_null());
  CHECK(rows[1]["mse"].is_number());
  CHECK(rows[1]["sqnr_db"].is_number());
  const Ran text = run({"stats", path, "--formats", "fp16,bf16"});
  CHECK(text.status == 0);
  CHECK(contains(text.out, "1 (12.5%)"));
  CHECK(contains(text.out, "left out: 1 tensor"));
  CHECK(text.out.find("fp16") < text.out.find("bf16"));  // worst first
  CHECK(narrow_json({"stats", path}).size() == 4);
  CHECK(narrow_json({"stats", path, "--formats", "all"}).size() == 20);
}

TEST_CASE("apps: stats scales before it casts and auto says which power of two") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", floats_file("w", {1e-9f, 2e-9f, 1e-8f, 3e-8f}));
  CHECK(narrow_json({"stats", path, "--formats", "fp16"})[0]["underflow"] == 3);
  CHECK(narrow_json({"stats", path, "--formats", "fp16", "--scale", "2^20"})[0]["underflow"] == 0);
  CHECK(narrow_json({"stats", path, "--formats", "fp16", "--scale", "1048576"})[0]["scale"] == 1048576.0);
  const Json row = narrow_json({"stats", path, "--formats", "fp16", "--scale", "auto"})[0];
  CHECK(row["underflow"] == 0);
  CHECK(row["scale"] == 32.0);  // 1e-9 * 32 is just above 2^-25, half of the smallest value
  CHECK(contains(run({"stats", path, "--scale", "auto"}).out, "2^5"));
  for (const char* bad : {"-1", "0", "nan", "inf", "2^", "2^x", "auto2", "1e-60"})
    check_refused({"stats", path, "--scale", bad}, {"--scale", "auto", "best-sqnr"});
}

// Most values near 2^-20 and one at 10: what would save the many overflows the one, and an overflow skips the step.
TEST_CASE("apps: the automatic scale overflows nothing and best-sqnr has the other objective") {
  const Folder folder;
  std::vector<float> values(1000, 0x1.8p-40f);
  values.push_back(10);
  const std::string path = folder.write("a.safetensors", floats_file("w", values));
  const Json row = narrow_json({"stats", path, "--formats", "fp16", "--scale", "auto"})[0];
  CHECK(row["scale"] == 1);  // all of 2^0 to 2^12 lose the thousand
  CHECK(row["overflow"] == 0);
  CHECK(row["underflow"] == 1000);
  values.assign(1000, 0x1.8p-37f);  // the first scale that keeps them is 2^12, and 10.3 * 2^12 fits
  values.push_back(10.3f);
  folder.write("a.safetensors", floats_file("w", values));
  const Json kept = narrow_json({"stats", path, "--formats", "fp16", "--scale", "auto"})[0];
  CHECK(kept["scale"] == 4096);
  CHECK(kept["underflow"] == 0);
  const Json best = narrow_json({"stats", path, "--formats", "fp16,int8", "--scale", "best-sqnr", "--sort", "name"});
  CHECK(best[0]["scale"] == 1);  // beside 10.3 the small ones are no signal
  CHECK(best[1]["scale"] == 4);  // 41 / 4 is the nearest quarter, and the nearest eighth
  CHECK(best[1]["overflow"] == 0);
  CHECK(contains(run({"stats", path, "--scale", "auto"}).out,
                 "without overflow the one that loses fewest values to zero"));
  CHECK(contains(run({"stats", path, "--scale", "best-sqnr"}).out, "with the largest SQNR"));
  const std::string huge =
      folder.write("d.safetensors", safetensors_of({{"w", "F64", "[1]", raw(std::vector<double>{1e300})}}));
  CHECK(contains(run({"stats", huge, "--formats", "fp16", "--scale", "auto"}).out,
                 "no power of two avoids the overflow"));
}

TEST_CASE("apps: finite values that become NaN count as overflow in stats and fail its gates") {
  const Folder folder;
  const std::string signs = folder.write("s.npy", npy_of("<f4", "(4,)", raw(std::vector<float>{1, -2, -4, 8})));
  std::vector<float> block(64, 1.5f);
  block[3] = INFINITY;
  const std::string blocks = folder.write("b.npy", npy_of("<f4", "(2, 32)", raw(block)));
  CHECK(failing_json({"stats", signs, "--formats", "e8m0", "--fail-if", "overflow > 0"})[0]["overflow"] == 2);
  CHECK(failing_json({"stats", signs, "--formats", "e8m0", "--fail-if", "lost > 0"})[0]["sqnr_db"].is_null());
  // The scale of a block with an Inf is NaN in MX; in NVFP4 a block of sixteen is lost and the others are not.
  CHECK(failing_json({"stats", blocks, "--formats", "mxfp4", "--fail-if", "overflow > 40%"})[0]["overflow"] == 31);
  CHECK(contains(run({"cast", blocks, folder / "m.safetensors", "--to", "mxfp4"}).out, "1 block has no finite scale"));
  const Json nvfp4 = narrow_json({"stats", blocks, "--formats", "nvfp4"})[0];
  CHECK(nvfp4["underflow"].get<int>() + nvfp4["overflow"].get<int>() <= 15);
}

// What overflowed has no finite error: neither the rest alone nor nothing at all may stand for the whole.
TEST_CASE("apps: an undefined figure of stats is null and fails the gate and comes first") {
  const Folder folder;
  const std::string path =
      folder.write("a.safetensors", safetensors_of({{"good", "F32", "[2]", raw(std::vector<float>{1.1f, 3})},
                                                    {"half", "F32", "[2]", raw(std::vector<float>{1.1f, 1e6f})},
                                                    {"all", "F32", "[2]", raw(std::vector<float>{1e6f, -1e6f})},
                                                    {"zero", "F32", "[2]", raw(std::vector<float>{0, 0})},
                                                    {"none", "F32", "[0]", ""},
                                                    {"nan", "F32", "[1]", raw(std::vector<float>{NAN})}}));
  const std::vector<std::pair<std::string, std::string>> why = {{"half", "1 of 2 values overflowed"},
                                                                {"all", "2 of 2 values overflowed"},
                                                                {"zero", "every finite value is zero"},
                                                                {"none", "the tensor is empty"},
                                                                {"nan", "no value is finite"}};
  for (const auto& [name, reason] : why) {
    CAPTURE(name);
    const std::string one = "^" + name + "$";
    const Json rows = failing_json({"stats", path, "--tensors", one, "--formats", "fp16", "--fail-if", "sqnr_db < 30"});
    CHECK(rows[0]["sqnr_db"].is_null());
    CHECK(rows[0]["breaks"] == "sqnr_db is undefined, because " + reason + " (< 30)");
    for (const char* key : {"mse", "max_relative_error"}) CHECK(rows[0][key].is_null() == (name != "zero"));
    CHECK(run({"stats", path, "--tensors", one, "--formats", "fp16", "--fail-if", "sqnr_db > 30"}).status == 1);
    CHECK(contains(run({"stats", path, "--tensors", one, "--formats", "fp16"}).out, " -\n"));
  }
  CHECK(run({"stats", path, "--tensors", "good", "--formats", "fp16", "--fail-if", "sqnr_db < 30"}).status == 0);
  CHECK(
      run({"stats", path, "--tensors", "zero", "--formats", "fp16", "--fail-if", "sqnr_db < 30 and amax > 0"}).status ==
      0);
  CHECK(run({"stats", path, "--tensors", "zero", "--formats", "fp16", "--fail-if", "min_nonzero > 1"}).status == 1);
  for (const char* key : {"sqnr_db", "mse", "max_relative_error"}) {
    const Json rows = narrow_json({"stats", path, "--formats", "fp16", "--tensors", "good|half|all", "--sort", key});
    CHECK(rows[0]["tensor"] == "all");  // more of it is lost
    CHECK(rows[1]["tensor"] == "half");
    CHECK(rows[2]["tensor"] == "good");
  }
  const Json total = narrow_json({"stats", path, "--formats", "fp16", "--tensors", "good|half", "--total"})[0];
  CHECK(total["sqnr_db"].is_null());
  CHECK(narrow_json({"stats", path, "--formats", "e4m3", "--tensors", "half", "--overflow", "saturate"})[0]["mse"]
            .is_null());
  CHECK(run({"stats", path, "--formats", "fp16", "--tensors", "half", "--csv", folder / "s.csv"}).status == 0);
  CHECK(contains(read_file(folder / "s.csv"), ",1,1000000,1.1000000238418579,,,0,,"));
  CHECK(contains(run({"stats", path, "--formats", "fp16", "--tensors", "half"}).out,
                 "SQNR -: undefined, a finite value overflowed"));
}

TEST_CASE("apps: stats adds tensors up and sorts") {
  const Folder folder;
  const std::string path =
      folder.write("a.safetensors", safetensors_of({{"good", "F32", "[2]", raw(std::vector<float>{1, 3})},
                                                    {"bad", "F32", "[2]", raw(std::vector<float>{1e-9f, 2})}}));
  CHECK(narrow_json({"stats", path, "--formats", "fp16"})[0]["tensor"] == "bad");
  CHECK(narrow_json({"stats", path, "--formats", "fp16", "--sort", "amax"})[0]["tensor"] == "good");
  CHECK(narrow_json({"stats", path, "--formats", "fp16", "--sort", "name"})[0]["tensor"] == "bad");
  const Json total = narrow_json({"stats", path, "--formats", "fp16", "--total"});
  REQUIRE(total.size() == 1);
  CHECK(total[0]["count"] == 4);
  CHECK(total[0]["underflow"] == 1);
  CHECK(narrow_json({"stats", path, "--tensors", "^go"}).size() == 4);
  check_refused({"stats", path, "--sort", "underfow"}, {"--sort", "underflow"});
  check_refused({"stats", path, "--total", "--per-tensor"}, {"--total"});
  check_refused({"stats", path, "--top", "many"}, {"--top"});
  const std::string csv = folder / "rows.csv";
  CHECK(run({"stats", path, "--formats", "fp16", "--csv", csv}).status == 0);
  CHECK(read_file(csv).rfind(
            "tensor,format,scale,count,zeros,nan,inf,underflow,subnormal,overflow,amax,min_nonzero,mse,sqnr_db", 0) ==
        0);
  CHECK(contains(read_file(csv), "\nbad,fp16,1,2,0,0,0,1,0,0,"));
}

TEST_CASE("apps: the gate of stats ends with 1 and names what broke it") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", step_file(2));
  CHECK(run({"stats", path, "--fail-if", "underflow > 2%"}).status == 0);
  const Ran failed = run({"stats", path, "--formats", "fp16,bf16", "--fail-if", "underflow > 1%"});
  CHECK(failed.status == 1);
  CHECK(contains(failed.out, "fails: grad in fp16: underflow is 2% (> 1%)"));
  CHECK(!contains(failed.out, "fails: grad in bf16"));
  CHECK(run({"stats", path, "--formats", "fp16,bf16", "--fail-if", "bf16.underflow > 1%"}).status == 0);
  CHECK(run({"stats", path, "--formats", "fp16,bf16", "--fail-if", "underflow>=2 and amax == 1"}).status == 1);
  CHECK(run({"stats", path, "--formats", "fp16,bf16", "--fail-if", "half.underflow > 2 or nan > 0"}).status == 0);
  const Json rows = failing_json({"stats", path, "--formats", "fp16", "--fail-if", "underflow > 1%"});
  CHECK(rows[0]["breaks"] == "underflow is 2% (> 1%)");
  const std::vector<std::pair<std::string, std::string>> wrong = {{"", "position 1"},
                                                                  {"underflow", "position 10"},
                                                                  {"underflow >", "position 12"},
                                                                  {"underfow > 1%", "position 1"},
                                                                  {"underflow > 1% also", "position 16"},
                                                                  {"e9m9.underflow > 1", "position 1"},
                                                                  {"amax > 1%", "position 9"},
                                                                  {"underflow > 1 or", "position 17"},
                                                                  {"fp16.lots > 1", "position 6"}};
  for (const auto& [text, position] : wrong) {
    CAPTURE(text);
    check_refused({"stats", path, "--formats", "fp16", "--fail-if", text}, {"--fail-if", position});
  }
}

TEST_CASE("apps: stats over steps gives a trend and the first step that breaks") {
  const Folder folder;
  folder.write("run_step100.safetensors", step_file(1));
  folder.write("run_step20.safetensors", step_file(1));
  folder.write("run_step300.safetensors", step_file(9));
  folder.write("notes.txt", "no tensors");
  const Ran ran = run({"stats", folder.path(), "--formats", "fp16,bf16"});
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, "1% -> 9%"));
  CHECK(contains(ran.out, "first break: step 300, grad in fp16: underflow is 9%, was 1% at the first step"));
  const Json rows = narrow_json({"stats", folder.path(), "--formats", "fp16"});
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["step"] == 20);
  CHECK(rows[1]["step"] == 100);
  CHECK(rows[1]["breaks"].is_null());
  CHECK(rows[2]["breaks"].is_string());
  const Ran gate = run({"stats", folder.path(), "--formats", "fp16", "--fail-if", "underflow > 5%"});
  CHECK(gate.status == 1);
  CHECK(contains(gate.out, "at step 300"));
  CHECK(contains(run({"stats", folder / "run_step100.safetensors", folder / "run_step20.safetensors"}).out,
                 "nothing breaks"));
  const std::string one = npy_of("<f4", "(1,)", raw(std::vector<float>{1.0f}));
  const std::string a = folder.write("g_1.npy", one), b = folder.write("g_2.npy", one),
                    c = folder.write("other_3.npy", one);
  CHECK(contains(run({"stats", b, a}).out, "nothing breaks"));  // .npy files of one run
  CHECK(contains(run({"stats", a, c}).out, "g_1"));             // unlike files: a table
  CHECK(!contains(run({"stats", a, c}).out, "breaks"));
  for (const std::string& path : {a, b, c}) std::filesystem::remove(path);
  // Overflow at every step is no good start.
  const std::string big = floats_file("grad", {1e6f, 1});
  CHECK(contains(
      run({"stats", folder.write("o_1.safetensors", big), folder.write("o_2.safetensors", big), "--formats", "fp16"})
          .out,
      "first break: step 1, grad in fp16: overflow of 1 (50%)"));
  for (const char* name : {"o_1.safetensors", "o_2.safetensors"}) std::filesystem::remove(folder / name);
  folder.write("run_step30.safetensors", step_file(1, NAN));
  CHECK(contains(run({"stats", folder.path()}).out, "first break: step 30, grad in fp16: NaN in the data: 1"));
}

TEST_CASE("apps: stats has the same output for any number of threads") {
  const Folder folder;
  std::vector<float> values;
  for (int i = 0; i < 200000; ++i)
    values.push_back(std::ldexp(1.0f + static_cast<float>(i % 977) * 0x1p-11f, i % 50 - 40));
  const std::string path = folder.write("a.safetensors", floats_file("w", values));
  const Ran one = run({"stats", path, "--json"}, with_environment("OMP_NUM_THREADS", "1"));
  CHECK(one.status == 0);
  CHECK(run({"stats", path, "--json"}, with_environment("OMP_NUM_THREADS", "3")).out == one.out);
}

TEST_CASE("apps: stats takes integers as codes where a format is named") {
  const Folder folder;
  const std::string path = folder.write("c.npy", npy_of("|u1", "(3,)", std::string("\x38\x01\x7F", 3)));
  const Json row = narrow_json({"stats", path, "--format", "e4m3", "--formats", "fp16"})[0];
  CHECK(row["nan"] == 1);
  CHECK(row["amax"] == 1.0);
  CHECK(row["min_nonzero"] == 0x1p-9);
  check_refused({"stats", path}, {"--format"});
  check_refused({"stats", path, "--format", "bf16"}, {"--format"});
}

TEST_CASE("apps: stats of the given file counts what the scalar functions count") {
  const std::string file = read_file(given_file);
  const Json header = header_of(file);
  const std::string data = data_of(file);
  const Json rows = narrow_json({"stats", given_file, "--formats", "fp16,e5m2"});
  CHECK(rows.size() == 48);
  for (const Json& row : rows) {
    const Json& entry = header[row["tensor"].get<std::string>()];
    const bool half = entry["dtype"] == "F16";
    const narrow::Format f = row["format"] == "fp16" ? "fp16"_fmt : "e5m2"_fmt;
    const std::uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    std::uint64_t underflow = 0, subnormal = 0, zeros = 0;
    for (std::uint64_t at = begin; at < end; at += half ? 2 : 4) {
      float x = 0;
      std::uint16_t code = 0;
      std::memcpy(half ? static_cast<void*>(&code) : &x, data.data() + at, half ? 2 : 4);
      if (half) x = static_cast<float>(narrow::decode(code, "fp16"_fmt));
      const narrow::ValueClass c = narrow::classify(narrow::encode(x, f), f);
      zeros += x == 0 ? 1 : 0;
      underflow += x != 0 && c == narrow::ValueClass::zero ? 1 : 0;
      subnormal += c == narrow::ValueClass::subnormal ? 1 : 0;
    }
    CHECK(row["zeros"] == zeros);
    CHECK(row["underflow"] == underflow);
    CHECK(row["subnormal"] == subnormal);
  }
  CHECK(run({"stats", given_file, "--fail-if", "fp16.underflow > 80%"}).status == 0);
  CHECK(run({"stats", given_file, "--fail-if", "e4m3.underflow > 50%"}).status == 1);
}
