// `narrow notebook` from outside: what it writes, what it says when a lesson fails, and what it refuses.
#include <doctest/doctest.h>

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
