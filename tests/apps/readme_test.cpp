// What the Markdown files say of themselves: the table of formats is what the program prints, links lead to what is
// there, and the index of docs/ names its pages. Their commands are run by examples_test.
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "program.hpp"

namespace {

namespace fs = std::filesystem;

std::string markdown_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::set<fs::path> markdown_files() {
  std::set<fs::path> found;
  const auto add = [&](const fs::path& file) {
    if (file.extension() == ".md") found.insert(file);
  };
  const fs::path root = NARROW_ROOT;
  for (const auto& entry : fs::directory_iterator(root)) add(entry.path());
  for (const char* folder : {"analysis", "apps", "data", "docs", "lib", "notebooks", "notebooks_cpp", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) add(entry.path());
  return found;
}

// Without what stands in blocks and between backticks: a[i](x) is no link there.
std::string without_code(const std::string& text) {
  std::istringstream in(text);
  std::string kept;
  bool block = false, span = false;
  for (std::string line; std::getline(in, line); kept += '\n') {
    const bool fence = line.starts_with("```");
    if (fence) block = !block;
    if (fence || block || line.starts_with("    ")) continue;
    if (line.empty()) span = false;  // a span ends with its paragraph
    for (const char c : line)
      if (c == '`') span = !span;
      else if (!span) kept += c;
  }
  return kept;
}

// The places of a page as GitHub names them: small letters, no punctuation, a hyphen for a blank.
std::set<std::string> places(const std::string& text) {
  std::istringstream in(text);
  std::set<std::string> found;
  for (std::string line; std::getline(in, line);) {
    const std::size_t level = line.find_first_not_of('#');
    if (level == 0 || level == std::string::npos || line[level] != ' ') continue;
    std::string place;
    for (const char c : line.substr(level + 1))
      if (c == ' ' || c == '-' || c == '_' || std::isalnum(static_cast<unsigned char>(c)))
        place += c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    found.insert(place);
  }
  return found;
}

// Links within the project that lead nowhere.
std::vector<std::string> broken_links(const fs::path& file, const std::string& text) {
  std::vector<std::string> broken;
  const std::string words = without_code(text);
  for (std::size_t at = words.find("]("); at != std::string::npos; at = words.find("](", at + 1)) {
    const std::string to = words.substr(at + 2, words.find(')', at) - at - 2), name = to.substr(0, to.find('#'));
    if (test::contains(to, "://")) continue;
    const fs::path target = file.parent_path() / name;  // with an empty name the folder
    const bool has_place = name.size() < to.size();
    if (!fs::exists(target) ||
        (has_place && places(name.empty() ? text : markdown_of(target)).count(to.substr(name.size() + 1)) == 0))
      broken.push_back(to);
  }
  return broken;
}

}  // namespace

TEST_CASE("apps: the table of formats in docs is the one that the program prints") {
  const test::Ran ran = test::narrow({"formats", "--markdown"});
  CHECK(ran.status == 0);
  CHECK(test::contains(markdown_of(NARROW_ROOT "/docs/formats.md"), "\n\n" + ran.out + "\n"));
}

// A title, a line each, then a blank line.
TEST_CASE("apps: docs count the recipes that the program lists") {
  const std::string listed = test::narrow({"train", "--list-recipes"}).out;
  const auto lines = std::count(listed.begin(), listed.begin() + static_cast<int>(listed.find("\n\n") + 1), '\n');
  CHECK(test::contains(markdown_of(NARROW_ROOT "/docs/training.md"), std::to_string(lines - 1) + " recipes"));
}

TEST_CASE("apps: every link of a Markdown file leads to a file or a heading") {
  const std::set<fs::path> files = markdown_files();
  CHECK(files.count(NARROW_ROOT "/README.md") == 1);
  for (const fs::path& file : files)
    for (const std::string& to : broken_links(file, markdown_of(file))) FAIL_CHECK(file.string() << ": " << to);

  const fs::path page = NARROW_ROOT "/docs/page.md";
  CHECK(broken_links(page, "# Two words\n\n[a](../README.md), [b](#two-words), [c](https://example.org)\n").empty());
  CHECK(broken_links(page, "`a[i](x)`\n\n```\n[](y)\n```\n").empty());
  CHECK(broken_links(page, "[a](README)\n") == std::vector<std::string>{"README"});
  CHECK(broken_links(page, "![a](../none.png) [b](#none) [c](README.md#none)\n").size() == 3);
}

TEST_CASE("apps: the index of docs names every page, and the first page is short") {
  const std::string index = markdown_of(NARROW_ROOT "/docs/README.md"), first = markdown_of(NARROW_ROOT "/README.md");
  for (const auto& entry : fs::directory_iterator(NARROW_ROOT "/docs")) {
    const std::string name = entry.path().filename().string();
    if (name != "README.md") CHECK_MESSAGE(test::contains(index, "[" + name + "](" + name + ")"), name);
  }
  CHECK(std::count(first.begin(), first.end(), '\n') < 250);
}
