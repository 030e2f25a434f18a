#include "narrow/lesson/math.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/report/escape.hpp"
#include "narrow/text/quote.hpp"

namespace lesson {
namespace {

constexpr int most_depth = 40;

struct Named {
  std::string_view name, text;  // text: as it stands in HTML
};

// Letters: set as variables.
constexpr Named letters[] = {
    {"alpha", "&#x3B1;"},    {"beta", "&#x3B2;"},    {"gamma", "&#x3B3;"},      {"delta", "&#x3B4;"},
    {"Delta", "&#x394;"},    {"epsilon", "&#x3B5;"}, {"varepsilon", "&#x3B5;"}, {"eta", "&#x3B7;"},
    {"theta", "&#x3B8;"},    {"lambda", "&#x3BB;"},  {"mu", "&#x3BC;"},         {"pi", "&#x3C0;"},
    {"rho", "&#x3C1;"},      {"sigma", "&#x3C3;"},   {"Sigma", "&#x3A3;"},      {"tau", "&#x3C4;"},
    {"phi", "&#x3C6;"},      {"omega", "&#x3C9;"},   {"ell", "&#x2113;"},       {"infty", "&#x221E;"},
    {"partial", "&#x2202;"}, {"nabla", "&#x2207;"}};

constexpr Named operators[] = {
    {"cdot", "&#x22C5;"},  {"times", "&#xD7;"},   {"pm", "&#xB1;"},       {"le", "&#x2264;"},
    {"leq", "&#x2264;"},   {"ge", "&#x2265;"},    {"geq", "&#x2265;"},    {"lt", "&lt;"},
    {"gt", "&gt;"},        {"ne", "&#x2260;"},    {"neq", "&#x2260;"},    {"approx", "&#x2248;"},
    {"sim", "&#x223C;"},   {"to", "&#x2192;"},    {"mapsto", "&#x21A6;"}, {"in", "&#x2208;"},
    {"ll", "&#x226A;"},    {"gg", "&#x226B;"},    {"equiv", "&#x2261;"},  {"Rightarrow", "&#x21D2;"},
    {"dots", "&#x2026;"},  {"cdots", "&#x22EF;"}, {"ldots", "&#x2026;"},  {"mid", "|"},
    {"top", "&#x22A4;"},   {"odot", "&#x2299;"},  {"div", "&#xF7;"},      {"leftarrow", "&#x2190;"},
    {"propto", "&#x221D;"}};

constexpr Named fences[] = {{"lfloor", "&#x230A;"},
                            {"rfloor", "&#x230B;"},
                            {"lceil", "&#x2308;"},
                            {"rceil", "&#x2309;"},
                            {"{", "{"},
                            {"}", "}"},
                            {"langle", "&#x27E8;"},
                            {"rangle", "&#x27E9;"}};

// With limits above and below where the formula has a line of its own.
constexpr Named large[] = {{"sum", "&#x2211;"}, {"prod", "&#x220F;"}, {"max", "max"}, {"min", "min"}};

constexpr std::string_view functions[] = {"log",    "ln",    "exp",     "sin",  "cos", "tanh", "erf",
                                          "argmax", "round", "softmax", "sign", "mod", "amax"};

constexpr Named spaces[] = {{",", "0.17em"}, {";", "0.28em"},  {":", "0.22em"}, {" ", "0.25em"},
                            {"quad", "1em"}, {"qquad", "2em"}, {"!", "0"}};

template <std::size_t N>
const Named* find(const Named (&table)[N], std::string_view name) {
  const auto* found = std::find_if(table, table + N, [&](const Named& n) { return n.name == name; });
  return found == table + N ? nullptr : found;
}

std::string span(const char* kind, const std::string& inside) {
  return "<span class=\"" + std::string(kind) + "\">" + inside + "</span>";
}

class Parser {
 public:
  Parser(std::string_view tex, bool display) : tex_(tex), rest_(tex), display_(display) {}

  std::string whole() {
    const std::string out = row();
    if (!rest_.empty()) refuse(rest_.starts_with('}') ? "a } too many" : "\\right without \\left");
    return out;
  }

