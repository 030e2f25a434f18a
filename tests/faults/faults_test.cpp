// Whatever call of the system fails, the program ends with what it would have said anyway, or with status 2 and one
// line; and its files are the old ones or the whole new ones. NARROW_TEST_SCALE=1000 tries (nearly) every call.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "apps/web_client.hpp"
#include "narrow/base/parallel.hpp"
#include "support/scale.hpp"

namespace {

namespace fs = std::filesystem;
using test::Ran;

constexpr const char* kinds[] = {"open", "stat",   "mmap", "read",   "write",  "close",
                                 "link", "rename", "sync", "malloc", "thread", "socket"};

// @OUT in an argument is a folder of its own for every run, @IN that of the inputs; mkdtemp gives no name with an @, so
// that no folder's own name is taken for either.
struct Case {
  std::vector<std::string> arguments;
  int status = 0;
  bool repeats = true;                      // says and writes the same each time (no times of day, no seconds)
  std::vector<std::string> old_files = {};  // are there before it starts, with something else in them
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder)] = read(entry.path());
  return files;
}

constexpr const char* old_content = "what was there before\n";

struct Result {
  Ran ran;
  std::map<std::string, std::string> files;
};

class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "narrow-faults-XXXXXX").string()) {
    REQUIRE(mkdtemp(path_.data()) != nullptr);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string with(std::string text, const std::string& word, const std::string& value) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + value.size()))
    text.replace(at, word.size(), value);
  return text;
}

// Everything that is said or written with the name of its own folder in it reads alike.
Result run(const Case& c, const std::string& inputs, const std::string& fault, const std::string& counts = "") {
  const Folder out;
  for (const std::string& name : c.old_files) std::ofstream(out.path() + "/" + name) << old_content;
  std::vector<std::string> words = c.arguments;
  for (std::string& word : words) word = with(with(word, "@OUT", out.path()), "@IN", inputs);
  test::RunOptions options;
  options.environment = {{"LD_PRELOAD", NARROW_SHIM}, {"OMP_NUM_THREADS", "2"},    {"HOME", out.path()},
                         {"NARROW_NO_SYNC", "0"},     {"NARROW_EXPLORER", inputs}, {"DISPLAY", ""},
                         {"WAYLAND_DISPLAY", ""}};
  if (!fault.empty()) options.environment.emplace_back("NARROW_FAULT", fault);
  if (!counts.empty()) options.environment.emplace_back("NARROW_FAULT_COUNTS", counts);
  Result result{test::narrow(words, options), files_in(out.path())};
  result.ran.out = with(result.ran.out, out.path(), "OUT");
  for (auto& [name, content] : result.files) content = with(content, out.path(), "OUT");
  return result;
}

// What is wrong with a run in which a call failed; empty where nothing is.
std::string violation(const Case& c, const Result& normal, const Result& faulty) {
  const Ran& ran = faulty.ran;
  for (const auto& [name, content] : faulty.files) {
    const auto whole = normal.files.find(name);
    if (whole == normal.files.end()) return "left " + name;
    const bool is_old =
        std::find(c.old_files.begin(), c.old_files.end(), name) != c.old_files.end() && content == old_content;
    if (!is_old && c.repeats && content != whole->second) return "half of " + name;
  }
  for (const std::string& name : c.old_files)
    if (!faulty.files.contains(name)) return "lost " + name;
  if (ran.status == c.status) {
    if (!c.repeats) return "";
    if (ran.out != normal.ran.out) return "another answer";
    return faulty.files == normal.files ? "" : "success without its files";
  }
  if (ran.status != 2) return "status " + std::to_string(ran.status);
  const std::size_t line = ran.err.rfind("narrow: ");
  return line == std::string::npos || (line != 0 && ran.err[line - 1] != '\n' && ran.err[line - 1] != 'K')
             ? "no message"
             : "";
}

std::vector<long> positions(long count, std::uint64_t wanted) {
  std::set<long> chosen;
  for (std::uint64_t i = 0; i < wanted; ++i)
    chosen.insert(1 + static_cast<long>(static_cast<double>(count - 1) * static_cast<double>(i) /
                                        static_cast<double>(std::max<std::uint64_t>(wanted - 1, 1))));
  return {chosen.begin(), chosen.end()};
}

