// Every command that a README, a page of docs/, a lesson or --help shows runs on the files that data/examples.sh makes,
// and prints what is shown there. A command in words alone (`narrow train`) is a mention: its help must exist.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "explorer_page.hpp"
#include "program.hpp"
#include "support/scale.hpp"

namespace {

namespace fs = std::filesystem;

struct Example {
  std::string command, output;
  bool shows_output = false;
};

// Commands that do not end with 0, and why. GPU: as far as the message on a machine without one; with one they may run.
struct Ending {
  const char* part;
  int status;
  const char* says;
};
constexpr Ending endings[] = {
    {"--cublas", 0, ""},  // from the table, without a GPU
    {"narrow gpu ", 2, NARROW_HAS_CUDA ? "no CUDA device" : "built without CUDA"},
    {"--fail-if", 1, ""},                // a gate, shown as it closes
    {"--d negated.safetensors", 1, ""},  // a product that is not the one asked for
    {"--epilogue round+gelu", 1, ""},    // the same
    {"--d flash.npy --variant", 1, ""},  // held against another kernel
    {"narrow lint model-fp8", 1, ""},    // a checkpoint with a fault
};

// What takes more than some seconds on two cores: these run in examples_slow_test.
constexpr const char* slow_words[] = {"narrow report", "narrow run", "narrow train --", "narrow notebook ",
                                      "narrow bench --"};

bool is_slow(const std::string& command) {
  return std::any_of(std::begin(slow_words), std::end(slow_words),
                     [&](const char* word) { return command.rfind(word, 0) == 0; });
}

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// `narrow ...` in a paragraph, where it may go over the end of a line.
void add_spans(std::string& paragraph, std::vector<Example>& found) {
  for (std::size_t at = paragraph.find('`'); at != std::string::npos;) {
    const std::size_t end = paragraph.find('`', at + 1);
    if (end == std::string::npos) break;
    const std::string span = paragraph.substr(at + 1, end - at - 1);
    if (span.rfind("narrow ", 0) == 0) found.push_back({span, "", false});
    at = paragraph.find('`', end + 1);
  }
  paragraph.clear();
}

// "$ narrow ..." in a block, with what follows as its output; "narrow ..." as a line of a block, fenced or indented.
std::vector<Example> examples(const std::string& text) {
  std::vector<Example> found;
  std::istringstream in(text);
  std::string paragraph;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    const bool fence = line.rfind("```", 0) == 0;
    if (fence || line.empty()) add_spans(paragraph, found);
    if (fence) {
      inside = !inside;
      if (inside) found.push_back({});  // what is no command before the first one belongs to none
    } else if (inside && line.rfind("$ narrow ", 0) == 0) found.push_back({line.substr(2), "", true});
    else if (inside && line.rfind("narrow ", 0) == 0) found.push_back({line, "", false});
    else if (inside) found.back().output += line + "\n";
    else if (line.rfind("    narrow ", 0) == 0) found.push_back({line.substr(4), "", false});
    else if (!line.empty()) paragraph += (paragraph.empty() ? "" : " ") + line;
  }
  add_spans(paragraph, found);
  std::erase_if(found, [](const Example& e) { return e.command.empty(); });
  for (Example& example : found)
    if (example.output.ends_with("\n\n")) example.output.pop_back();
  return found;
}

// The comments of a lesson as Markdown.
std::string lesson_text(const std::string& source) {
  std::istringstream in(source);
  std::string text;
  for (std::string line; std::getline(in, line);)
    text += (line.rfind("// ", 0) == 0 && line.rfind("// %%", 0) != 0 ? line.substr(3) : "") + "\n";
  return text;
}

// A line "..." stands for any lines, none too.
bool is_shown(const std::string& shown, const std::string& printed) {
  std::size_t from = 0, at = 0;
  for (bool first = true;; first = false) {
    std::size_t cut = shown.compare(from, 4, "...\n") == 0 ? from : shown.find("\n...\n", from);
    if (cut != std::string::npos && cut != from) ++cut;
    const std::string piece = shown.substr(from, cut == std::string::npos ? cut : cut - from);
    if (cut == std::string::npos && !first) return printed.size() >= at + piece.size() && printed.ends_with(piece);
    const std::size_t place = first ? (printed.rfind(piece, 0) == 0 ? 0 : std::string::npos) : printed.find(piece, at);
    if (place == std::string::npos) return false;
    at = place + piece.size();
    if (cut == std::string::npos) return at == printed.size();
    from = cut + 4;
  }
}

// A folder with the files that the examples name, for one document: what one command writes the next may read.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "narrow-examples-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
    const test::Ran ran = test::run_program({"/bin/sh", NARROW_DATA "/examples.sh", path_, NARROW_PROGRAM});
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    fs::create_directory(path_ + "/explorer");
    std::ofstream(path_ + "/explorer/index.html") << test::explorer_page;
  }
  ~Folder() { fs::remove_all(path_); }
  test::Ran run(const std::string& command) const {
    const std::string path = fs::path(NARROW_PROGRAM).parent_path().string() + ":" + getenv("PATH");
    test::RunOptions options;
    options.environment = {
        {"PATH", path}, {"NARROW_EXPLORER", path_ + "/explorer"}, {"DISPLAY", ""}, {"WAYLAND_DISPLAY", ""}};
    options.limit = std::chrono::seconds(600);
    // Until somebody ends it; once: timeout signals its group as well, and a second Ctrl-C ends a program that is about to end.
    const bool serves = command.rfind("narrow explore ", 0) == 0;
    return test::run_program(
        {"/bin/sh", "-c",
         "cd '" + path_ + "' && " +
             (serves ? "exec timeout --foreground --preserve-status -s INT " + std::to_string(2 * test::patience) + " " : "") +
             command},
        options);
  }

 private:
  std::string path_;
};

