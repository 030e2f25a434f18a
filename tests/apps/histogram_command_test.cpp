// What narrow histogram writes: CSV, JSON, and the picture in text.
#include <cmath>

#include "tensor_files.hpp"

using namespace test;

TEST_CASE("apps: histogram counts binades by sign") {
  const Folder folder;
  const std::string path = folder.write(
      "a.safetensors", floats_file("w", {0.0f, -0.0f, 1.0f, 1.5f, -1.0f, 0x1p-130f, 5.0f, -INFINITY, NAN}));
  const Json rows = narrow_json({"histogram", path});
  const auto find = [&](const Json& exponent) {
    for (const Json& row : rows)
      if (row["exponent"] == exponent) return row;
    return Json();
  };
  CHECK(find("zero")["negative"] == 1);
  CHECK(find("zero")["positive"] == 1);
  CHECK(find(0)["positive"] == 2);
  CHECK(find(0)["negative"] == 1);
  CHECK(find(2)["positive"] == 1);
  CHECK(find("subnormal")["positive"] == 1);
  CHECK(find("inf")["negative"] == 1);
  CHECK(find("nan")["tensor"] == "w");
  const Ran csv = run({"histogram", path});
  CHECK(csv.out == "file,tensor,exponent,negative,positive\n" + path + ",w,zero,1,1\n" + path + ",w,subnormal,0,1\n" +
                       path + ",w,0,1,2\n" + path + ",w,2,0,1\n" + path + ",w,inf,1,0\n" + path + ",w,nan,0,1\n");
  const std::string out = folder / "o.csv";
  const Ran quiet = run({"histogram", path, "-o", out});
  CHECK(quiet.status == 0);
  CHECK(quiet.out == "");
  CHECK(read_file(out) == csv.out);
}

TEST_CASE("apps: histogram shifts with the scale and keeps the range of doubles") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", floats_file("w", {1.0f}));
  CHECK(narrow_json({"histogram", path, "--scale", "2^-7"})[0]["exponent"] == -7);
  const std::string wide =
      folder.write("d.safetensors", safetensors_of({{"w", "F64", "[2]", raw(std::vector<double>{1e-300, 1e300})}}));
  const Json rows = narrow_json({"histogram", wide});
  CHECK(rows[0]["exponent"] == -997);
  CHECK(rows[1]["exponent"] == 996);
}

TEST_CASE("apps: histogram draws bars beside the ranges of formats on a terminal") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", floats_file("w", {0x1p-5f, 0x1p-7f, 0x1p-7f, 0x1p-12f, 0.0f}));
  const Ran text = run({"histogram", path, "--text", "--formats", "e4m3,e2m1"});
  CHECK(text.status == 0);
  CHECK(contains(text.out, "e4m3 e2m1"));
  const auto line_of = [&](const std::string& label) {
    const std::size_t at = text.out.find(label + " ");
    return at == std::string::npos ? std::string() : text.out.substr(at, text.out.find('\n', at) - at);
  };
  CHECK(line_of("2^-5").back() == '#');   // normal in e4m3
  CHECK(line_of("2^-7").back() == ':');   // subnormal
  CHECK(line_of("2^-12").back() == '=');  // out of both ranges: the bar is the last
  CHECK(contains(line_of("2^-7"), "2 (40%)"));
  RunOptions on_terminal = with_environment("NO_COLOR", "1");
  on_terminal.output = RunOptions::Output::terminal;
  const Ran terminal = run({"histogram", path}, on_terminal);
  CHECK(contains(terminal.out, "2^-12"));
  CHECK(!contains(terminal.out, "file,tensor"));
}

