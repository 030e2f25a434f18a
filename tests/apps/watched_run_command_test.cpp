// The commands on the folder of a watched run: what they say is what they say of the values themselves.
#include <cmath>

#include "tensor/watched_folder.hpp"
#include "tensor_files.hpp"

using namespace test;

namespace {

// Around the limits of fp16 and e4m3, with something of every kind.
std::vector<float> values_of(int seed) {
  std::vector<float> values{0.0f, -0.0f, 1e-9f, -3e-8f, 6e-5f, 500.0f, -0.002f, 65519.0f};
  for (int e = -30; e < 10; ++e) values.push_back(std::ldexp(1.0f + static_cast<float>((e + seed) & 7) / 8, e));
  return values;
}

const std::vector<Watched>& tensors() {
  static const std::vector<Watched> all = {{0, "gradient", "w", values_of(1)},
                                           {0, "activation", "w", values_of(2)},
                                           {50, "gradient", "w", values_of(3)},
                                           {50, "activation", "w", values_of(4)},
                                           {100, "gradient", "w", {1, 2}}};  // killed here
  return all;
}

using Words = std::vector<std::string>;

Words also(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// CSV without its first column.
std::string without_file(const std::string& csv) {
  std::string out;
  for (std::size_t at = 0, end = 0; (end = csv.find('\n', at)) != std::string::npos; at = end + 1)
    out += csv.substr(csv.find(',', at), end + 1 - csv.find(',', at));
  return out;
}

}  // namespace

TEST_CASE("apps: stats of a watched run are those of the values") {
  const Folder folder, files;
  const std::string run_folder = write_run(folder, tensors());
  const Ran ran = run({"stats", run_folder, "--json", "--sort", "name"});
  CHECK(ran.status == 0);
  CHECK(contains(ran.err, "watched at steps 0, 50 and 100; shown is step 50, the last with all its tensors"));
  const Json rows = Json::parse(ran.out);
  REQUIRE(rows.size() == 4);
  CHECK(rows[0]["tensor"] == "activation/w@50");
  CHECK(rows[2]["tensor"] == "gradient/w@50");
  const std::string file = files.write("a.safetensors", floats_file("w", values_of(3)));
  const Json truth = narrow_json({"stats", file, "--formats", "fp16,e4m3", "--sort", "name"});
  for (const std::size_t k : {0, 1}) {
    CHECK(rows[2 + k]["step"] == 50);
    CHECK(rows[2 + k]["saturated"].is_null());
    CHECK(rows[2 + k]["max_relative_error"].is_null());
    for (const char* key : {"format", "scale", "count", "zeros", "nan", "inf", "underflow", "subnormal", "overflow",
                            "amax", "min_nonzero", "mse", "sqnr_db"})
      CHECK_MESSAGE(rows[2 + k][key] == truth[k][key], key);
  }
}

TEST_CASE("apps: stats of a watched run follow a tensor over the steps and pass or fail") {
  const Folder folder;
  const std::string path = write_run(
      folder,
      {{0, "gradient", "w", {1, 2, 3}}, {50, "gradient", "w", {1, 2, 1e-9f}}, {100, "gradient", "w", {1, 2, 7e4f}}});
  const Ran trend = run({"stats", path, "--tensors", "."});
  CHECK(trend.err == "");
  CHECK(contains(trend.out, "first break: step 50, gradient/w in fp16: underflow is 33.3%, was 0% at the first step"));
  const Ran gate = run({"stats", path, "--tensors", "@(0|100)$", "--fail-if", "fp16.overflow > 0"});
  CHECK(gate.status == 1);
  CHECK(contains(gate.out, "fails: gradient/w@100 in fp16: fp16.overflow is 1 (> 0)\n"));
  CHECK(run({"stats", path, "--tensors", "@0$", "--fail-if", "fp16.overflow > 0"}).status == 0);
  CHECK(contains(run({"stats", path, "--tensors", "@0$", "--fail-if", "saturated > 0"}).out,
                 "undefined, because the folder of the run does not tell"));
}

TEST_CASE("apps: gradients of a watched run have their loss scale in the column of scales") {
  const Folder folder;
  const Json rows =
      Json::parse(run({"stats", write_run(folder, {{7, "gradient", "w", {8, 0x1p-12f}, 1024}}), "--json"}).out);
  CHECK(rows[0]["scale"] == 1024.0);
  CHECK(rows[0]["amax"] == 8.0 / 1024);
  CHECK(rows[0]["min_nonzero"] == 0x1p-22);
  CHECK(rows[0]["format"] == "e4m3");
  CHECK(rows[0]["underflow"] == 1);  // of what was in memory
  CHECK(rows[0]["mse"] == 0x1p-24 / 2 * 0x1p-20);
  const Folder dead;  // a scale that became 0: what was before it is not known
  const Json none = Json::parse(run({"stats", write_run(dead, {{7, "gradient", "w", {0, 0}, 0}}), "--json"}).out);
  CHECK(none[0]["amax"].is_null());
  CHECK(none[0]["zeros"] == 2);
  const Ran text = run({"histogram", folder.path(), "--text"});
  CHECK(contains(text.out, "gradient/w@7: 2 values, times 2^10\n"));
  CHECK(contains(text.err, "of what was in memory: times the loss scale, 2^10"));
}

TEST_CASE("apps: formats and scales that were not watched are derived exactly or refused") {
  const Folder folder;
  const std::string path = write_run(folder, {{0, "gradient", "w", {1, 1.5f, 0x1p-40f, -4}}});
  const Json rows = Json::parse(run({"stats", path, "--formats", "e5m2,bf16", "--json", "--sort", "name"}).out);
  CHECK(rows[0]["underflow"] == 1);
  CHECK(rows[0]["mse"].is_null());
  CHECK(rows[1]["underflow"] == 0);
  const Json scaled = Json::parse(run({"stats", path, "--scale", "2^14", "--json", "--formats", "fp16"}).out);
  CHECK(scaled[0]["scale"] == 16384.0);
  CHECK(scaled[0]["overflow"] == 1);   // 2^16
  CHECK(scaled[0]["underflow"] == 1);  // 2^-26
  // 2^-25 ties to zero and the rest of its binade does not.
  check_refused({"stats", path, "--scale", "2^15", "--formats", "fp16"}, {"fp16 at 2^15 was not watched"});
  check_refused({"stats", path, "--formats", "e2m1"}, {"e2m1 was not watched", "'gradient/w@0'", "watched: fp16,e4m3"});
}

TEST_CASE("apps: a watched run refuses what needs the values") {
  const Folder folder;
  const std::string path = write_run(folder, tensors()), file = folder.write("a.safetensors", floats_file("w", {1}));
  check_refused({"stats", path, "--total"}, {"holds counts of a watched run, not its values", "--total"});
  check_refused({"stats", path, "--formats", "nvfp4"}, {"'nvfp4' needs those"});
  check_refused({"stats", path, "--scale", "3"}, {"no power of two"});
  check_refused({"stats", path, "--scale", "auto"}, {"'auto'"});
  check_refused({"stats", path, "--cast", "torch"}, {"plain cast"});
  check_refused({"stats", path, "--format", "bf16"}, {"--format goes with tensor files"});
  check_refused({"stats", file, path}, {"stands alone", "a.safetensors"});
  check_refused({"histogram", path, file}, {"stands alone"});
  check_refused({"stats", path, "--tensors", "nothing"}, {"no name in", "matches 'nothing'", "'gradient/w@0'"});
  check_refused({"histogram", path, "--scale", "2^-100"}, {"are below 2^-126"});
  check_refused({"histogram", path, "--text", "--formats", "mxfp8_e4m3"}, {"'mxfp8_e4m3' needs those"});
  const Folder broken;
  write_run(broken, watched_line(tensors()[0]) + "{}\n");
  for (const char* command : {"stats", "histogram"})
    check_refused({command, broken.path()}, {broken / "tensors.jsonl: line 2: there is no \"step\""});
  const Folder empty;
  check_refused({"stats", write_run(empty, "")}, {"has no tensors"});
}

TEST_CASE("apps: histogram of a watched run is that of the values, also drawn") {
  const Folder folder, files;
  const std::string path = write_run(folder, tensors());
  const std::string file = files.write("a.safetensors", floats_file("gradient/w@50", values_of(3)));
  const Words of_run{"histogram", path, "--tensors", "gradient/w@50"}, of_file{"histogram", file};
  for (const Words& more : {Words{}, Words{"--scale", "2^3"}}) {
    const Ran truth = run(also(of_file, more));
    CHECK(truth.status == 0);
    CHECK(without_file(run(also(of_run, more)).out) == without_file(truth.out));
  }
  const Words text{"--text", "--formats", "fp16,e4m3"};
  CHECK(run(also(of_run, text)).out == run(also(of_file, text)).out);
  const std::string a = folder / "a.svg", b = files / "b.svg";
  if (run(also(of_run, {"-o", a})).status != 0) return;  // without gnuplot nothing is drawn
  CHECK(run(also(of_file, {"--formats", "fp16,e4m3", "-o", b})).status == 0);
  std::string drawn = read_file(a), truth = read_file(b);
  const std::string name = path.substr(path.rfind('/') + 1);
  for (std::size_t at = 0; (at = drawn.find(" of " + name, at)) != std::string::npos;)  // a description, and words
    drawn.replace(at, 4 + name.size(), " of a.safetensors");
  CHECK(drawn == truth);
  check_refused({"histogram", path, "-o", a, "--formats", "e5m2"}, {"e5m2 was not watched"});
}

TEST_CASE("apps: scale-trace reads the log of a watched run, torn or not") {
  const Folder folder;
  const std::string log = "{\"step\": 0, \"scale\": 65536.0, \"found_inf\": false, \"amax\": 0.5}\n";
  const std::string path = write_run(folder, tensors(), log + "{\"step\": 1, \"sca");
  const Ran ran = run({"scale-trace", "--events", path, "--policy", "torch"});
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, ": 1 step with amax and scale and found_inf"));
  const Folder without;
  const Ran gradients = run({"scale-trace", "--events", write_run(without, tensors()) + "/", "--policy", "torch"});
  CHECK(contains(gradients.out, ": the largest of all gradients of 3 watched steps: 3 steps with amax"));
  const Folder none;
  check_refused({"scale-trace", "--events", write_run(none, {{0, "activation", "w", {1}}})},
                {"neither steps of a loss scaler nor gradients"});
}

TEST_CASE("apps: run and report give a watched run to the experiments that take one") {
  const Folder folder;
  const std::string path = write_run(folder, tensors());
  const std::string only = "watched_run,gradient_underflow,loss_scaling";
  const Json json = narrow_json({"report", "run=" + path, "steps=20", "--fast", "--only", only, "-o", folder / "page"});
  REQUIRE(json["experiments"].size() == 3);
  CHECK(json["failed"] == false);
  CHECK(json["experiments"][0]["name"] == "watched_run");
  const std::string name = path.substr(path.rfind('/') + 1);
  for (const Json& e : json["experiments"]) CHECK(contains(e["data"], name));
  CHECK(contains(read_file(folder / "page/index.html"), "What did formats do to this run?"));
  check_refused({"run", "watched_run", "run=/nowhere"}, {"'/nowhere'", "it has no run.json"});
  check_refused({"report", "run=/nowhere", "-o", folder / "other"}, {"'/nowhere'", "it has no run.json"});
  folder.write("tensors.jsonl", "{}\n");
  check_refused({"report", "run=" + path, "-o", folder / "other"}, {"tensors.jsonl: line 1: "});
  CHECK_FALSE(std::filesystem::exists(folder / "other"));
}
