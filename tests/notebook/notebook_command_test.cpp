// `narrow notebook` from outside: what it writes, what it says when a lesson fails, and what it refuses.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lesson.hpp"
#include "support/run_program.hpp"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Folder {
  Folder() : path(fs::temp_directory_path() / ("notebook_test_" + std::to_string(getpid()))) {
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }
  std::string script(const std::string& name, const std::string& commands) const {
    const std::string program = write(name, "#!/bin/sh\n" + commands + "\n");
    fs::permissions(program, fs::perms::owner_all);
    return program;
  }
  fs::path path;
};

std::string content(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

test::Ran notebook(std::vector<std::string> words, const std::string& fails = "") {
  words.insert(words.begin(), {NARROW_PROGRAM, "notebook"});
  test::RunOptions options;
  options.environment = {{"LESSON_FAILS", fails}};
  return test::run_program(words, options);
}

test::Ran failing(const std::string& output, const std::string& fails) {
  return notebook({NARROW_FAILING_SOURCE, "--program", NARROW_FAILING_LESSON, "-o", output}, fails);
}

// The failing lesson with outputs of our own: `commands` write $NARROW_LESSON_RECORD.
test::Ran scripted(const Folder& folder, const std::string& output, const std::string& commands) {
  const std::string program = folder.script("program.sh", commands);
  return notebook({NARROW_FAILING_SOURCE, "--program", program, "-o", output, "--json"});
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

const char* broken =
    "// %% [markdown]\n// # Broken\n\n// %%\nint main() {\n\n// %%\nint a = 1;\nnonsense b = a;\n\n// %%\n}\n";

}  // namespace

TEST_CASE("notebook: a lesson becomes a notebook and a page") {
  const Folder folder;
  const test::Ran ran = failing(folder.file("out"), "");
  REQUIRE(ran.status == 0);
  const Json book = Json::parse(content(folder.file("out/failing_lesson.ipynb")));
  CHECK(book.at("nbformat") == 4);
  CHECK(book.at("nbformat_minor") == 5);
  CHECK(book.at("cells").size() == 5);  // two of seven are marked as program
  const Json& outputs = book.at("cells")[2].at("outputs");
  REQUIRE(outputs.size() == 5);
  CHECK(outputs[0].at("text")[0] == "before\n");
  CHECK(outputs[1].at("data").at("text/markdown")[0] == "**0.25** is a number");
  CHECK(outputs[2].at("text")[0] == "0 01111 0000000000   0x3C00 = 1\n");
  CHECK(outputs[3].at("data").contains("text/html"));
  CHECK(outputs[4].at("text")[0] == "ok: half of a half is a quarter\n");
  CHECK(book.at("cells")[4].at("outputs")[0].at("data").contains("image/svg+xml"));
  const std::string page = content(folder.file("out/failing_lesson.html"));
  CHECK(has(page, "<h1 id=\"a-lesson-that-can-fail\">"));
  CHECK(has(page, "<strong>0.25</strong> is a number"));
  CHECK(has(page, "<p class=\"holds\">half of a half is a quarter</p>"));
  CHECK(has(page, "<svg"));
  CHECK(has(page, "2<sup>-2</sup>"));
  CHECK_FALSE(has(page, "int main"));
}

TEST_CASE("notebook: a lesson that fails has no page and shows its cell") {
  const Folder folder;
  const std::string page = folder.file("page.html");
  const test::Ran thrown = failing(page, "throw");
  CHECK(thrown.status == 1);
  CHECK(has(thrown.err, "the lesson threw an exception after line"));
  CHECK(has(thrown.err, "this was thrown"));
  const test::Ran wrong = failing(page, "expect");
  CHECK(wrong.status == 1);
  CHECK(has(wrong.err, "teaches what does not hold"));
  CHECK(has(wrong.err, "two and two are five"));
  CHECK(has(wrong.err, "  expect(fails != \"expect\", \"two and two are five\");"));
  CHECK(has(wrong.err, "\n> "));
  const test::Ran aborted = failing(page, "abort");
  CHECK(aborted.status == 1);
  CHECK(has(aborted.err, "was ended by signal 6"));
  const test::Ran status = failing(page, "status");
  CHECK(status.status == 1);
  CHECK(has(status.err, "ended with status 3"));
  CHECK_FALSE(fs::exists(page));
}

TEST_CASE("notebook: a lesson that crashes before its first output is told with its signal and its message") {
  const Folder folder;
  const test::Ran ran = scripted(folder, folder.file("page.html"), "echo going down >&2; kill -11 $$");
  CHECK(ran.status == 1);
  CHECK(has(ran.err, "the lesson was ended by signal 11 before its first output"));
  CHECK(has(ran.err, "going down"));
  CHECK_FALSE(fs::exists(folder.file("page.html")));
}

TEST_CASE("notebook: a crash in the middle of a record shows the cell of the last whole one") {
  const Folder folder;
  const std::string cut =
      R"(printf '{"line":21,"kind":"text","text":"a"}\n{"line":22,"ki' > "$NARROW_LESSON_RECORD"; )";
  const test::Ran crashed = scripted(folder, folder.file("page.html"), cut + "kill -11 $$");
  CHECK(crashed.status == 1);
  CHECK(has(crashed.err, "failing_lesson.cpp:21: the lesson was ended by signal 11 (last output: line 21)"));
  CHECK(has(crashed.err, ">    21  print(\"before\");"));
  // A program that ended well wrote whole lines.
  const test::Ran wrong = scripted(folder, folder.file("page.html"), cut);
  CHECK(wrong.status == 2);
  CHECK(has(wrong.err, "what the program recorded cannot be read"));
}

TEST_CASE("notebook: outputs of cells that are not shown stand below a cell that is") {
  const Folder folder;
  const test::Ran ran = scripted(folder, folder.file("out"), R"(cat > "$NARROW_LESSON_RECORD" <<END
{"line":1,"kind":"text","text":"above all code"}
{"line":17,"kind":"text","text":"where main opens"}
{"line":43,"kind":"expect","holds":true,"text":"where main closes"}
END)");
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  CHECK(Json::parse(ran.out).at("statements") == 1);
  const Json cells = Json::parse(content(folder.file("out/failing_lesson.ipynb"))).at("cells");
  CHECK(cells.at(1).at("outputs").at(0).at("text") == Json::array({"above all code\n", "where main opens\n"}));
  CHECK(cells.at(4).at("outputs").at(0).at("text") == Json::array({"ok: where main closes\n"}));
  const std::string page = content(folder.file("out/failing_lesson.html"));
  CHECK(has(page, "<pre>above all code\nwhere main opens</pre>"));
  CHECK(has(page, "<p class=\"holds\">where main closes</p>"));
}

TEST_CASE("notebook: standard output is shown also where nothing was recorded") {
  const Folder folder;
  const test::Ran ran = scripted(folder, folder.file("out"), ": > \"$NARROW_LESSON_RECORD\"; echo plain words");
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  CHECK(has(content(folder.file("out/failing_lesson.html")), "<pre>plain words\n</pre>"));
  CHECK(has(content(folder.file("out/failing_lesson.ipynb")), "plain words"));
}

TEST_CASE("notebook: a table whose rows do not fit its columns is refused by both writers") {
  const Folder folder;
  for (const char* name : {"a.html", "a.ipynb"}) {
    const test::Ran ran = scripted(folder, folder.file(name), R"(cat > "$NARROW_LESSON_RECORD" <<END
{"line":21,"kind":"table","columns":[{"name":"a","unit":"","text":true}],"rows":[["1","2"]],"text":""}
END)");
    CHECK(ran.status == 2);
    CHECK(has(ran.err, "a row of 2 in a table of 1 columns"));
    CHECK_FALSE(fs::exists(folder.file(name)));
  }
}

TEST_CASE("notebook: a lesson is compiled where no program is given") {
  const Folder folder;
  const test::Ran ran = notebook({NARROW_FAILING_SOURCE, "-o", folder.file("page.html"), "--json"});
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  CHECK(Json::parse(ran.out).at("pictures") == 1);
  CHECK(Json::parse(ran.out).at("statements") == 2);
  CHECK(has(content(folder.file("page.html")), "half of a half is a quarter"));
}

TEST_CASE("notebook: a lesson that does not compile shows the cell and the compiler's message") {
  const Folder folder;
  const test::Ran ran = notebook({folder.write("broken.cpp", broken), "-o", folder.file("page.html")});
  CHECK(ran.status == 1);
  CHECK(has(ran.err, "broken.cpp:9: the lesson does not compile"));
  CHECK(has(ran.err, ">     9  nonsense b = a;"));
  CHECK(has(ran.err, "nonsense"));
  CHECK_FALSE(fs::exists(folder.file("page.html")));
}

// The compiler, and then the lesson, is a script that starts another process, writes where compilers write, and waits.
TEST_CASE("notebook: a signal leaves no folder and no compiler behind") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    for (const bool compiles : {true, false}) {
      CAPTURE(signal);
      CAPTURE(compiles);
      const Folder folder;
      fs::create_directories(folder.file("tmp"));
      const std::string script =
          folder.script("busy.sh", "mktemp >/dev/null; sleep 60 & echo $$ $! > " + folder.file("pids.new") + "; mv " +
                                       folder.file("pids.new") + " " + folder.file("pids") + "; wait");
      const pid_t child = fork();
      if (child == 0) {
        for (const int s : {SIGINT, SIGHUP, SIGQUIT}) ::signal(s, SIG_DFL);
        const rlimit no_core{0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        setenv("TMPDIR", folder.file("tmp").c_str(), 1);
        execl(NARROW_PROGRAM, "narrow", "notebook", NARROW_FAILING_SOURCE, "-o", folder.file("page.html").c_str(),
              compiles ? "--cxx" : "--program", script.c_str(), nullptr);
        _exit(127);
      }
      for (int i = 0; i < 1000 && !fs::exists(folder.file("pids")); ++i) usleep(10000);
      CHECK(fs::exists(folder.file("pids")));
      CHECK_FALSE(fs::is_empty(folder.file("tmp")));
      kill(child, signal);
      int state = 0;
      waitpid(child, &state, 0);
      CHECK(WIFSIGNALED(state));
      CHECK(WTERMSIG(state) == signal);
      CHECK(fs::is_empty(folder.file("tmp")));
      CHECK_FALSE(fs::exists(folder.file("page.html")));
      std::ifstream pids(folder.file("pids"));
      for (pid_t pid = 0; pids >> pid;) {
        const auto is_there = [&] {
          const std::string status = content("/proc/" + std::to_string(pid) + "/stat");
          return !status.empty() && !has(status, ") Z ");
        };
        for (int i = 0; i < 200 && is_there(); ++i) usleep(10000);
        CHECK_FALSE(is_there());
      }
    }
}

TEST_CASE("notebook: a request that cannot be met is refused in one line") {
  const Folder folder;
  const std::string good = folder.write("good.cpp", "// %% [markdown]\n// # A\n");
  const auto refused = [](const test::Ran& ran, std::string_view why) {
    CAPTURE(ran.err);
    return ran.status == 2 && has(ran.err, why) && std::count(ran.err.begin(), ran.err.end(), '\n') == 1;
  };
  CHECK(refused(notebook({}), "one lesson at a time"));
  CHECK(refused(notebook({good}), "no output"));
  CHECK(refused(notebook({"none.cpp", "-o", "a.html"}), "no such file"));
  CHECK(refused(notebook({"none.txt", "-o", "a.html"}), "NAME.cpp"));
  CHECK(refused(notebook({good, "-o", folder.file("a.pdf")}), "neither .ipynb nor .html"));
  CHECK(refused(notebook({good, "-o", folder.file("a.html"), "--program", "none"}), "is no program"));
  CHECK(refused(notebook({good, "-o", folder.file("a.html"), "--program", "/bin/true"}), "recorded nothing"));
  CHECK(refused(notebook({good, "-o", folder.file("a.html"), "--program", NARROW_FAILING_LESSON}),
                "outputs without a place"));
  CHECK(refused(notebook({good, "-o", folder.file("a.html"), "--cxx", "no-such-compiler"}), "could not be started"));
  CHECK(refused(notebook({folder.write("b.cpp", "int a;\n"), "-o", folder.file("a.html")}), "no cells"));
  const std::string formula = folder.write("c.cpp", "// %% [markdown]\n// # A\n// $\\foo$\n");
  CHECK(refused(notebook({formula, "-o", folder.file("a.html"), "--program", NARROW_FAILING_LESSON}),
                "c.cpp:2: the formula "));
  CHECK_FALSE(fs::exists(folder.file("a.html")));
}

TEST_CASE("notebook: a Markdown file becomes a page whose links lead to pages") {
  const Folder folder;
  const std::string index = folder.write("README.md", "# Lessons\n\n| a |\n|---|\n| [01](01_a.cpp) |\n");
  CHECK(notebook({index, "-o", folder.file("index.html")}).status == 0);
  CHECK(has(content(folder.file("index.html")), "<a href=\"01_a.html\">01</a>"));
  CHECK(notebook({index, "-o", folder.file("index.ipynb")}).status == 2);
}

TEST_CASE("notebook: patterns put values into text") {
  using lesson::text;
  CHECK(text("{} {}", 1, "two") == "1 two");
  CHECK(text("{}", 0.1) == "0.1");
  CHECK(text("{}", 0.1f) == "0.1");
  CHECK(text("{}", 1e-7) == "1e-7");
  CHECK(text("{:.3}", 3.14159) == "3.14");
  CHECK(text("{:.2f}|{:>5}|{:<4}|", 2.0, 7, "ab") == "2.00|    7|ab  |");
  CHECK(text("{{}} {}", true) == "{} true");
  CHECK_THROWS_AS(text("{}"), std::logic_error);
  CHECK_THROWS_AS(text("no place", 1), std::logic_error);
  CHECK_THROWS_AS(text("{:q}", 1), std::logic_error);
  CHECK_THROWS_AS(text("{", 1), std::logic_error);
}