void check(const Example& example, const Folder& folder) {
  const auto spaces = std::count(example.command.begin(), example.command.end(), ' ');
  const bool mention = spaces == 1 || (spaces == 2 && example.command.rfind("narrow gpu ", 0) == 0);
  const auto start = std::chrono::steady_clock::now();
  const test::Ran ran = folder.run(example.command + (mention ? " --help" : ""));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Ending ending{"", 0, ""};
  for (const Ending& e : endings)
    if (!mention && test::contains(example.command, e.part)) {
      ending = e;
      break;
    }
  CAPTURE(example.command);
  CAPTURE(ran.err.substr(0, 500));
  if (ran.status == 2 && test::contains(ran.err, "gnuplot is not installed")) {
    MESSAGE("skipped, no gnuplot: " << example.command);
    return;
  }
  if (ending.status != 2 || ran.status != 0) {  // with a GPU, its commands end well
    CHECK(ran.status == ending.status);
    CHECK(test::contains(ran.err, ending.says));
  }
  if (seconds > 3) MESSAGE(seconds << " s: " << example.command);
  if (!example.shows_output) return;
  CAPTURE(ran.out);
  CHECK(is_shown(example.output, ran.out));
}

void check_document(const std::string& name, const std::string& text, bool slow) {
  std::vector<Example> shown = examples(text);
  std::erase_if(shown, [&](const Example& e) { return is_slow(e.command) != slow; });
  if (shown.empty()) return;
  CAPTURE(name);
  const Folder folder;
  for (const Example& example : shown) check(example, folder);
}

// As the program lists them for a command that it does not know.
std::vector<std::string> command_names() {
  const std::string all = test::narrow({"none-of-them"}).err, start = "commands: ";
  REQUIRE(test::contains(all, start));
  std::istringstream list(all.substr(all.find(start) + start.size()));
  std::vector<std::string> names;
  for (std::string name; list >> name;) names.push_back(name.substr(0, name.find(',')));
  return names;
}

struct Document {
  std::string name, text;
};

std::vector<Document> documents() {
  std::vector<Document> found;
  const auto add = [&](const fs::path& path) { found.push_back({path.string(), read_text(path)}); };
  for (const char* path : {NARROW_ROOT "/README.md", NARROW_ROOT "/notebooks_cpp/README.md",
                           NARROW_ROOT "/analysis/README.md", NARROW_DATA "/README.md"})
    add(path);
  for (const auto& entry : fs::directory_iterator(NARROW_ROOT "/docs"))
    if (entry.path().extension() == ".md") add(entry.path());
  for (const auto& entry : fs::directory_iterator(NARROW_DATA))
    if (fs::exists(entry.path() / "README.md")) add(entry.path() / "README.md");
  for (const auto& entry : fs::directory_iterator(NARROW_ROOT "/notebooks_cpp"))
    if (entry.path().extension() == ".cpp")
      found.push_back({entry.path().string(), lesson_text(read_text(entry.path()))});
  // --help of every command ends with an example.
  std::string help;
  for (const std::string& command : command_names()) {
    const std::string text = test::narrow({command, "--help"}).out;
    CAPTURE(command);
    const std::size_t at = text.find("Example:\n  narrow " + command);
    CHECK(at != std::string::npos);
    if (at != std::string::npos) help += "    " + text.substr(at + 11, text.find('\n', at + 11) - at - 11) + "\n";
  }
  found.push_back({"--help", help});
  return found;
}

// Documents share no file: on a large machine several at a time, one for two cores, since the program has threads.
void check_all(bool slow) {
  const std::vector<Document> all = documents();
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < all.size();) check_document(all[i].name, all[i].text, slow);
  };
  std::vector<std::future<void>> workers;
  for (unsigned n = std::thread::hardware_concurrency() / 2; n > 1; --n)
    workers.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& worker : workers) worker.get();
}

}  // namespace

TEST_CASE("examples: a shown output may leave out lines and nothing else") {
  CHECK(is_shown("a\nb\n", "a\nb\n"));
  CHECK(!is_shown("a\n", "a\nb\n"));
  CHECK(!is_shown("a\nc\n", "a\nb\nc\n"));
  CHECK(is_shown("a\n...\nc\n", "a\nb\nc\n"));
  CHECK(is_shown("a\n...\n", "a\nb\nc\n"));
  CHECK(is_shown("...\nc\n", "a\nb\nc\n"));
  CHECK(!is_shown("b\n...\nc\n", "a\nb\nc\n"));
  CHECK(!is_shown("a\n...\nb\n", "a\nb\nc\n"));
}

TEST_CASE("examples: commands are found in blocks and in sentences") {
  const auto found = examples(
      "See `narrow show\n1`, or\n\n```console\n$ narrow show 2\nout\n\n$ narrow list\n```\n\n    narrow x # y\n");
  REQUIRE(found.size() == 4);
  CHECK(found[0].command == "narrow show 1");
  CHECK(found[1].command == "narrow show 2");
  CHECK(found[1].output == "out\n");
  CHECK(found[2].shows_output);
  CHECK(found[3].command == "narrow x # y");
}

TEST_CASE("examples: every command that is shown runs and prints what is shown") {
  check_all(NARROW_SLOW_EXAMPLES != 0);
}
