// Prints, or records one JSON object a line in the file that the environment variable NARROW_LESSON_RECORD names.
#include "narrow/lesson/lesson.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "narrow/base/error.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/plot/draw.hpp"
#include "narrow/report/table_writers.hpp"
#include "narrow/tensor/find_data.hpp"
#include "narrow/text/text.hpp"

namespace lesson {
namespace {

using narrow::report::json_string;

// ---- Where outputs go ----

class Page {
 public:
  Page() {
    std::set_terminate(stop);
    const char* path = std::getenv("NARROW_LESSON_RECORD");
    if (path == nullptr || *path == '\0') return;
    file_ = std::fopen(path, "wb");
    if (file_ != nullptr) return;
    std::fprintf(stderr, "%s: cannot be written\n", path);
    std::_Exit(2);
  }

  bool records() const { return file_ != nullptr; }

  // Flushed at once: what came before a crash is on the page.
  void put(At at, std::string_view kind, const std::string& rest) {
    line_ = at.line();
    const std::string text = "{\"line\":" + std::to_string(line_) + ",\"kind\":" + json_string(kind) + rest + "}\n";
    std::fwrite(text.data(), 1, text.size(), file_);
    std::fflush(file_);
  }
  void show(At at, const std::string& text) {
    line_ = at.line();
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
  }

  [[noreturn]] static void stop();

 private:
  std::FILE* file_ = nullptr;
  int line_ = 0;
};

Page page;

std::string member(const char* name, const std::string& value) { return ",\"" + std::string(name) + "\":" + value; }

void Page::stop() {
  std::string what = "the program was terminated";
  if (const std::exception_ptr error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      what = e.what();
    } catch (...) {
      what = "something that is no std::exception was thrown";
    }
  }
  if (page.records()) {
    const std::string line =
        "{\"line\":" + std::to_string(page.line_) + ",\"kind\":\"failure\"" + member("text", json_string(what)) + "}\n";
    std::fwrite(line.data(), 1, line.size(), page.file_);
    std::fflush(page.file_);
  } else {
    std::fflush(stdout);
    std::fprintf(stderr, "the lesson stopped after line %d: %s\n", page.line_, what.c_str());
  }
  std::_Exit(1);
}

// ---- Patterns ----

struct Spec {
  char align = 0;
  std::size_t width = 0;
  int digits = -1;
  bool fixed = false;
};

[[noreturn]] void refuse(std::string_view pattern, const char* why) {
  throw std::logic_error("the pattern \"" + std::string(pattern) + "\": " + why);
}

Spec parse_spec(std::string_view spec, std::string_view pattern) {
  Spec s;
  if (spec.empty()) return s;
  if (spec[0] != ':') refuse(pattern, "a brace opens with {} or {: ; a brace itself is written twice");
  spec.remove_prefix(1);
  const auto number = [&](auto& target) {
    const auto [end, fault] = std::from_chars(spec.data(), spec.data() + spec.size(), target);
    if (fault != std::errc()) refuse(pattern, "a number is missing in {:..}");
    spec.remove_prefix(static_cast<std::size_t>(end - spec.data()));
  };
  if (!spec.empty() && (spec[0] == '<' || spec[0] == '>')) {
    s.align = spec[0];
    spec.remove_prefix(1);
    number(s.width);
  }
  if (!spec.empty() && spec[0] == '.') {
    spec.remove_prefix(1);
    number(s.digits);
  }
  if (spec == "f") s.fixed = true, spec = {};
  if (!spec.empty() || s.width > 200 || s.digits > 60)
    refuse(pattern, "accepted: {} {:>8} {:<8} {:.3} {:.2f} {:>8.2f}");
  return s;
}

// 1e-07 is written by machines, 1e-7 by people.
std::string with_short_exponent(std::string text) {
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text;
  std::size_t first = e + 2, zeros = 0;
  while (first + zeros + 1 < text.size() && text[first + zeros] == '0') ++zeros;
  text.erase(first, zeros);
  if (text[e + 1] == '+') text.erase(e + 1, 1);
  return text;
}

template <class T>
std::string number_text(T number, const Spec& spec) {
  if (spec.digits >= 0)
    return spec.fixed ? narrow::report::fixed_text(static_cast<double>(number), spec.digits)
                      : narrow::report::significant_text(static_cast<double>(number), spec.digits);
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  return with_short_exponent(std::string(buffer.data(), end));
}

std::string value_text(const Value& value, const Spec& spec) {
  std::string text = std::visit(
      [&](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>) return v;
        else return number_text(v, spec);
      },
      value.get());
  if (text.size() >= spec.width) return text;
  const std::string room(spec.width - text.size(), ' ');
  return spec.align == '>' ? room + text : text + room;
}

// ---- Records ----

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k) word = word << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) out += k <= count ? digits[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

template <class Items, class Text>
std::string json_list(const Items& items, const Text& text) {
  std::string out = "[";
  for (const auto& item : items) out += (out.size() == 1 ? "" : ",") + text(item);
  return out + "]";
}

std::string binary(narrow::Code code, int from, int count) {
  std::string out;
  for (int i = from + count - 1; i >= from; --i) out += (code >> i & 1) != 0 ? '1' : '0';
  return out;
}

std::string value_of(narrow::Code code, const narrow::Format& f) {
  constexpr std::size_t short_enough = 14;
  const std::string exact = narrow::to_decimal(code, f);
  return exact.size() <= short_enough ? exact : narrow::report::significant_text(narrow::decode(code, f), 6);
}

}  // namespace

