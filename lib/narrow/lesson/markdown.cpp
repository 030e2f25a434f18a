#include "narrow/lesson/markdown.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/lesson/highlight.hpp"
#include "narrow/lesson/math.hpp"
#include "narrow/report/escape.hpp"
#include "narrow/text/characters.hpp"
#include "narrow/text/quote.hpp"

namespace lesson {
namespace {

using narrow::detail::trim;

// ---- Within a line ----

// Only what a page may point to: pages of the web, places in this one, files beside it. A browser drops blanks and
// control characters before it looks for a scheme, reads \ as /, takes // as another host, and resolves entities; an
// address with any of these is shown as the text that it is.
bool is_link(std::string_view to) {
  if (to.empty() || to.find_first_of(" \\<>\"'") != std::string_view::npos || narrow::visible(to) != to) return false;
  if (to.starts_with("https://") || to.starts_with("http://")) return true;
  return to[0] != '/' && to.find(':') == std::string_view::npos && to.find("&#") == std::string_view::npos &&
         to.find("&colon") == std::string_view::npos;
}

class Inline {
 public:
  explicit Inline(std::string_view text) : rest_(text) {}

  std::string html() {
    while (!rest_.empty()) {
      if (code() || formula() || link() || marked("**", "strong") || marked("*", "em")) continue;
      if (rest_[0] == '\\' && rest_.size() > 1 &&
          std::string_view("\\`*_$[]|{}#").find(rest_[1]) != std::string_view::npos)
        rest_.remove_prefix(1);
      plain_ += rest_[0];
      rest_.remove_prefix(1);
    }
    flush();
    return std::move(out_);
  }

 private:
  void flush() {
    out_ += narrow::report::html_with_powers(plain_);
    plain_.clear();
  }
  void put(const std::string& html, std::size_t length) {
    flush();
    out_ += html;
    rest_.remove_prefix(length);
  }

  bool code() {
    if (rest_[0] != '`') return false;
    const std::size_t end = rest_.find('`', 1);
    if (end == std::string_view::npos) return false;
    put("<code>" + narrow::report::escaped_html(rest_.substr(1, end - 1)) + "</code>", end + 1);
    return true;
  }

  bool formula() {
    if (rest_[0] != '$') return false;
    std::size_t end = rest_.find('$', 1);
    while (end != std::string_view::npos && rest_[end - 1] == '\\') end = rest_.find('$', end + 1);
    if (end == std::string_view::npos || end == 1)
      throw narrow::Error("a $ without its end in " + narrow::quote(rest_) + "; the sign itself is written \\$");
    put(formula_html(rest_.substr(1, end - 1), false), end + 1);
    return true;
  }

  bool link() {
    if (rest_[0] != '[') return false;
    const std::size_t middle = rest_.find("](");
    const std::size_t end = middle == std::string_view::npos ? middle : rest_.find(')', middle);
    if (end == std::string_view::npos) return false;
    std::string to(rest_.substr(middle + 2, end - middle - 2));
    if (!is_link(to)) return false;
    if (to.ends_with(".cpp") && to.find('/') == std::string::npos) to.replace(to.size() - 4, 4, ".html");
    const std::string text = Inline(rest_.substr(1, middle - 1)).html();
    put("<a href=\"" + narrow::report::escaped_html(to) + "\">" + text + "</a>", end + 1);
    return true;
  }

  // **text** and *text*: a sign followed by a space is a sign.
  bool marked(std::string_view sign, const char* tag) {
    if (!rest_.starts_with(sign) || rest_.size() <= sign.size() || rest_[sign.size()] == ' ') return false;
    std::size_t end = rest_.find(sign, sign.size());
    if (end == std::string_view::npos || end == sign.size() || rest_[end - 1] == ' ') return false;
    const std::string inside = Inline(rest_.substr(sign.size(), end - sign.size())).html();
    put("<" + std::string(tag) + ">" + inside + "</" + tag + ">", end + sign.size());
    return true;
  }