 private:
  // After an operand a - is a difference, with space around it; elsewhere it is a sign.
  enum class Role { operand, operation, open };
  struct Atom {
    std::string html;
    Role role = Role::operand;
    bool limits = false;
    bool tall = false;  // a fraction or the like: brackets around it grow
    bool word = false;  // log, max: what follows stands apart
  };

  [[noreturn]] void refuse(const std::string& why) const {
    throw narrow::Error("the formula " + narrow::quote(tex_) + ": " + why);
  }

  void skip_spaces() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }

  // Atoms up to the end, a }, or \right. tall_ tells whether one of them was.
  std::string row() {
    if (++depth_ > most_depth) refuse("too deep");
    const Role outside = before_;
    std::string out;
    bool tall = false;
    before_ = Role::open;
    for (skip_spaces(); !rest_.empty() && rest_[0] != '}' && !at_right(); skip_spaces()) {
      const Atom a = scripted();
      out += a.html;
      before_ = a.role;
      tall = tall || a.tall;
    }
    before_ = outside;
    tall_ = tall;
    --depth_;
    return out;
  }

  bool at_right() const { return rest_.starts_with("\\right") && !rest_.starts_with("\\rightarrow"); }

  Atom scripted() {
    Atom base = rest_[0] == '^' || rest_[0] == '_' ? Atom{} : atom();
    std::string raised, lowered;
    for (skip_spaces(); !rest_.empty() && (rest_[0] == '^' || rest_[0] == '_' || rest_[0] == '\''); skip_spaces()) {
      const char sign = rest_[0];
      rest_.remove_prefix(1);
      std::string& target = sign == '_' ? lowered : raised;
      if (!target.empty()) refuse(std::string("two ") + sign);
      if (sign == '\'') target = "&#x2032;";
      else target = argument("^ or _");
    }
    if (raised.empty() && lowered.empty()) return base;
    if (base.limits && display_) base.html = span("limits", span("above", raised) + base.html + span("below", lowered));
    else if (raised.empty()) base.html += "<sub>" + lowered + "</sub>";
    else if (lowered.empty()) base.html += "<sup>" + raised + "</sup>";
    else base.html += span("scripts", "<sup>" + raised + "</sup><sub>" + lowered + "</sub>");
    base.role = base.word ? Role::open : Role::operand;
    if (base.word) base.html += "<span class=\"thin\"></span>";
    return base;
  }

  // What follows ^, _ or a command: a group or one atom.
  std::string argument(const char* after) {
    skip_spaces();
    if (rest_.empty() || rest_[0] == '}') refuse(std::string("nothing after ") + after);
    if (++depth_ > most_depth) refuse("too deep");
    const Role outside = before_;
    before_ = Role::open;
    std::string html = atom().html;
    before_ = outside;
    --depth_;
    return html;
  }

