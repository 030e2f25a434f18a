#include "narrow/report/page.hpp"

#include <algorithm>

#include "narrow/report/escape.hpp"
#include "narrow/report/page_style.hpp"
#include "narrow/report/table_writers.hpp"

namespace narrow::report {
namespace {

constexpr std::size_t open_rows = 12;   // a longer table starts closed
constexpr std::size_t most_rows = 400;  // the page shows no more of it; the CSV has all
constexpr std::size_t long_text = 40;   // a longer text in a cell may break

std::string column_head(const Column& column) {
  const std::string unit =
      column.unit.empty() ? "" : " <span class=\"unit\">" + html_with_powers(column.unit) + "</span>";
  return std::string("<th scope=\"col\"") + (column.kind == ColumnKind::text ? ">" : " class=\"r\">") +
         html_with_powers(column.name) + unit + "</th>";
}

// The words of such a column are judgements (holds, loose, wrong, ...) and carry the colour of their first word.
bool is_verdict(const Column& column) { return column.kind == ColumnKind::text && column.name == "verdict"; }

std::string table_cell(const Column& column, const Cell& cell) {
  const std::string text = shown_text(column, cell);
  if (is_verdict(column))
    return "<td><span class=\"verdict " + escaped_html(text.substr(0, text.find(' '))) + "\">" + escaped_html(text) +
           "</span></td>";
  const char* kind = column.kind != ColumnKind::text ? " class=\"r\""
                     : text.size() > long_text       ? " class=\"long\""
                                                     : "";
  return std::string("<td") + kind + ">" + html_with_powers(text) + "</td>";
}

bool has_verdicts(const Table& table) { return std::any_of(table.columns.begin(), table.columns.end(), is_verdict); }

std::string table_html(const Table& table) {
  std::string out =
      std::string("<div class=\"wide\"><table") + (has_verdicts(table) ? " class=\"judged\"" : "") + "><thead><tr>";
  for (const Column& column : table.columns) out += column_head(column);
  out += "</tr></thead><tbody>\n";
  for (std::size_t r = 0; r < table.rows.size() && r < most_rows; ++r) {
    out += "<tr>";
    for (std::size_t i = 0; i < table.columns.size(); ++i) out += table_cell(table.columns[i], table.rows[r][i]);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string table_block(const PageTable& item) {
  const Table& table = item.table;
  const std::string rows =
      count_text(static_cast<std::int64_t>(table.rows.size())) + (table.rows.size() == 1 ? " row" : " rows");
  const std::string file =
      item.file.empty() ? "" : " &middot; <a href=\"" + escaped_html(item.file) + "\" download>CSV</a>";
  std::string body = table_html(table);
  if (table.rows.size() > most_rows)
    body += "<p class=\"note\">The first " + std::to_string(most_rows) + " rows; the CSV has all.</p>\n";
  if (!table.note.empty()) body += "<p class=\"note\">" + html_with_powers(table.note) + "</p>\n";
  const std::string title = html_with_powers(table.title) + " <small>" + rows + file + "</small>";
  if (table.rows.size() <= open_rows || has_verdicts(table))
    return "<div class=\"open-table\"><p class=\"table-title\">" + title + "</p>\n" + body + "</div>\n";
  return "<details><summary>" + title + "</summary>\n" + body + "</details>\n";
}

std::string picture_block(const PagePicture& picture) {
  std::string out = "<figure><figcaption><h3>" + html_with_powers(picture.title) + "</h3>";
  if (!picture.subtitle.empty()) out += "<p>" + html_with_powers(picture.subtitle) + "</p>";
  return out + "</figcaption>\n<div class=\"wide\">" + picture.svg + "</div></figure>\n";
}

std::string section_block(const PageSection& s, std::size_t number) {
  std::string out = "<section class=\"card\" id=\"" + escaped_html(s.name) + "\">\n<div class=\"label\"><span>" +
                    std::to_string(number) + " &middot; " + escaped_html(s.name) +
                    "</span><a href=\"#top\">all findings</a></div>\n<h2>" + html_with_powers(s.question) + "</h2>\n";
  if (!s.failure.empty())
    out += "<p class=\"finding failed\"><b>This experiment failed.</b> " + escaped_html(s.failure) + "</p>\n";
  else out += "<p class=\"finding\">" + html_with_powers(s.finding) + "</p>\n";
  if (!s.data.empty()) out += "<p class=\"note\">Data: " + html_with_powers(s.data) + ".</p>\n";
  if (!s.evidence.empty()) out += "<p class=\"note\">Evidence: " + html_with_powers(s.evidence) + ".</p>\n";
  for (const std::string& note : s.notes) out += "<p class=\"note\">" + html_with_powers(note) + "</p>\n";
  for (const PagePicture& picture : s.pictures) out += picture_block(picture);
  for (const PageTable& table : s.tables) out += table_block(table);
  if (!s.command.empty()) out += "<p class=\"again\">Again: <code>" + escaped_html(s.command) + "</code></p>\n";
  return out + "</section>\n";
}

std::string answer_list(const Page& page) {
  std::string out;
  for (const PageSection& s : page.sections)
    for (const Answer& a : s.answers)
      out += "<dt><a href=\"#" + escaped_html(s.name) + "\">" + html_with_powers(a.question) + "</a></dt><dd>" +
             html_with_powers(a.text) + "</dd>\n";
  return out.empty() ? out : "<dl class=\"answers card\">\n" + out + "</dl>\n";
}

std::string found_list(const Page& page) {
  std::string out = "<ol class=\"found card\">\n";
  for (std::size_t i = 0; i < page.sections.size(); ++i) {
    const PageSection& s = page.sections[i];
    const std::string said = s.failure.empty()
                                 ? html_with_powers(s.finding)
                                 : "<span class=\"failed-word\">failed:</span> " + escaped_html(s.failure);
    out += "<li><span class=\"n\">" + std::to_string(i + 1) + "</span><a href=\"#" + escaped_html(s.name) +
           "\"><span class=\"said\">" + said + "</span><span class=\"what\">" + escaped_html(s.name) +
           (s.data.empty() ? "" : " &middot; " + html_with_powers(s.data)) + "</span></a></li>\n";
  }
  return out + "</ol>\n";
}

}  // namespace

std::string to_html(const Page& page) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\" id=\"top\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      escaped_html(page.title) + "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n" + page_style() +
      "</style>\n</head>\n<body>\n<main>\n<header><h1>" + escaped_html(page.title) + "</h1>\n<p>" +
      html_with_powers(page.introduction) + "</p></header>\n";
  out += answer_list(page) + found_list(page);
  for (std::size_t i = 0; i < page.sections.size(); ++i) out += section_block(page.sections[i], i + 1);
  return out + "<footer><p>" + escaped_html(page.made_by) + "</p></footer>\n</main>\n</body>\n</html>\n";
}

std::string to_markdown(const PageSection& s, const std::vector<std::string>& picture_files) {
  std::string out = "# " + escaped_markdown(s.question) + "\n\n" + escaped_markdown(s.finding) + "\n";
  for (const Answer& a : s.answers)
    out += "\n**" + escaped_markdown(a.question) + "** " + escaped_markdown(a.text) + "\n";
  if (!s.data.empty()) out += "\nData: " + escaped_markdown(s.data) + ".\n";
  if (!s.evidence.empty()) out += "\nEvidence: " + escaped_markdown(s.evidence) + ".\n";
  for (const std::string& note : s.notes) out += "\n" + escaped_markdown(note) + "\n";
  for (std::size_t i = 0; i < picture_files.size(); ++i)
    out += "\n![" + (i < s.pictures.size() ? escaped_markdown(s.pictures[i].title) : s.name) + "](" + picture_files[i] +
           ")\n";
  for (const PageTable& item : s.tables) {
    out += "\n## " + escaped_markdown(item.table.title) + "\n\n" + to_markdown(item.table);
    if (!item.table.note.empty()) out += "\n" + escaped_markdown(item.table.note) + "\n";
  }
  return out + "\n```sh\n" + visible(s.command) + "\n```\n";
}

}  // namespace narrow::report
