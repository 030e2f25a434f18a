// What narrow list, run and report print and write, and how they refuse.
#include <sys/stat.h>

#include <cmath>

#include "tensor_files.hpp"

using namespace test;

namespace {

// The cheapest experiments, which need no training and no large data.
const std::string cheap = "memory_and_speed,format_choice";

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

TEST_CASE("apps: report --resume takes what was finished, unless it is damaged, of other data, or of another program") {
  const Folder folder;
  const std::vector<float> values(1000, 1e-6f);
  const auto grads = [&](float scale) {
    std::vector<float> v = values;
    for (std::size_t i = 0; i < v.size(); ++i) v[i] *= scale * static_cast<float>(i % 13);
    folder.write("g.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }", raw(v)));
  };
  const auto report = [&](const std::string& out) {
    return run({"report", "gradients=" + folder / "g.npy", "--only", "gradient_underflow,format_choice", "--fast",
                "--resume", "-o", folder / out});
  };
  const auto csvs = [&](const std::string& out) {
    std::string all;
    for (const auto& entry : std::filesystem::directory_iterator(folder / out)) {
      CHECK_MESSAGE(entry.path().extension() != ".waiting", entry.path().string());
      if (entry.path().extension() == ".csv") all += entry.path().filename().string() + read_file(entry.path());
    }
    return all;
  };
  grads(1);
  CHECK(report("fresh").status == 0);
  const std::string expected = csvs("fresh");
  // A run that is broken off: the second experiment cannot be written over a folder of its name.
  std::filesystem::create_directories(folder / "broken/index.html");
  CHECK(report("broken").status == 2);
  const std::string waiting = folder / "broken/gradient_underflow.waiting", kept = read_file(waiting);
  REQUIRE(kept.size() > 100);
  std::filesystem::remove(folder / "broken/index.html");
  std::filesystem::rename(folder / "broken", folder / "moved");
  CHECK(report("moved").status == 0);  // files go where -o says
  CHECK(csvs("moved") == expected);
  CHECK(!std::filesystem::exists(folder / "broken"));
  for (const std::size_t at : {std::size_t{0}, kept.size() / 3, kept.size() / 2, kept.size() - 1}) {
    std::string damaged = kept;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    std::filesystem::create_directory(folder / "again");
    folder.write("again/gradient_underflow.waiting", damaged);
    CHECK(report("again").status == 0);
    CHECK(csvs("again") == expected);
  }
  std::filesystem::create_directory(folder / "other");
  folder.write("other/gradient_underflow.waiting", kept);
  grads(0.01f);
  CHECK(report("other").status == 0);
  CHECK(csvs("other") != expected);
}

TEST_CASE("apps: list names the experiments with their parameters") {
  const Json all = narrow_json({"list"});
  CHECK(all.size() >= 10);
  for (const Json& e : all) {
    CHECK(e["question"].get<std::string>().ends_with("?"));
    CHECK(e["parameters"].is_array());
  }
  const Json one = narrow_json({"list", "format_choice"});
  REQUIRE(one.size() == 1);
  CHECK(one[0]["parameters"][2]["name"] == "samples");
  CHECK(one[0]["parameters"][2]["default"].is_number());
  CHECK(contains(run({"list"}).out, "gradient_underflow\n  "));
  check_refused({"list", "format_choic"}, {"did you mean 'format_choice'?"});
}

TEST_CASE("apps: run writes tables and pictures and prints the finding") {
  const Folder folder;
  const std::string out = folder / "a/b";
  const Ran ran = run({"run", "format_choice", "-o", out, "--fast"});
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, "dB"));
  CHECK(contains(ran.out, "written to " + out));
  const std::vector<std::string> names = files_in(out);
  for (const char* name : {"format_choice.json", "format_choice.md", "format_choice_best.csv",
                           "format_choice_splits.csv", "format_choice_splits.svg"})
    CHECK_MESSAGE(has(names, name), name);
  const Json json = Json::parse(read_file(out + "/format_choice.json"));
  CHECK(contains(ran.out, json["finding"].get<std::string>()));
  CHECK(json["parameters"]["samples"] == "32768");
  CHECK(json["command"] == "narrow run format_choice --fast -o out");
  CHECK(read_file(out + "/format_choice_best.csv").rfind("# narrow ", 0) == 0);
  CHECK(contains(read_file(out + "/format_choice.md"), "![In 8 bits"));
}

TEST_CASE("apps: run without a folder prints its tables and run with --json prints JSON") {
  CHECK(contains(run({"run", "memory_and_speed"}).out, "bf16-amp"));
  const Json json = narrow_json({"run", "memory_and_speed", "layers=2"});
  CHECK(json["parameters"]["layers"] == "2");
  CHECK(json["tables"][0]["rows"][0][0] == "fp32");
  CHECK(json["tables"][0]["rows"][0][6] == 16);  // 4 + 4 + 8 bytes: AdamW in FP32
}

