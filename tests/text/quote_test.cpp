#include <doctest/doctest.h>

#include "narrow/text/quote.hpp"

TEST_CASE("text: a quoted word is printable and at most 60 characters of it are shown") {
  CHECK(narrow::quote("fp16") == "'fp16'");
  CHECK(narrow::quote("") == "''");
  CHECK(narrow::quote("a\nb\x1b[31m\x7f") == "'a\\x0Ab\\x1B[31m\\x7F'");
  CHECK(narrow::quote("\xC3\xA9") == "'\\xC3\\xA9'");
  CHECK(narrow::quote(std::string(60, 'a')) == "'" + std::string(60, 'a') + "'");
  CHECK(narrow::quote(std::string(61, 'a')) == "'" + std::string(60, 'a') + "...'");
}
