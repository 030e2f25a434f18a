// The Markdown of lessons as HTML: headings, lists, tables, quotes, code and formulas. No HTML passes through it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lesson {

struct Heading {
  int level = 2;
  std::string id, text;  // text: HTML
};

struct Rendered {
  std::string html;
  std::vector<Heading> headings;
};

// A link to NAME.cpp becomes one to NAME.html, where the page of that lesson will be. Throws narrow::Error: a formula
// that cannot be read, a $ without its end.
Rendered markdown_html(std::string_view text);

// One line of it, without a paragraph around it.
std::string inline_html(std::string_view text);

}  // namespace lesson