TEST_CASE("apps: histogram draws the ranges of the formats under the bars") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", floats_file("w", {1.0f, 0x1p-20f, 0x1p-30f, 0x1p20f}));
  // Without gnuplot on PATH the program writes the SVG itself.
  const std::string svg = folder / "p.svg";
  CHECK(run({"histogram", path, "-o", svg}, with_environment("PATH", folder / "")).status == 0);
  const std::string text = read_file(svg);
  CHECK(contains(text, "fp16 turns 25 % of the values into zero and 25 % into subnormals; 25 % are beyond its range"));
  for (const char* word :
       {">normal<", ">becomes zero<", "fp16: 25 % zero", "bf16: 0 % zero", ">bf16<", ">e4m3<", ">e5m2<", "</svg>"})
    CHECK_MESSAGE(contains(text, word), word);
  const Ran png = run({"histogram", path, "-o", folder / "p.png"}, with_environment("PATH", folder / ""));
  CHECK(png.status == 2);
  CHECK(contains(png.err, "gnuplot-nox"));
  check_refused({"histogram", path, "-o", folder / "p.txt"}, {".csv, .png, .svg"});
  check_refused({"histogram", path, "--scale", "0"}, {"--scale"});
  check_refused({"histogram", path, "--formats", "fp8"}, {"--formats"});
}

TEST_CASE("apps: a picture of many tensors is pooled and says so or has panels for each") {
  const Folder folder;
  std::vector<Entry> entries;
  for (int i = 0; i < 8; ++i)
    entries.push_back(
        {"layer" + std::to_string(i), "F32", "[32]", raw(std::vector<float>(32, std::ldexp(1.0f, -4 * i)))});
  const std::string path = folder.write("a.safetensors", safetensors_of(entries)), svg = folder / "p.svg";
  const auto drawn = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"histogram", path, "-o", svg});
    CHECK(run(more, with_environment("PATH", folder / "")).status == 0);
    return read_file(svg);
  };
  const std::string pooled = drawn({"--formats", "fp16"});
  CHECK(contains(pooled, "8 tensors pooled of a.safetensors (--per-tensor draws each)"));
  CHECK(!contains(pooled, ">layer3<"));
  const std::string each = drawn({"--formats", "fp16", "--per-tensor"});
  CHECK(!contains(each, "pooled"));
  for (const char* title : {">layer0<", ">layer7<"}) CHECK(contains(each, title));
  CHECK(contains(drawn({"--formats", "fp16,e4m3", "--per-tensor"}), "layer7, e4m3: 100 % zero"));
  CHECK(contains(drawn({"--formats", "fp16", "--total"}), "all 8 tensors of a.safetensors"));
  // What a block format makes of each value, not of its binade: 2^-28 alone in its block stays.
  const std::string blocks = drawn({"--formats", "fp16,mxfp8_e4m3"});
  CHECK(contains(blocks, "mxfp8_e4m3: 0 % zero"));
  CHECK(contains(blocks, "fp16: 12.5 % zero"));
  check_refused({"histogram", path, "--total", "--per-tensor"}, {"--total"});
  const Ran text = run({"histogram", path + ":layer7", "--text", "--formats", "e4m3,mxfp8_e4m3"});
  CHECK(contains(text.out, "e4m3 mxfp8_e4m3"));
  CHECK(contains(text.out, "what most values of the binade become"));
  const std::size_t line = text.out.find("2^-28");
  CHECK(text.out.substr(line, text.out.find('\n', line) - line).back() == '#');
}

// 500 lies in the last binade of E4M3 and is beyond its largest value, 448.
TEST_CASE("apps: the headline of a histogram counts what is beyond the largest value") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", floats_file("w", {500, 400, 1, 1})), svg = folder / "p.svg";
  CHECK(run({"histogram", path, "--formats", "e4m3", "-o", svg}, with_environment("PATH", folder / "")).status == 0);
  CHECK(contains(read_file(svg), "25 % are beyond its range"));
}

TEST_CASE("apps: histogram of the given file counts every element") {
  std::uint64_t total = 0;
  for (const Json& row : narrow_json({"histogram", given_file}))
    total += row["negative"].get<std::uint64_t>() + row["positive"].get<std::uint64_t>();
  CHECK(total == 753920);
  const Json all = narrow_json({"histogram", given_file, "--total"});
  CHECK(all[0]["exponent"] == "zero");
  CHECK(all[0]["negative"].get<int>() + all[0]["positive"].get<int>() == 13056);
}
