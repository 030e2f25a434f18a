// What README.md shows is what the program prints: it cannot go stale.
#include <fstream>
#include <sstream>

#include "program.hpp"

namespace {

std::string readme() {
  std::ostringstream text;
  text << std::ifstream(NARROW_ROOT "/README.md").rdbuf();
  return text.str();
}

// The words of a command line without quotes.
std::vector<std::string> split(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

struct Example {
  std::string command, output;
};

// In ```console blocks a line "$ narrow ..." is a command, and what follows is its output; one empty line may stand
// before the next command.
std::vector<Example> examples(const std::string& text) {
  std::vector<Example> found;
  std::istringstream in(text);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("```", 0) == 0) inside = line == "```console";
    else if (inside && line.rfind("$ narrow ", 0) == 0) found.push_back({line.substr(9), ""});
    else if (inside && !found.empty()) found.back().output += line + "\n";
  }
  for (Example& example : found)
    if (example.output.ends_with("\n\n")) example.output.pop_back();
  return found;
}

}  // namespace

TEST_CASE("apps: the table of formats in README is the one that the program prints") {
  const test::Ran ran = test::narrow({"formats", "--markdown"});
  CHECK(ran.status == 0);
  CHECK(test::contains(readme(), "\n\n" + ran.out + "\n"));
}

TEST_CASE("apps: every command shown in README gives the output shown there") {
  const std::vector<Example> shown = examples(readme());
  CHECK(shown.size() >= 2);
  for (const Example& example : shown) {
    const test::Ran ran = test::narrow(split(example.command));
    CAPTURE(example.command);
    CHECK(ran.status == 0);
    CHECK(ran.out == example.output);
  }
}