struct Inputs : Folder {
  Inputs() {
    std::vector<float> values(300);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 97) * 0x1p-12f;
    const std::string x = test::raw(values);
    write("x.safetensors", test::safetensors_of({{"weight", "F32", "[300]", x}, {"grad.w", "F32", "[10,30]", x}}));
    write("x.npy", test::npy("{'descr': '<f4', 'fortran_order': True, 'shape': (20, 15), }", x));
    std::vector<std::uint16_t> ones(16 * 16, 0x3C00), sums(16 * 16, 0x4C00);
    const std::string shape = "{'descr': '<f2', 'fortran_order': False, 'shape': (16, 16), }";
    write("a.npy", test::npy(shape, test::raw(ones)));
    write("d.npy", test::npy(shape, test::raw(sums)));
    write("model.safetensors.index.json",
          R"({"metadata":{},"weight_map":{"weight":"x.safetensors","grad.w":"x.safetensors"}})");
    std::string log = "step,found_inf\n";
    for (int i = 0; i < 40; ++i) log += std::to_string(i) + "," + (i % 9 == 3 ? "1" : "0") + "\n";
    write("log.csv", log);
    write("recipe.json", test::narrow({"train", "--print-recipe", "fp16-amp"}).out);
    write("lesson.md", "# A lesson\n\nWords with $x^2$.\n");
    write("index.html", test::explorer_page);
    std::filesystem::create_directory(path() + "/model");
    write("model/config.json", R"({"model_type": "m"})");
    write("model/model.safetensors", test::safetensors_of({{"m.weight", "F32", "[10,30]", x}}));
  }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path() + "/" + name, std::ios::binary) << content;
  }
};

const std::vector<Case> cases = {
    {{"formats", "fp16", "e4m3"}},
    {{"show", "0.1", "--formats", "fp16,bf16"}},
    {{"inspect", "@IN/x.safetensors"}},
    {{"inspect", "@IN/model.safetensors.index.json", "--json"}},
    {{"cast", "@IN/x.safetensors", "@OUT/y.safetensors", "--to", "e4m3"}, 0, true, {"y.safetensors"}},
    {{"cast", "@IN/x.npy", "@OUT/y.npy", "--to", "fp16"}},
    {{"cast", "@IN/model.safetensors.index.json", "@OUT/y.safetensors", "--to", "mxfp8"}},
    {{"quantize", "@IN/x.safetensors", "@OUT/q.safetensors", "--layout", "deepseek", "--to", "fp8_128x128", "--tensors",
      "grad"},
     0,
     true,
     {"q.safetensors"}},
    {{"quantize", "@IN/model", "@OUT/model", "--layout", "narrow", "--to", "nvfp4"}, 0, false},
    {{"dequantize", "@IN/x.safetensors", "@OUT/d.safetensors"}, 0, true, {"d.safetensors"}},
    {{"lint", "@IN/model", "--json"}},
    {{"stats", "@IN/x.safetensors", "--formats", "fp16,e4m3", "--fail-if", "overflow > 99%", "--json"}},
    {{"histogram", "@IN/x.safetensors", "-o", "@OUT/h.svg"}, 0, true, {"h.svg"}},
    {{"compare", "@IN/x.safetensors", "@IN/x.safetensors"}},
    {{"models", "hopper.wgmma.f32.e4m3.e4m3"}},
    {{"dot", "--model", "hopper.mma.f32.f16.f16.k16", "--a", "1,-1", "--b", "1,1", "--json"}},
    {{"gemm", "--model", "hopper.wgmma.f32.f16.f16", "--a", "@IN/a.npy", "--b", "@IN/a.npy", "-o", "@OUT/d.npy"},
     0,
     true,
     {"d.npy"}},
    {{"op", "softmax", "--x", "@IN/a.npy", "-o", "@OUT/s.npy"}, 0, true, {"s.npy"}},
    {{"validate", "--a", "@IN/a.npy", "--b", "@IN/a.npy", "--d", "@IN/d.npy", "--json"}},
    {{"gpu", "check", "--list"}},
    {{"list-scaling"}},
    {{"scale-trace", "--events", "@IN/log.csv", "--policy", "torch,megatron"}},
    {{"train", "--task", "digits", "--recipe", "@IN/recipe.json", "--steps", "2", "-o", "@OUT/run"}, 0, false},
    {{"all-reduce", "@IN/x.npy", "@IN/x.npy", "--algorithm", "tree", "-o", "@OUT/r.npy"}, 0, true, {"r.npy"}},
    {{"memory", "--layers", "2", "--width", "64"}},
    {{"manual", "validate"}},
    {{"complete", "--", "narrow", "stats", "@IN/x.safetensors", "--tensors", ""}},
    {{"bench", "--quick", "--kernel", "files", "--size", "1", "--repeat", "1", "--dir", "@OUT"}, 0, false},
    {{"list"}},
    {{"run", "gradient_underflow", "gradients=@IN/x.safetensors", "--fast", "-o", "@OUT/run"}},
    {{"report", "--only", "gradient_underflow", "gradients=@IN/x.safetensors", "--fast", "-o", "@OUT/page"}, 0, false},
    {{"notebook", "@IN/lesson.md", "-o", "@OUT/lesson.html"}, 0, true, {"lesson.html"}},
    {{"explore", "@IN/x.safetensors", "--seconds", "0"}, 0, false},
};

}  // namespace