std::string format_values(std::string_view pattern, std::initializer_list<Value> values) {
  std::string out;
  const Value* next = values.begin();
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '{' && c != '}') {
      out += c;
    } else if (i + 1 < pattern.size() && pattern[i + 1] == c) {
      out += c;
      ++i;
    } else {
      const std::size_t end = pattern.find('}', i);
      if (c == '}' || end == std::string_view::npos) refuse(pattern, "a single brace; write it twice");
      const Spec spec = parse_spec(pattern.substr(i + 1, end - i - 1), pattern);
      if (next == values.end()) refuse(pattern, "fewer values than {}");
      out += value_text(*next++, spec);
      i = end;
    }
  }
  if (next != values.end()) refuse(pattern, "more values than {}");
  return out;
}

void print_text(std::string_view text, At at) {
  if (page.records()) page.put(at, "text", member("text", json_string(text)));
  else page.show(at, std::string(text));
}

void say_text(std::string_view text, At at) {
  if (page.records()) page.put(at, "say", member("text", json_string(text)));
  else page.show(at, std::string(text));
}

void table(const narrow::report::Table& t, At at) {
  narrow::report::check(t);
  const std::string text = narrow::report::to_text(t);
  if (!page.records()) return page.show(at, t.title + "\n" + text + (t.note.empty() ? "" : t.note + "\n"));
  const std::string columns = json_list(t.columns, [](const narrow::report::Column& c) {
    return "{\"name\":" + json_string(c.name) + member("unit", json_string(c.unit)) +
           member("text", c.kind == narrow::report::ColumnKind::text ? "true" : "false") + "}";
  });
  const std::string rows = json_list(t.rows, [&](const std::vector<narrow::report::Cell>& row) {
    std::size_t i = 0;
    return json_list(row, [&](const narrow::report::Cell& cell) { return json_string(shown_text(t.columns[i++], cell)); });
  });
  page.put(at, "table",
           member("title", json_string(t.title)) + member("note", json_string(t.note)) + member("columns", columns) +
               member("rows", rows) + member("text", json_string(text)));
}

void picture(const narrow::report::Plot& plot, At at) {
  narrow::report::check(plot);
  if (!page.records()) return page.show(at, "[picture] " + plot.title + "\n  " + plot.subtitle);
  std::string record =
      member("title", json_string(plot.title)) + member("subtitle", json_string(plot.subtitle)) +
      member("inline", json_string(narrow::plot::draw_inline(plot))) +
      member("svg", json_string(narrow::plot::draw(plot, narrow::plot::PictureKind::svg, {.backend = narrow::plot::PlotBackend::own})));
  if (narrow::plot::why_not(narrow::plot::PictureKind::png).empty())
    record += member("png", json_string(base64(narrow::plot::draw(plot, narrow::plot::PictureKind::png, {.png_scale = 1.5}))));
  page.put(at, "picture", record);
}

void bits(narrow::Code code, const narrow::Format& f, At at) {
  const std::string hex = narrow::to_hex_code(code, f), value = value_of(code, f);
  if (!page.records()) return page.show(at, fields(code, f) + "   " + hex + " = " + value);
  page.put(at, "bits",
           member("sign", json_string(f.has_sign ? binary(code, f.width() - 1, 1) : "")) +
               member("exponent", json_string(binary(code, f.mantissa_bits, f.exponent_bits))) +
               member("mantissa", json_string(binary(code, 0, f.mantissa_bits))) + member("code", json_string(hex)) +
               member("value", json_string(value)));
}

void expect(bool holds, std::string_view teaches, At at) {
  if (page.records())
    page.put(at, "expect", member("holds", holds ? "true" : "false") + member("text", json_string(teaches)));
  else page.show(at, (holds ? "  ok: " : "  FALSE: ") + std::string(teaches));
  if (holds) return;
  std::fflush(stdout);
  std::fprintf(stderr, "%s:%d: this does not hold: %.*s\n", at.file_name(), at.line(), static_cast<int>(teaches.size()),
               teaches.data());
  std::_Exit(1);
}

narrow::report::Table new_table(std::string title, std::vector<narrow::report::Column> columns, std::string note) {
  return {"table", std::move(title), std::move(columns), {}, std::move(note), {}};
}

void add_text_row(narrow::report::Table& table, const std::vector<std::string>& cells) {
  table.add(std::vector<narrow::report::Cell>(cells.begin(), cells.end()));
}

narrow::report::Series new_series(std::string name, narrow::report::Draw draw, narrow::report::PlotColour colour) {
  narrow::report::Series s;
  s.name = std::move(name);
  s.draw = draw;
  s.colour = colour;
  return s;
}

narrow::report::Plot new_plot(std::string title, std::string subtitle, std::vector<narrow::report::Panel> panels, double panel_height) {
  narrow::report::Plot p;
  p.name = "picture";
  p.title = std::move(title);
  p.subtitle = std::move(subtitle);
  p.panels = std::move(panels);
  p.panel_height = panel_height;
  return p;
}

std::string fields(narrow::Code code, const narrow::Format& f) {
  std::string out = f.has_sign ? binary(code, f.width() - 1, 1) : "";
  for (const std::string& part : {binary(code, f.mantissa_bits, f.exponent_bits), binary(code, 0, f.mantissa_bits)})
    if (!part.empty()) out += (out.empty() ? "" : " ") + part;
  return out;
}

std::string data_file(std::string_view name) { return narrow::require_data(name); }

}  // namespace lesson
