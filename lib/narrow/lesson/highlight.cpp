#include "narrow/lesson/highlight.hpp"

#include <algorithm>

#include "narrow/report/escape.hpp"

namespace lesson {
namespace {

constexpr std::string_view keywords[] = {
    "auto",      "bool",     "break",       "case",     "char",     "class",    "const",   "consteval",
    "constexpr", "continue", "default",     "do",       "double",   "else",     "enum",    "false",
    "float",     "for",      "if",          "inline",   "int",      "long",     "mutable", "namespace",
    "new",       "nullptr",  "operator",    "private",  "public",   "return",   "short",   "signed",
    "sizeof",    "static",   "static_cast", "struct",   "switch",   "template", "this",    "throw",
    "true",      "try",      "catch",       "typename", "unsigned", "using",    "void",    "while"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : rest_(source) {}

  std::string html() {
    while (!rest_.empty()) {
      const std::size_t length = next();
      const bool blank = kind_.empty();
      const std::string text = narrow::report::escaped_html(rest_.substr(0, length));
      out_ += blank ? text : "<span class=\"" + std::string(kind_) + "\">" + text + "</span>";
      for (const char c : rest_.substr(0, length))
        if (c == '\n') line_start_ = true;
        else if (c != ' ') line_start_ = false;
      rest_.remove_prefix(length);
    }
    return std::move(out_);
  }

 private:
  // The length of the token at the front; kind_ is its class, empty for plain text.
  std::size_t next() {
    const char c = rest_[0];
    kind_ = "";
    if (rest_.starts_with("//")) return kind_ = "c", std::min(rest_.find('\n'), rest_.size());
    if (rest_.starts_with("/*")) return kind_ = "c", ending("*/", 2);
    if (c == '#' && line_start_) return kind_ = "p", directive();
    if (rest_.starts_with("R\"")) return kind_ = "s", raw_string();
    if (c == '<' && out_.ends_with("include </span>")) return kind_ = "s", ending(">", 1);
    if (c == '"' || c == '\'') return kind_ = "s", string(c);
    if (is_digit(c) || (c == '.' && rest_.size() > 1 && is_digit(rest_[1]))) return kind_ = "n", number();
    if (is_word(c)) return word();
    return 1;
  }

  std::size_t ending(std::string_view end, std::size_t from) const {
    const std::size_t at = rest_.find(end, from);
    return at == std::string_view::npos ? rest_.size() : at + end.size();
  }

  // #include and its kin; what is included is a string.
  std::size_t directive() const {
    std::size_t length = 1;
    while (length < rest_.size() && (is_word(rest_[length]) || rest_[length] == ' ')) ++length;
    return length;
  }

  std::size_t raw_string() const {
    const std::size_t open = rest_.find('(');
    if (open == std::string_view::npos) return rest_.size();
    return ending(")" + std::string(rest_.substr(2, open - 2)) + "\"", open);
  }

  std::size_t string(char quote) const {
    std::size_t i = 1;
    while (i < rest_.size() && rest_[i] != quote && rest_[i] != '\n') i += rest_[i] == '\\' ? 2 : 1;
    return std::min(i + 1, rest_.size());
  }

  // 0x1.8p-3, 1e-7, 65'536: a sign belongs to the number after e or p.
  std::size_t number() const {
    const bool hex = rest_.starts_with("0x") || rest_.starts_with("0X");
    std::size_t i = 1;
    for (; i < rest_.size(); ++i) {
      const char c = rest_[i], before = rest_[i - 1];
      const bool exponent = before == 'p' || before == 'P' || (!hex && (before == 'e' || before == 'E'));
      if (!is_word(c) && c != '.' && c != '\'' && !(exponent && (c == '-' || c == '+'))) break;
    }
    return i;
  }

  std::size_t word() {
    std::size_t length = 1;
    while (length < rest_.size() && is_word(rest_[length])) ++length;
    const std::string_view text = rest_.substr(0, length);
    if (std::find(std::begin(keywords), std::end(keywords), text) != std::end(keywords)) kind_ = "k";
    else if (text[0] >= 'A' && text[0] <= 'Z') kind_ = "t";
    else if (length < rest_.size() && rest_[length] == '(') kind_ = "f";
    return length;
  }

  std::string_view rest_, kind_;
  std::string out_;
  bool line_start_ = true;
};

}  // namespace

std::string highlighted_cpp(std::string_view source) { return Lexer(source).html(); }

}  // namespace lesson
