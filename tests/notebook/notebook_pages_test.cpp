// The rendered lessons: every one is there, its notebook is whole, its page has its pictures and no raw formula.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string content(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> lessons() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(NARROW_LESSONS))
    if (entry.path().extension() == ".cpp" && std::isdigit(static_cast<unsigned char>(entry.path().stem().string()[0])))
      names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// The page as a reader sees it: no style, no programs, no attributes.
std::string visible(std::string page) {
  for (const char* element : {"style", "pre", "code", "svg"}) {
    const std::string open = std::string("<") + element, close = std::string("</") + element + ">";
    for (std::size_t at = page.find(open); at != std::string::npos; at = page.find(open, at))
      page.erase(at, page.find(close, at) + close.size() - at);
  }
  std::string out;
  bool inside = false;
  for (const char c : page) {
    if (c == '<') inside = true;
    if (!inside) out += c;
    if (c == '>') inside = false;
  }
  return out;
}

void check_cell(const Json& cell, std::set<std::string>& ids) {
  const auto id = cell.at("id").get<std::string>();
  constexpr const char* allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  CHECK(id.find_first_not_of(allowed) == std::string::npos);
  CHECK(id.size() >= 1);
  CHECK(id.size() <= 64);
  CHECK(ids.insert(id).second);
  CHECK(cell.at("metadata").is_object());
  CHECK(cell.at("source").is_array());
  if (cell.at("cell_type") == "markdown") {
    CHECK_FALSE(cell.contains("outputs"));
    return;
  }
  CHECK(cell.at("cell_type") == "code");
  CHECK(cell.at("execution_count").is_number_integer());
  for (const Json& output : cell.at("outputs")) {
    if (output.at("output_type") == "stream") {
      CHECK(output.at("name") == "stdout");
      CHECK(output.at("text").is_array());
    } else {
      CHECK(output.at("output_type") == "display_data");
      CHECK(output.at("metadata").is_object());
      CHECK(output.at("data").contains("text/plain"));
    }
  }
}

}  // namespace

TEST_CASE("notebook: every lesson has a notebook that follows nbformat 4.5") {
  for (const std::string& name : lessons()) {
    CAPTURE(name);
    const Json book = Json::parse(content(fs::path(NARROW_PAGES) / (name + ".ipynb")));
    CHECK(book.at("nbformat") == 4);
    CHECK(book.at("nbformat_minor") == 5);
    CHECK(book.at("metadata").at("kernelspec").at("name") == "xcpp20");
    CHECK(book.at("cells").size() >= 10);
    std::set<std::string> ids;
    for (const Json& cell : book.at("cells")) check_cell(cell, ids);
  }
}

TEST_CASE("notebook: every page has the pictures of its notebook and at least one") {
  for (const std::string& name : lessons()) {
    CAPTURE(name);
    const std::string page = content(fs::path(NARROW_PAGES) / (name + ".html"));
    const std::string book = content(fs::path(NARROW_PAGES) / (name + ".ipynb"));
    CHECK(count(page, "<svg") >= 1);
    CHECK(count(page, "<svg") == count(book, "\"image/svg+xml\""));
    CHECK(count(page, "<figure>") == count(page, "<svg"));
    CHECK(count(page, "NaN\"") == 0);  // of a coordinate that could not be computed
    CHECK(count(page, "<p class=\"holds\">") >= 5);
  }
}

TEST_CASE("notebook: every page is readable without a network") {
  for (const std::string& name : lessons()) {
    CAPTURE(name);
    const std::string page = content(fs::path(NARROW_PAGES) / (name + ".html"));
    for (const char* fetched : {"<script", "<img", "<link rel=\"stylesheet\"", "@import", "url("})
      CHECK_MESSAGE(page.find(fetched) == std::string::npos, fetched);
    const std::string text = visible(page);
    CHECK(text.find('$') == std::string::npos);
    CHECK(text.find('\\') == std::string::npos);
    CHECK(text.find("**") == std::string::npos);
    CHECK(text.find('^') == std::string::npos);
  }
}

TEST_CASE("notebook: every lesson has exercises and their solutions") {
  for (const std::string& name : lessons()) {
    CAPTURE(name);
    const std::string page = content(fs::path(NARROW_PAGES) / (name + ".html"));
    const std::size_t exercises = page.find("<h2 id=\"exercises\">");
    REQUIRE(exercises != std::string::npos);
    const std::size_t solutions = page.find("<summary>Solutions</summary>", exercises);
    REQUIRE(solutions != std::string::npos);
    CHECK(count(page.substr(exercises, solutions - exercises), "<li>") >= 2);
  }
}

TEST_CASE("notebook: pages lead to each other and no link is broken") {
  std::vector<std::string> pages = lessons();
  pages.push_back("index");
  for (const std::string& name : pages) {
    const std::string page = content(fs::path(NARROW_PAGES) / (name + ".html"));
    constexpr std::string_view link = "href=\"";
    for (std::size_t at = page.find(link); at != std::string::npos; at = page.find(link, at + 1)) {
      const std::size_t start = at + link.size();
      const std::string to = page.substr(start, page.find('"', start) - start);
      if (!to.ends_with(".html")) continue;  // places in the page; files of the repository, linked from the index
      CAPTURE(name);
      CAPTURE(to);
      CHECK(fs::exists(fs::path(NARROW_PAGES) / to));
    }
  }
}

TEST_CASE("notebook: the index lists every lesson with its title and nothing else") {
  const std::string index = content(fs::path(NARROW_LESSONS) / "README.md");
  const std::vector<std::string> names = lessons();
  for (const std::string& name : names) {
    std::string title;
    std::istringstream lines(content(fs::path(NARROW_LESSONS) / (name + ".cpp")));
    for (std::string line; title.empty() && std::getline(lines, line);)
      if (line.starts_with("// # ")) title = line.substr(5);
    const std::string row = "| [" + name.substr(0, 2) + " " + title + "](" + name + ".cpp) |";
    CHECK_MESSAGE(index.find(row) != std::string::npos, row);
  }
  CHECK(count(index, ".cpp) |") == names.size());
}
