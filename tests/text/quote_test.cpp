#include "narrow/text/quote.hpp"

#include <doctest/doctest.h>

#include "narrow/text/split.hpp"

TEST_CASE("text: a quoted word is printable and at most 60 characters of it are shown") {
  CHECK(narrow::quote("fp16") == "'fp16'");
  CHECK(narrow::quote("") == "''");
  CHECK(narrow::quote("a\nb\x1b[31m\x7f") == "'a\\x0Ab\\x1B[31m\\x7F'");
  CHECK(narrow::quote("\xC3\xA9") == "'\\xC3\\xA9'");
  CHECK(narrow::quote(std::string(60, 'a')) == "'" + std::string(60, 'a') + "'");
  CHECK(narrow::visible("plain \xC3\xA9\u200D\U0001F600") == "plain \xC3\xA9\u200D\U0001F600");
  CHECK(narrow::visible("a\x1b[2J\n\t", "\n") == "a\\x1B[2J\n\\x09");
  CHECK(narrow::visible("\x7F\u0080\u009F\u061C\u200E\u202A\u202E\u2066\u2069\uFEFF") ==
        "\\u007F\\u0080\\u009F\\u061C\\u200E\\u202A\\u202E\\u2066\\u2069\\uFEFF");
  CHECK(narrow::visible("\x9b\xC0\xAF\xED\xA0\x80\xE2\x82") == "\\x9B\\xC0\\xAF\\xED\\xA0\\x80\\xE2\\x82");
  CHECK(narrow::quote(std::string(61, 'a')) == "'" + std::string(60, 'a') + "...'");
}

TEST_CASE("text: a text is cut at every separator, and words are the parts that hold something") {
  using Parts = std::vector<std::string_view>;
  CHECK(narrow::parts_of("a,,b", ",") == Parts{"a", "", "b"});
  CHECK(narrow::parts_of("", ",") == Parts{""});
  CHECK(narrow::parts_of(",", ",") == Parts{"", ""});
  CHECK(narrow::parts_of("a b\tc", " \t") == Parts{"a", "b", "c"});
  CHECK(narrow::words_of("  a  b ") == Parts{"a", "b"});
  CHECK(narrow::words_of("").empty());
  CHECK(narrow::words_of<std::string>("a+b", "+") == std::vector<std::string>{"a", "b"});
}