  // The text of a group, as it is.
  std::string_view verbatim(const char* after) {
    skip_spaces();
    const std::size_t end = rest_.find('}');
    if (rest_.empty() || rest_[0] != '{' || end == std::string_view::npos)
      refuse(std::string("no {..} after ") + after);
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  Atom operation(const std::string& sign) const {
    return {before_ == Role::operand ? span("o", sign) : sign, Role::operation};
  }

  std::string number() {
    std::size_t length = 1;
    const auto digit = [&](std::size_t i) { return i < rest_.size() && rest_[i] >= '0' && rest_[i] <= '9'; };
    while (digit(length) ||
           (length < rest_.size() && (rest_[length] == '.' || rest_[length] == ',') && digit(length + 1)))
      ++length;
    const std::string text(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return text;
  }

  Atom atom() {
    const char c = rest_[0];
    if (c == '{') {
      rest_.remove_prefix(1);
      const std::string inside = row();
      const bool tall = tall_;
      if (rest_.empty() || rest_[0] != '}') refuse("a { is not closed");
      rest_.remove_prefix(1);
      return {inside, Role::operand, false, tall};
    }
    if (c == '\\') return command();
    if (c >= '0' && c <= '9') return {number()};
    rest_.remove_prefix(1);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return {"<i>" + std::string(1, c) + "</i>"};
    switch (c) {
      case '-': return operation("&#x2212;");
      case '*': return operation("&#x2217;");
      case '+': return operation("+");
      case '=': return operation("=");
      case '<': return operation("&lt;");
      case '>': return operation("&gt;");
      case '(':
      case '[': return {std::string(1, c), Role::open};
      case ')':
      case ']':
      case '|':
      case '/':
      case '.':
      case '!': return {std::string(1, c), c == '/' ? Role::operation : Role::operand};
      case ',':
      case ';':
      case ':': return {c + std::string("<span class=\"thin\"></span>"), Role::operation};
      default: refuse("unknown sign " + narrow::quote(std::string(1, c)));
    }
  }

  std::string_view command_name() {
    std::size_t length = 1;
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    while (length < rest_.size() && is_letter(rest_[length])) ++length;
    if (length == 1) length = std::min<std::size_t>(2, rest_.size());
    const std::string_view name = rest_.substr(1, length - 1);
    rest_.remove_prefix(length);
    return name;
  }

  std::string fence(const char* after) {
    skip_spaces();
    if (rest_.empty()) refuse(std::string("nothing after ") + after);
    if (rest_[0] == '\\') {
      const Named* named = find(fences, command_name());
      if (named == nullptr) refuse(std::string("no bracket after ") + after);
      return std::string(named->text);
    }
    const char c = rest_[0];
    rest_.remove_prefix(1);
    if (c == '.') return "";
    if (std::string_view("()[]|").find(c) == std::string_view::npos) refuse(std::string("no bracket after ") + after);
    return std::string(1, c);
  }

  Atom bracketed() {
    const std::string open = fence("\\left"), inside = row();
    const bool tall = tall_;
    if (!at_right()) refuse("\\left without \\right");
    rest_.remove_prefix(6);
    const std::string close = fence("\\right");
    if (!tall || !display_) return {open + inside + close};
    return {span("fence", open) + inside + span("fence", close), Role::operand, false, true};
  }

  Atom command() {
    const std::string_view name = command_name();
    if (name == "frac" || name == "tfrac" || name == "dfrac") {
      const std::string above = argument("\\frac"), below = argument("\\frac");
      return {span("frac", span("above", above) + span("below", below)), Role::operand, false, true};
    }
    if (name == "sqrt") return {span("root", "&#x221A;" + span("under", argument("\\sqrt")))};
    if (name == "hat" || name == "bar" || name == "overline")
      return {argument("\\hat or \\bar") + (name == "hat" ? "&#x302;" : "&#x304;")};
    if (name == "text") return {narrow::report::escaped_html(verbatim("\\text"))};
    if (name == "mathrm" || name == "operatorname") return {narrow::report::escaped_html(verbatim("\\mathrm"))};
    if (name == "left") return bracketed();
    if (const Named* found = find(letters, name)) return {"<i>" + std::string(found->text) + "</i>"};
    if (const Named* found = find(operators, name)) return operation(std::string(found->text));
    if (const Named* found = find(fences, name))
      return {std::string(found->text), name[0] == 'l' || name == "{" ? Role::open : Role::operand};
    if (const Named* found = find(large, name)) {
      const bool sign = found->text[0] == '&';
      return {sign ? span("large", std::string(found->text)) : span("word", std::string(found->text)), Role::open, true,
              sign, !sign};
    }
    if (const Named* found = find(spaces, name))
      return {"<span style=\"margin-left:" + std::string(found->text) + "\"></span>", before_};
    if (std::find(std::begin(functions), std::end(functions), name) != std::end(functions))
      return {span("word", std::string(name)), Role::open, false, false, true};
    if (name == "%" || name == "#" || name == "$" || name == "&" || name == "_") return {narrow::report::escaped_html(name)};
    refuse("unknown command \\" + std::string(name));
  }

  std::string_view tex_, rest_;
  bool display_;
  bool tall_ = false;
  Role before_ = Role::open;
  int depth_ = 0;
};

}  // namespace

std::string formula_html(std::string_view tex, bool display) {
  const std::string inside = Parser(tex, display).whole();
  return "<span class=\"math\" role=\"math\" aria-label=\"" + narrow::report::escaped_html(tex) + "\">" + inside + "</span>";
}

}  // namespace lesson
