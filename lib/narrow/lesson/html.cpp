#include "narrow/lesson/html.hpp"

#include <algorithm>
#include <filesystem>

#include "narrow/base/error.hpp"
#include "narrow/base/version.hpp"
#include "narrow/lesson/highlight.hpp"
#include "narrow/lesson/markdown.hpp"
#include "narrow/lesson/style.hpp"
#include "narrow/report/escape.hpp"

namespace lesson {
namespace {

namespace fs = std::filesystem;
using narrow::report::escaped_html;
using narrow::report::html_with_powers;
using Kind = LessonOutput::Kind;

// ---- Outputs ----

std::string table_html(const LessonOutput& o) {
  std::string out;
  if (!o.title.empty()) out += "<p class=\"caption\">" + html_with_powers(o.title) + "</p>\n";
  out += "<div class=\"wide\"><table><thead><tr>";
  for (std::size_t i = 0; i < o.columns.size(); ++i) {
    const auto& [name, unit] = o.columns[i];
    out += std::string(o.is_text[i] ? "<th>" : "<th class=\"r\">") + html_with_powers(name) +
           (unit.empty() ? "" : " <span class=\"unit\">" + html_with_powers(unit) + "</span>") + "</th>";
  }
  out += "</tr></thead><tbody>\n";
  for (const auto& row : o.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size() && i < o.columns.size(); ++i)
      out += std::string(o.is_text[i] ? "<td>" : "<td class=\"r\">") + html_with_powers(row[i]) + "</td>";
    out += "</tr>\n";
  }
  out += "</tbody></table></div>\n";
  return out + (o.subtitle.empty() ? "" : "<p class=\"note\">" + html_with_powers(o.subtitle) + "</p>\n");
}

std::string picture_html(const LessonOutput& o) {
  if (o.drawn.empty()) throw narrow::Error("a picture without content: " + o.title);
  return "<figure><figcaption>" + html_with_powers(o.title) +
         (o.subtitle.empty() ? "" : "<span>" + html_with_powers(o.subtitle) + "</span>") +
         "</figcaption>\n<div class=\"wide\">" + o.drawn + "</div></figure>\n";
}

std::string bits_html(const LessonOutput& o) {
  const bool many = o.sign.size() + o.exponent.size() + o.mantissa.size() > 20;
  std::string out = std::string("<div class=\"bits\"><span class=\"row") + (many ? " many" : "") + "\">";
  const auto cells = [&](const char* kind, const std::string& bits) {
    for (const char bit : bits) out += std::string("<i class=\"") + kind + "\">" + bit + "</i>";
  };
  cells("s", o.sign);
  cells("e", o.exponent);
  cells("m", o.mantissa);
  return out + "</span><code>" + escaped_html(o.code) + "</code><b>" + escaped_html(o.value) + "</b></div>\n";
}

std::string output_html(const LessonOutput& o) {
  switch (o.kind) {
    case Kind::say: return "<p class=\"said\">" + inline_html(o.text) + "</p>\n";
    case Kind::table: return table_html(o);
    case Kind::picture: return picture_html(o);
    case Kind::bits: return bits_html(o);
    case Kind::expect: return "<p class=\"holds\">" + html_with_powers(o.text) + "</p>\n";
    case Kind::text: break;
  }
  return "<pre>" + escaped_html(o.text) + "</pre>\n";
}

// Lines of print() that follow each other are one block.
std::vector<LessonOutput> outputs_of(const Lesson& lesson, const LessonRun& run, const LessonCell& cell) {
  std::vector<LessonOutput> own;
  for (const LessonOutput& o : run.outputs) {
    if (lesson.shown_at(o.line) != &cell) continue;
    if (o.kind == Kind::text && !own.empty() && own.back().kind == Kind::text) own.back().text += "\n" + o.text;
    else own.push_back(o);
  }
  return own;
}

std::string code_cell(const Lesson& lesson, const LessonRun& run, const LessonCell& cell) {
  const std::string code = "<pre class=\"code\"><code>" + highlighted_cpp(cell.source) + "</code></pre>\n";
  std::string out =
      "<div class=\"cell\">" +
      (cell.has_tag("folded") ? "<details class=\"source\"><summary>code</summary>\n" + code + "</details>\n" : code);
  const std::vector<LessonOutput> outputs = outputs_of(lesson, run, cell);
  if (!outputs.empty()) out += "<div class=\"out\">\n";
  for (const LessonOutput& o : outputs) out += output_html(o);
  return out + (outputs.empty() ? "" : "</div>\n") + "</div>\n";
}

// ---- The page ----

std::string whole_page(const std::string& title, const std::string& body) {
  return "<!doctype html>\n<html lang=\"en\" id=\"top\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         escaped_html(title) + "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n" + lesson_style() +
         "</style>\n</head>\n<body>\n" + body + "</body>\n</html>\n";
}

// Formulas and marks are for the heading; a title in the window has none.
std::string plain_title(std::string_view title) {
  std::string out;
  for (const char c : title)
    if (c != '$' && c != '`' && c != '*') out += c;
  return out;
}

std::string contents(const std::vector<Heading>& headings) {
  std::string out;
  for (const Heading& h : headings)
    if (h.level == 2) out += "<a href=\"#" + h.id + "\">" + h.text + "</a>\n";
  return out.empty() ? "" : "<nav class=\"toc\" aria-label=\"sections\">\n" + out + "</nav>\n";
}

std::string neighbours(const LessonPlace& place) {
  if (!place.before && !place.after) return "";
  const auto link = [](const LessonPlace::Neighbour& to, const char* kind, const char* word) {
    return "<a class=\"" + std::string(kind) + "\" href=\"" + escaped_html(to.page) + "\"><span>" + word + "</span>" +
           inline_html(to.title) + "</a>\n";
  };
  return "<nav class=\"near\">\n" + (place.before ? link(*place.before, "before", "before this") : "") +
         (place.after ? link(*place.after, "next", "next lesson") : "") + "</nav>\n";
}

std::string footer(const std::string& path, const std::string& command) {
  return "<footer><p>Made from <code>" + escaped_html(fs::path(path).filename().string()) + "</code> by narrow " +
         std::string(narrow::version) + ": <code>" + escaped_html(command) + "</code></p></footer>\n";
}

}  // namespace