TEST_CASE("apps: without gnuplot the numbers still come and one line says what to install") {
  const Folder folder;
  const Ran ran = run({"run", "memory_and_speed", "-o", folder.path()}, with_environment("PATH", "/nonexistent"));
  CHECK(ran.status == 0);
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  CHECK(contains(ran.err, "gnuplot-nox"));
  const std::vector<std::string> names = files_in(folder.path());
  CHECK(has(names, "memory_and_speed_memory.csv"));
  CHECK(has(names, "memory_and_speed_memory.svg"));
  CHECK(!has(names, "memory_and_speed_memory.png"));
}

TEST_CASE("apps: an experiment takes a file of the user and refuses one without numbers") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", floats_file("w", {1.0f, 0.5f, -3.0f, 0.01f}));
  CHECK(run({"run", "format_choice", "tensors=" + path}).status == 0);
  const std::string integers =
      folder.write("i.safetensors", safetensors_of({{"w", "I32", "[1]", raw(std::vector<int>{1})}}));
  check_refused({"run", "format_choice", "tensors=" + integers}, {"i.safetensors"});
  check_refused({"run", "gradient_underflow", "gradients=" + integers}, {"i.safetensors"});
  check_refused({"run", "format_choice", "tensors=/nonexistent/x.npy"}, {"/nonexistent/x.npy"});
  const std::string zeros = folder.write("z.safetensors", floats_file("w", {0.0f, 0.0f}));
  check_refused({"run", "format_choice", "tensors=" + zeros}, {"zero"});
  const Ran ran = run({"run", "gradient_underflow", std::string("gradients=") + given_file, "-o", folder / "g"});
  CHECK(ran.status == 0);
}

TEST_CASE("apps: run and report refuse with one line before any work") {
  const Folder folder;
  check_refused({"run"}, {"no experiment", "narrow list"});
  check_refused({"run", "gradient_undreflow"}, {"did you mean 'gradient_underflow'?"});
  check_refused({"run", "format_choice", "smaples=5"}, {"did you mean 'samples'?"});
  check_refused({"run", "format_choice", "samples=1e99"}, {"out of range"});
  check_refused({"run", "format_choice", "--fast", "--full"}, {"--fast and --full"});
  check_refused({"run", "format_choice", "--plot-backend", "x"}, {"--plot-backend", "gnuplot"});
  check_refused({"report"}, {"no folder"});
  check_refused({"report", "-o", folder.path(), "--only", "nothing_like_it"}, {"--only", "experiments:"});
  check_refused({"report", "-o", folder.path(), "--only", ","}, {"--only"});
  const std::string file = folder.write("file", "x");
  check_refused({"run", "memory_and_speed", "-o", file}, {"file", "name another folder"});
  check_refused({"report", "-o", file + "/deep", "--only", cheap}, {"name another folder"});
  if (geteuid() == 0) return;  // root may write everywhere
  const std::string closed = folder / "closed";
  mkdir(closed.c_str(), 0500);
  check_refused({"report", "-o", closed, "--only", cheap}, {"cannot be written"});
}

TEST_CASE("apps: the same report twice is the same bit for bit with any number of threads") {
  const Folder folder;
  const auto options = [](const char* threads) {
    RunOptions o = with_environment("OMP_NUM_THREADS", threads);
    o.limit = std::chrono::seconds(120);
    return o;
  };
  CHECK(run({"report", "-o", folder / "a", "--fast", "--only", cheap}, options("1")).status == 0);
  CHECK(run({"report", "-o", folder / "b", "--fast", "--only", cheap}, options("3")).status == 0);
  const std::vector<std::string> names = files_in(folder / "a");
  CHECK(has(names, "index.html"));
  CHECK(names == files_in(folder / "b"));
  for (const std::string& name : names)
    CHECK_MESSAGE(read_file(folder / ("a/" + name)) == read_file(folder / ("b/" + name)), name);
}

TEST_CASE("apps: an experiment that fails is shown as failed and the others still come") {
  const Folder folder;
  std::filesystem::create_directories(folder / "data/golden");
  std::filesystem::create_directories(folder / "data/torch");
  std::filesystem::copy(NARROW_DATA "/golden/h200-bench.txt", folder / "data/golden");
  folder.write("data/torch/histograms.json", "{ this is no JSON");
  RunOptions options = with_environment("NARROW_DATA", folder / "data");
  options.limit = std::chrono::seconds(120);
  const Ran ran =
      run({"report", "-o", folder / "out", "--fast", "--only", "gradient_underflow,memory_and_speed"}, options);
  CHECK(ran.status == 2);
  CHECK(contains(ran.err, "1 of 2 experiments failed"));
  CHECK(contains(ran.out, "failed: "));
  const std::string page = read_file(folder / "out/index.html");
  CHECK(contains(page, "This experiment failed."));
  CHECK(contains(page, "id=\"memory_and_speed\""));
  CHECK(contains(page, "<svg"));
  CHECK(has(files_in(folder / "out"), "memory_and_speed_memory.csv"));
  const Ran json = run({"report", "-o", folder / "out", "--fast", "--only", "gradient_underflow", "--json"}, options);
  CHECK(json.status == 2);
  CHECK(Json::parse(json.out)["failed"] == true);
  CHECK(Json::parse(json.out)["experiments"][0]["failure"].is_string());
}

