#include "narrow/lesson/file.hpp"

#include <algorithm>
#include <filesystem>

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/text/characters.hpp"
#include "narrow/text/quote.hpp"

namespace lesson {
namespace {

using narrow::detail::trim;

constexpr std::uintmax_t most_bytes = 1u << 20;
constexpr std::string_view marker = "// %%";

[[noreturn]] void refuse(const std::string& path, std::size_t line, const std::string& why) {
  throw narrow::Error(path + ":" + std::to_string(line) + ": " + why);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// tags=["solution", "other"]
std::vector<std::string> parse_tags(std::string_view list, const std::string& path, std::size_t line) {
  std::vector<std::string> tags;
  const std::string wrong = "tags are written tags=[\"solution\"] or tags=[\"program\"]";
  if (list.empty() || list.front() != '[' || list.back() != ']') refuse(path, line, wrong);
  list = list.substr(1, list.size() - 2);
  while (!trim(list).empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view word = trim(list.substr(0, end));
    if (word.size() < 3 || word.front() != '"' || word.back() != '"') refuse(path, line, wrong);
    tags.emplace_back(word.substr(1, word.size() - 2));
    if (tags.back() != "solution" && tags.back() != "program" && tags.back() != "folded")
      refuse(path, line, "unknown tag " + narrow::quote(tags.back()) + "; known: solution, program, folded");
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return tags;
}

LessonCell parse_marker(std::string_view rest, const std::string& path, std::size_t line) {
  LessonCell cell;
  rest = trim(rest);
  if (const std::size_t at = rest.find("tags="); at != std::string_view::npos) {
    cell.tags = parse_tags(trim(rest.substr(at + 5)), path, line);
    rest = trim(rest.substr(0, at));
  }
  if (rest == "[markdown]" || rest == "[md]") cell.markdown = true;
  else if (!rest.empty())
    refuse(path, line, "a cell opens with \"// %%\" or \"// %% [markdown]\", not with " + narrow::quote(rest));
  return cell;
}

std::string uncommented(const std::string& text, const std::string& path, std::size_t line) {
  if (text.starts_with("// ")) return text.substr(3);
  if (text == "//" || trim(text).empty()) return "";
  refuse(path, line, "a line of a Markdown cell starts with \"// \"");
}

void close(LessonCell& cell, const std::vector<std::string>& lines, std::size_t end, const std::string& path) {
  cell.last_line = end;  // the line before the next marker
  std::vector<std::string> own;
  for (std::size_t n = cell.first_line; n <= end; ++n)
    own.push_back(cell.markdown ? uncommented(lines[n - 1], path, n) : lines[n - 1]);
  while (!own.empty() && trim(own.back()).empty()) own.pop_back();
  while (!own.empty() && trim(own.front()).empty()) {
    own.erase(own.begin());
    ++cell.first_line;
  }
  for (std::size_t i = 0; i < own.size(); ++i) cell.source += (i == 0 ? "" : "\n") + own[i];
}

std::string title_of(const Lesson& lesson) {
  for (const LessonCell& cell : lesson.cells) {
    if (!cell.markdown) continue;
    for (const std::string& line : lines_of(cell.source))
      if (line.starts_with("# ")) return std::string(trim(line.substr(2)));
  }
  throw narrow::Error(lesson.path + ": no title; the first Markdown cell starts with a line \"// # The title\"");
}

}  // namespace

bool LessonCell::has_tag(std::string_view tag) const { return std::find(tags.begin(), tags.end(), tag) != tags.end(); }

const LessonCell* Lesson::cell_at(std::size_t line) const {
  const LessonCell* found = nullptr;
  for (const LessonCell& cell : cells)
    if (cell.first_line <= line) found = &cell;
  return found;
}

const LessonCell* Lesson::shown_at(std::size_t line) const {
  const LessonCell* found = nullptr;
  for (const LessonCell& cell : cells)
    if (!cell.markdown && !cell.has_tag("program") && (found == nullptr || cell.first_line <= line)) found = &cell;
  return found;
}

Lesson parse_lesson(std::string_view text, const std::string& path) {
  Lesson lesson;
  lesson.path = path;
  lesson.name = std::filesystem::path(path).stem().string();
  const std::vector<std::string> lines = lines_of(text);
  bool open = false;
  for (std::size_t n = 1; n <= lines.size(); ++n) {
    if (!lines[n - 1].starts_with(marker)) continue;
    if (open) close(lesson.cells.back(), lines, n - 1, path);
    lesson.cells.push_back(parse_marker(std::string_view(lines[n - 1]).substr(marker.size()), path, n));
    lesson.cells.back().first_line = n + 1;
    open = true;
  }
  if (!open) throw narrow::Error(path + ": no cells; a lesson has lines \"// %%\" (code) and \"// %% [markdown]\"");
  close(lesson.cells.back(), lines, lines.size(), path);
  lesson.title = title_of(lesson);
  return lesson;
}

std::string read_text_file(const std::string& path) {
  std::error_code fault;
  const std::uintmax_t size = std::filesystem::file_size(path, fault);
  if (fault || !std::filesystem::is_regular_file(path, fault)) throw narrow::Error(path + ": no such file");
  if (size > most_bytes) throw narrow::Error(path + ": larger than 1 MiB, which no lesson is");
  return narrow::read_text(path);
}

Lesson read_lesson(const std::string& path) {
  if (!path.ends_with(".cpp")) throw narrow::Error(path + ": a lesson is a C++ file in percent format, NAME.cpp");
  return parse_lesson(read_text_file(path), path);
}

}  // namespace lesson