TEST_CASE("faults: every command of the program is among the cases") {
  const std::string help = test::narrow({"--help"}).out;
  std::set<std::string> tried;
  for (const Case& c : cases) tried.insert(c.arguments[0]);
  const std::size_t begin = help.find("Subcommands:"), end = help.find("Examples:");
  std::size_t commands = 0;
  for (std::size_t at = help.find("\n  ", begin); at < end; at = help.find("\n  ", at + 3)) {
    const std::string name = help.substr(at + 3, help.find(' ', at + 3) - at - 3);
    CHECK_MESSAGE(tried.contains(name), name);
    ++commands;
  }
  CHECK(commands == tried.size());
}

TEST_CASE("faults: a call that fails gives the usual answer or status 2 and a message, and old or whole new files") {
  const Inputs inputs;
  struct Trial {
    std::size_t which;
    std::string fault;
  };
  std::vector<Trial> trials;
  std::vector<Result> normal(cases.size());
  std::map<std::string, long> all_calls;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Folder counts;
    normal[i] = run(cases[i], inputs.path(), "", counts.path() + "/counts");
    CAPTURE(cases[i].arguments[0]);
    CAPTURE(normal[i].ran.err);
    REQUIRE(normal[i].ran.status == cases[i].status);
    std::ifstream lines(counts.path() + "/counts");
    std::string kind;
    for (long count = 0; lines >> kind >> count;) {
      all_calls[kind] += count;
      // Memory is asked for thousands of times, a program that draws hundreds of times, the system tens of times.
      const std::uint64_t wanted = kind == "malloc" || kind == "socket" ? test::scaled(6, 2) : test::scaled(2, 1);
      if (count == 0) continue;
      for (const long n : positions(count, wanted)) trials.push_back({i, kind + " " + std::to_string(n)});
      if (NARROW_HAS_CUDA && kind == "malloc") continue;  // cuBLASLt dies before main
      trials.push_back({i, kind + " 1+"});  // from the first on: threads cannot be made, the disk is full
    }
  }
  for (const char* kind : kinds) CHECK_MESSAGE(all_calls[kind] > 0, kind);

  std::mutex lock;
  std::map<std::string, std::string> violations;
  narrow::parallel_parts(trials.size(), 1, 0, [&](std::size_t t, std::size_t) {
    const Case& c = cases[trials[t].which];
    const Result faulty = run(c, inputs.path(), trials[t].fault);
    const std::string problem = violation(c, normal[trials[t].which], faulty);
    if (problem.empty()) return;
    const std::lock_guard<std::mutex> hold(lock);
    violations[c.arguments[0] + " " + c.arguments[1 % c.arguments.size()] + ", " + trials[t].fault] =
        problem + ": " + faulty.ran.err.substr(0, 200);
  });
  MESSAGE(trials.size() << " runs with a failing call");
  for (const auto& [what, problem] : violations) CHECK_MESSAGE(problem == "", what);
}

// The requests before and after: what one client meets is not what ends the program.
TEST_CASE("faults: a server whose calls fail serves the next client or ends with status 2 and a message") {
  std::size_t served = 0, ended = 0;
  for (std::uint64_t n = 1; n <= test::scaled(30, 20); ++n)
    for (const bool and_on : {false, true}) {
      if (and_on && n > 12) continue;
      const std::string fault = "socket " + std::to_string(n) + (and_on ? "+" : "");
      CAPTURE(fault);
      test::Explorer explorer({test::given_file, "--no-open"}, {},
                              {{"LD_PRELOAD", NARROW_SHIM}, {"NARROW_FAULT", fault}});
      bool is_there = explorer.port() > 0;
      for (int i = 0; i < 4 && explorer.port() > 0; ++i)
        is_there = test::Client(explorer.port()).is_connected() && explorer.get("files/0").status == 200;
      const Ran ran = explorer.end(is_there ? SIGINT : 0);  // it ends by itself where it cannot go on
      CAPTURE(ran.err);
      CHECK(ran.status == (is_there ? 0 : 2));
      CHECK((ran.status == 2) == (ran.err.rfind("narrow: 127.0.0.1: ", 0) == 0));
      ++(ran.status == 0 ? served : ended);
    }
  CHECK(served > 0);
  CHECK(ended > 0);
}