  std::string_view rest_;
  std::string plain_, out_;
};

// ---- Blocks ----

class Blocks {
 public:
  explicit Blocks(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      lines_.push_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  Rendered html() {
    while (at_ < lines_.size()) {
      if (trim(line()).empty()) ++at_;
      else if (!(heading() || fence() || formula() || table() || quote() || list())) paragraph();
    }
    return std::move(result_);
  }

 private:
  std::string_view line() const { return lines_[at_]; }
  void put(const std::string& html) { result_.html += html; }

  static int heading_level(std::string_view text) {
    std::size_t level = 0;
    while (level < text.size() && text[level] == '#') ++level;
    return level >= 1 && level <= 4 && level < text.size() && text[level] == ' ' ? static_cast<int>(level) : 0;
  }
  // The length of "- " or "12. "; 0 when the line opens no item.
  static std::size_t item_sign(std::string_view text) {
    if (text.starts_with("- ")) return 2;
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
    return digits > 0 && text.substr(digits).starts_with(". ") ? digits + 2 : 0;
  }
  static bool opens_block(std::string_view text) {
    return trim(text).empty() || heading_level(text) > 0 || item_sign(text) > 0 || text.starts_with("```") ||
           text.starts_with("$$") || text.starts_with("|") || text.starts_with(">");
  }

  bool heading() {
    const int level = heading_level(line());
    if (level == 0) return false;
    const std::string_view text = trim(line().substr(static_cast<std::size_t>(level)));
    Heading h{level, "", inline_html(text)};
    for (const char c : text) {
      const char low = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      if ((low >= 'a' && low <= 'z') || (low >= '0' && low <= '9')) h.id += low;
      else if (!h.id.empty() && h.id.back() != '-') h.id += '-';
    }
    while (!h.id.empty() && h.id.back() == '-') h.id.pop_back();
    const std::string name = "h" + std::to_string(level);
    put("<" + name + " id=\"" + h.id + "\">" + h.text + "</" + name + ">\n");
    result_.headings.push_back(std::move(h));
    ++at_;
    return true;
  }

  bool fence() {
    if (!line().starts_with("```")) return false;
    const bool cpp = trim(line().substr(3)) == "cpp" || trim(line().substr(3)) == "c++";
    std::string source;
    for (++at_; at_ < lines_.size() && !line().starts_with("```"); ++at_) source += std::string(line()) + "\n";
    if (at_ == lines_.size()) throw narrow::Error("a ``` without its end");
    ++at_;
    put("<pre class=\"code\"><code>" + (cpp ? highlighted_cpp(source) : narrow::report::escaped_html(source)) +
        "</code></pre>\n");
    return true;
  }

  bool formula() {
    if (!line().starts_with("$$")) return false;
    std::string tex(line().substr(2));
    std::size_t end = tex.find("$$");
    while (end == std::string::npos) {
      if (++at_ == lines_.size()) throw narrow::Error("a $$ without its end");
      tex += "\n" + std::string(line());
      end = tex.find("$$");
    }
    ++at_;
    put("<div class=\"formula\">" + formula_html(tex.substr(0, end), true) + "</div>\n");
    return true;
  }

  static std::vector<std::string_view> cells_of(std::string_view text) {
    text = trim(text);
    if (text.starts_with("|")) text.remove_prefix(1);
    if (text.ends_with("|") && !text.ends_with("\\|")) text.remove_suffix(1);
    std::vector<std::string_view> cells;
    std::size_t start = 0;
    bool code = false;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (i < text.size() && text[i] == '`') code = !code;
      if (i < text.size() && (text[i] != '|' || code || (i > 0 && text[i - 1] == '\\'))) continue;
      cells.push_back(trim(text.substr(start, i - start)));
      start = i + 1;
    }
    return cells;
  }

  bool table() {
    if (!line().starts_with("|") || at_ + 1 >= lines_.size() || !lines_[at_ + 1].starts_with("|")) return false;
    if (lines_[at_ + 1].find_first_not_of("|-: ") != std::string_view::npos) return false;
    std::vector<bool> right;
    for (const std::string_view mark : cells_of(lines_[at_ + 1])) right.push_back(mark.ends_with(":"));
    const auto row = [&](std::string_view text, const char* tag) {
      std::string out = "<tr>";
      std::size_t i = 0;
      for (const std::string_view cell : cells_of(text)) {
        out += "<" + std::string(tag) + (i < right.size() && right[i] ? " class=\"r\">" : ">") + inline_html(cell) +
               "</" + tag + ">";
        ++i;
      }
      return out + "</tr>\n";
    };
    put("<div class=\"wide\"><table><thead>" + row(line(), "th") + "</thead><tbody>\n");
    for (at_ += 2; at_ < lines_.size() && line().starts_with("|"); ++at_) put(row(line(), "td"));
    put("</tbody></table></div>\n");
    return true;
  }

  bool quote() {
    if (!line().starts_with(">")) return false;
    std::string inside;
    for (; at_ < lines_.size() && line().starts_with(">"); ++at_)  // a quote within a quote is the same quote
      inside += std::string(line().substr(std::min(line().find_first_not_of("> "), line().size()))) + "\n";
    put("<blockquote>" + Blocks(inside).html().html + "</blockquote>\n");
    return true;
  }

  // Items of one level; lines that follow an item belong to it.
  bool list() {
    if (item_sign(line()) == 0) return false;
    const bool numbered = !line().starts_with("- ");
    put(numbered ? "<ol>\n" : "<ul>\n");
    while (at_ < lines_.size() && item_sign(line()) > 0 && !line().starts_with("- ") == numbered) {
      std::string item(line().substr(item_sign(line())));
      for (++at_; at_ < lines_.size() && !opens_block(line()); ++at_) item += " " + std::string(trim(line()));
      put("<li>" + inline_html(item) + "</li>\n");
      while (at_ + 1 < lines_.size() && trim(line()).empty() && item_sign(lines_[at_ + 1]) > 0) ++at_;
    }
    put(numbered ? "</ol>\n" : "</ul>\n");
    return true;
  }

  void paragraph() {
    std::string text(line());
    for (++at_; at_ < lines_.size() && !opens_block(line()); ++at_) text += "\n" + std::string(line());
    put("<p>" + inline_html(text) + "</p>\n");
  }

  std::vector<std::string_view> lines_;
  std::size_t at_ = 0;
  Rendered result_;
};

}  // namespace

Rendered markdown_html(std::string_view text) { return Blocks(text).html(); }

std::string inline_html(std::string_view text) { return Inline(text).html(); }

}  // namespace lesson