TEST_CASE("apps: the progress bar names the experiment") {
  const Folder folder;
  const Ran ran = run({"report", "-o", folder.path(), "--fast", "--only", "memory_and_speed"});
  CHECK(ran.err == "");  // standard error is no terminal: no bar
  CHECK(contains(ran.out, "the page: " + folder.path() + "/index.html"));
}

// Gradients go to the experiments that take gradients, the others show what they always show; the page says which.
TEST_CASE("apps: report gives its parameters to every experiment that has them and says whose data it shows") {
  const Folder folder;
  const std::string grads = folder.write("mine.safetensors", floats_file("w.grad", {1e-9f, 2e-9f, 0.5f, 1.0f}));
  const std::string only = "gradient_underflow,gradient_accumulation,format_choice,fp8_scaling,memory_and_speed";
  const Ran ran =
      run({"report", "gradients=" + grads, "tensors=" + grads, "-o", folder / "out", "--fast", "--only", only});
  CAPTURE(ran.err);
  CHECK(ran.status == 0);
  const std::string page = read_file(folder / "out/index.html");
  const auto count = [&](const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = page.find(part); at != std::string::npos; at = page.find(part, at + 1)) ++found;
    return found;
  };
  CHECK(count("<p class=\"note\">Data: mine.safetensors.</p>") == 3);  // underflow, format choice, FP8
  CHECK(count("<p class=\"note\">Data: recorded: ") == 2);
  CHECK(contains(page, "narrow report gradients=" + grads));
  CHECK(contains(page, "narrow run gradient_underflow gradients=" + grads));
  const Json json = narrow_json({"report", "gradients=" + grads, "-o", folder / "out", "--fast", "--only",
                                 "gradient_underflow,memory_and_speed"});
  CHECK(json["experiments"][0]["data"] == "mine.safetensors");
  CHECK(json["experiments"][1]["data"].get<std::string>().starts_with("recorded: "));
}

TEST_CASE("apps: report refuses parameters that no experiment has and files that are none before any work") {
  const Folder folder;
  const std::string out = folder / "out";
  check_refused(
      {"report", "gradient=x.npy", "-o", out, "--only", "gradient_underflow,format_choice"},
      {"'gradient'", "did you mean 'gradients'?", "parameters: by, gradients, run, samples, seed, step, tensors"});
  check_refused({"report", "samples=1e99", "-o", out, "--only", "format_choice"}, {"format_choice", "out of range"});
  check_refused({"report", "gradients=/nonexistent/g.npy", "-o", out}, {"/nonexistent/g.npy"});
  check_refused({"report", "gradients=-", "-o", out}, {"standard input"});
  check_refused({"report", "gradients", "-o", out}, {"gradients=VALUE"});
  CHECK_FALSE(std::filesystem::exists(out));
}

// What comes in one piece at the end holds the last line too.
TEST_CASE("apps: report prints each finding to a pipe when it has it") {
  const Folder folder;
  const std::string command = std::string(NARROW_PROGRAM) +
                              " report --fast --only gradient_underflow,stochastic_rounding -o " + (folder / "out");
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 65536> buffer{};
  const ssize_t got = read(fileno(pipe), buffer.data(), buffer.size());
  REQUIRE(got > 0);
  const std::string first(buffer.data(), static_cast<std::size_t>(got));
  CHECK(first.starts_with("gradient_underflow  "));
  CHECK(std::count(first.begin(), first.end(), '\n') == 1);
  CHECK(!contains(first, "stochastic_rounding"));
  while (read(fileno(pipe), buffer.data(), buffer.size()) > 0) continue;
  CHECK(pclose(pipe) == 0);
}

// The loss scale of the experiment and that of stats follow one rule.
TEST_CASE("apps: the loss scale that gradient_underflow names is that of stats --scale auto") {
  const Folder folder;
  for (const std::vector<float>& values : {std::vector<float>{1, 0x1p-30f}, {1e-9f, 3}, {0.5f}, {70000, 1}}) {
    const std::string path = folder.write("g.safetensors", floats_file("w.grad", values));
    const double scale = narrow_json({"stats", path, "--formats", "fp16", "--scale", "auto"})[0]["scale"];
    const std::string power = "2^" + std::to_string(std::ilogb(scale));
    const std::string finding = narrow_json({"run", "gradient_underflow", "gradients=" + path})["finding"];
    CAPTURE(finding);
    CHECK(contains(finding, scale == 1 ? "no other scale without overflow" : power));
  }
}
