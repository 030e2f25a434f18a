#include "narrow/lesson/highlight.hpp"

#include <doctest/doctest.h>

using namespace lesson;

namespace {

// The source again: elements taken out, entities turned back.
std::string plain(const std::string& html) {
  std::string out;
  for (std::size_t i = 0; i < html.size(); ++i) {
    if (html[i] == '<') i = html.find('>', i);
    else if (html.compare(i, 4, "&lt;") == 0) out += '<', i += 3;
    else if (html.compare(i, 4, "&gt;") == 0) out += '>', i += 3;
    else if (html.compare(i, 5, "&amp;") == 0) out += '&', i += 4;
    else if (html.compare(i, 6, "&quot;") == 0) out += '"', i += 5;
    else out += html[i];
  }
  return out;
}

}  // namespace

TEST_CASE("notebook: words and numbers and strings and comments have colours") {
  CHECK(highlighted_cpp("const") == "<span class=\"k\">const</span>");
  CHECK(highlighted_cpp("0x1.8p-3") == "<span class=\"n\">0x1.8p-3</span>");
  CHECK(highlighted_cpp("1e-7-x") == "<span class=\"n\">1e-7</span>-x");
  CHECK(highlighted_cpp("0xE-1") == "<span class=\"n\">0xE</span>-<span class=\"n\">1</span>");
  CHECK(highlighted_cpp("\"a\\\"b\"") == "<span class=\"s\">&quot;a\\&quot;b&quot;</span>");
  CHECK(highlighted_cpp("// c\nx") == "<span class=\"c\">// c</span>\nx");
  CHECK(highlighted_cpp("Table t") == "<span class=\"t\">Table</span> t");
  CHECK(highlighted_cpp("f(x)") == "<span class=\"f\">f</span>(x)");
  CHECK(highlighted_cpp("#include <a>").find("<span class=\"s\">&lt;a&gt;</span>") != std::string::npos);
}

TEST_CASE("notebook: colours change no character also where the source is broken") {
  for (const char* source : {"int a = 1; // x\n/* y */ R\"(raw \" )\" 'c' a<b && c>d", "\"open", "/* open", "R\"x(open",
                             "'", "#", "R\"", "\\", "1'000'000", "a ? b : c", "\"\\", ""})
    CHECK(plain(highlighted_cpp(source)) == source);
}