LessonPlace place_of(const Lesson& lesson) {
  const auto is_numbered = [](const std::string& name) {
    return name.size() > 3 && name[0] >= '0' && name[0] <= '9' && name[1] >= '0' && name[1] <= '9' && name[2] == '_';
  };
  LessonPlace place;
  if (!is_numbered(lesson.name)) return place;
  std::vector<fs::path> files;
  std::error_code fault;
  const fs::path folder = fs::absolute(lesson.path).parent_path();
  for (fs::directory_iterator entry(folder, fault), end; !fault && entry != end; entry.increment(fault))
    if (entry->path().extension() == ".cpp" && is_numbered(entry->path().stem().string()))
      files.push_back(entry->path());
  std::sort(files.begin(), files.end());
  const auto neighbour = [](const fs::path& file) -> std::optional<LessonPlace::Neighbour> {
    try {
      return LessonPlace::Neighbour{file.stem().string() + ".html", read_lesson(file.string()).title};
    } catch (const narrow::Error&) {
      return {};
    }
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].stem() != lesson.name) continue;
    place.number = i + 1;
    place.count = files.size();
    if (i > 0) place.before = neighbour(files[i - 1]);
    if (i + 1 < files.size()) place.after = neighbour(files[i + 1]);
  }
  return place;
}

std::string lesson_html(const Lesson& lesson, const LessonRun& run, const LessonPlace& place) {
  std::string body;
  std::vector<Heading> headings;
  bool folded = false;
  for (const LessonCell& cell : lesson.cells) {
    if (cell.has_tag("program")) continue;
    if (cell.has_tag("solution") != folded) {
      folded = !folded;
      body += folded ? "<details><summary>Solutions</summary>\n" : "</details>\n";
    }
    try {
      if (cell.markdown) {
        Rendered rendered = markdown_html(cell.source);
        body += rendered.html;
        headings.insert(headings.end(), rendered.headings.begin(), rendered.headings.end());
      } else {
        body += code_cell(lesson, run, cell);
      }
    } catch (const narrow::Error& error) {
      throw narrow::Error(lesson.path + ":" + std::to_string(cell.first_line) + ": " + error.what());
    }
  }
  if (folded) body += "</details>\n";
  std::string top = "<main>\n<div class=\"top\"><a href=\"index.html\">narrow: lessons</a>";
  if (place.number > 0)
    top += "<span>lesson " + std::to_string(place.number) + " of " + std::to_string(place.count) + "</span>";
  return whole_page(plain_title(lesson.title),
              contents(headings) + top + "</div>\n" + body + neighbours(place) +
                  footer(lesson.path, "narrow notebook " + fs::path(lesson.path).filename().string() + " -o " +
                                          lesson.name + ".html") +
                  "</main>\n");
}

std::string markdown_page(const std::string& text, const std::string& path) {
  try {
    const Rendered rendered = markdown_html(text);
    const std::string title =
        rendered.headings.empty() ? fs::path(path).stem().string() : rendered.headings.front().text;
    return whole_page(title, "<main>\n" + rendered.html + "</main>\n");
  } catch (const narrow::Error& error) {
    throw narrow::Error(path + ": " + error.what());
  }
}

}  // namespace lesson
