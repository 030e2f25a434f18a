// The reference cards: every value and code on them is looked up again through `narrow show`.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <regex>

#include "program.hpp"
#include "tensor/files.hpp"

using test::contains;
using test::Json;
using test::narrow_json;

namespace {

struct CardFolder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("narrow_cards" + std::to_string(getpid()));
  CardFolder() { std::filesystem::create_directories(path); }
  ~CardFolder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

std::string card_of(const std::string& format) {
  const CardFolder folder;
  const std::string file = folder.file("card.html");
  CHECK(test::narrow({"formats", format, "--card", "-o", file}).status == 0);
  return test::read_file(file);
}

// "3&middot;2<sup>-9</sup>", "0.125", "&minus;4", "Inf", "NaN" as a decimal text of the value.
std::string value_of(std::string html) {
  bool negative = false;
  if (html.rfind("&minus;", 0) == 0) negative = true, html = html.substr(7);
  std::string text = html;
  if (html == "Inf" || html == "NaN") {
    text = html == "Inf" ? "inf" : "nan";
  } else if (const std::size_t power = html.find("2<sup>"); power != std::string::npos) {
    const double factor = power == 0 ? 1 : std::stod(html.substr(0, power));
    char digits[64];
    std::snprintf(digits, sizeof digits, "%.17g", std::ldexp(factor, std::stoi(html.substr(power + 6))));
    text = digits;
  }
  return (negative ? "-" : "") + text;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

// All codes of all formats of 8 bits and fewer: a table cell is <td><b>VALUE</b><i>CODE</i></td>.
TEST_CASE("apps: a card of a small format lists every value with its code") {
  const std::regex cell("<td[^>]*><b>([^/]*?(?:</sup>)?)</b><i>([0-9A-F]+)</i></td>");
  for (const Json& row :
       narrow_json({"formats", "all", "e3m0f", "e1m2f", "e5m1", "binary8p3se", "binary6p2ue", "binary5p1sf"})) {
    if (row["bits"].get<int>() > 8) continue;
    const std::string name = row["name"], page = card_of(name);
    CAPTURE(name);
    std::vector<std::string> words{"show"}, values;
    for (std::sregex_iterator it(page.begin(), page.end(), cell), end; it != end; ++it) {
      words.push_back("0x" + (*it)[2].str());
      values.push_back(value_of((*it)[1].str()));
    }
    const std::size_t codes = std::size_t{1} << row["bits"].get<int>();
    const bool halves = row["has_sign"].get<bool>() && row["exponent_bits"] != 0;
    REQUIRE(values.size() == (halves ? codes / 2 : codes));
    words.insert(words.end(), {"--from", name, "--formats", name});
    const Json shown = narrow_json(words);
    REQUIRE(shown.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(words[i + 1]);
      if (shown[i]["class"] == "nan") CHECK(values[i] == "nan");
      else if (shown[i]["class"] == "inf") CHECK(values[i] == "inf");
      else CHECK(std::stod(values[i]) == std::stod(shown[i]["value"].get<std::string>()));
    }
  }
}

TEST_CASE("apps: every format has a card with bits and limits and special codes") {
  for (const Json& row : narrow_json({"formats"})) {
    const std::string name = row["name"], page = card_of(name);
    CAPTURE(name);
    CHECK(page.rfind("<!DOCTYPE html>", 0) == 0);
    CHECK(!contains(page, "http"));
    CHECK(!contains(page, "nan"));
    CHECK(count_of(page, "<section class=\"page\"") == 1);
    CHECK(count_of(page, "class=\"bit\"") == row["bits"].get<std::size_t>());
    const bool integer = row["exponent_bits"] == 0;
    CHECK(count_of(page, "fill=\"var(--exponent)\"") == (integer ? 0 : row["exponent_bits"].get<std::size_t>()));
    for (const char* part : {"Limits", "Special codes", "prefers-color-scheme: dark", "@media print"})
      CHECK_MESSAGE(contains(page, part), part);
    CHECK(contains(page, row["bits"].get<int>() <= 8 ? "Every value, with its code" : "Binades and their steps"));
  }
  CHECK(contains(card_of("e4m3"), "<code>0x7F</code>, <code>0xFF</code>"));
  CHECK(contains(card_of("e4m3fnuz"), "0x80, which is not -0 but NaN"));
  CHECK(contains(card_of("fp16"), "2046 codes"));
}

TEST_CASE("apps: cards of several formats stand in one file after an overview") {
  const CardFolder folder;
  const std::string file = folder.file("all.html");
  CHECK(test::narrow({"formats", "--card", "-o", file}).status == 0);
  const std::string page = test::read_file(file);
  CHECK(count_of(page, "<section class=\"page\"") == 20);
  CHECK(count_of(page, "<section class=\"card\"") == 20);
}

// Where chromium is installed: a card fills one printed page and no more.
TEST_CASE("apps: a card prints on one page") {
  const char* browser = "/usr/bin/chromium";
  if (!std::filesystem::exists(browser)) {
    MESSAGE("chromium is not installed: the printed size is not checked");
    return;
  }
  const CardFolder folder;
  for (const char* name : {"e4m3", "e5m2", "fp64", "int8", "e3m4"}) {
    CAPTURE(name);
    const std::string html = folder.file(std::string(name) + ".html"), pdf = folder.file(std::string(name) + ".pdf");
    REQUIRE(test::narrow({"formats", name, "--card", "-o", html}).status == 0);
    const test::Ran ran = test::run_program({browser, "--headless", "--no-sandbox", "--disable-gpu",
                                             "--user-data-dir=" + folder.file("profile"), "--no-pdf-header-footer",
                                             "--print-to-pdf=" + pdf, "file://" + html});
    const std::string printed = test::read_file(pdf);
    if (ran.status != 0 || printed.empty()) {
      MESSAGE("chromium does not print here: the printed size is not checked");
      return;
    }
    CHECK(count_of(printed, "/Type /Page\n") == 1);
  }
}
