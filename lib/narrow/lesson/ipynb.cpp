#include "narrow/lesson/ipynb.hpp"

#include <nlohmann/json.hpp>

#include "narrow/report/escape.hpp"
#include "narrow/text/quote.hpp"

namespace lesson {
namespace {

using OrderedJson = nlohmann::ordered_json;  // keys in the order in which they are written

using Kind = LessonOutput::Kind;

// nbformat keeps long texts as a list of lines, which makes notebooks readable in a diff.
OrderedJson text_lines(const std::string& text) {
  OrderedJson lines = OrderedJson::array();
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    const std::size_t next = end == std::string::npos ? text.size() : end + 1;
    lines.push_back(text.substr(start, next - start));
    start = next;
  }
  return lines;
}

OrderedJson display(OrderedJson data) {
  return {{"output_type", "display_data"}, {"data", std::move(data)}, {"metadata", OrderedJson::object()}};
}

std::string notebook_table(const LessonOutput& o) {
  std::string out = "<table><caption>" + narrow::report::html_with_powers(o.title) + "</caption><thead><tr>";
  for (const auto& [name, unit] : o.columns)
    out += "<th>" + narrow::report::html_with_powers(name + (unit.empty() ? "" : " [" + unit + "]")) + "</th>";
  out += "</tr></thead>\n<tbody>";
  for (const auto& row : o.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size() && i < o.is_text.size(); ++i)
      out += std::string("<td style=\"text-align:") + (o.is_text[i] ? "left" : "right") + "\">" +
             narrow::report::html_with_powers(row[i]) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table>" + (o.subtitle.empty() ? "" : "\n<p>" + narrow::report::html_with_powers(o.subtitle) + "</p>");
}

OrderedJson picture(const LessonOutput& o) {
  const std::string words = o.title + "\n" + o.subtitle;
  OrderedJson data = {{"text/plain", text_lines(words)}};
  // Both: whoever does not trust an SVG shows the PNG.
  data["image/svg+xml"] = text_lines(o.svg);
  if (!o.png.empty()) data["image/png"] = o.png;
  return display(data);
}

OrderedJson output(const LessonOutput& o) {
  switch (o.kind) {
    case Kind::say: return display({{"text/markdown", text_lines(o.text)}, {"text/plain", text_lines(o.text)}});
    case Kind::table:
      return display({{"text/html", text_lines(notebook_table(o))}, {"text/plain", text_lines(o.title + "\n" + o.text)}});
    case Kind::picture: return picture(o);
    case Kind::bits:
      return {{"output_type", "stream"},
              {"name", "stdout"},
              {"text", text_lines(o.sign + (o.sign.empty() ? "" : " ") + o.exponent + " " + o.mantissa + "   " +
                                  o.code + " = " + o.value + "\n")}};
    case Kind::expect:
      return {{"output_type", "stream"}, {"name", "stdout"}, {"text", text_lines("ok: " + o.text + "\n")}};
    case Kind::text: break;
  }
  return {{"output_type", "stream"},
          {"name", "stdout"},
          {"text", text_lines(o.text + (o.text.ends_with('\n') ? "" : "\n"))}};
}

// Letters, digits, - and _, at most 64 of them.
std::string cell_id(const std::string& name, std::size_t number) {
  std::string id;
  for (const char c : name.substr(0, 40))
    id += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ? c : '-';
  return id + "-" + std::to_string(number);
}

// Streams that follow each other are one, as a kernel gives them.
void append(OrderedJson& outputs, OrderedJson next) {
  if (!outputs.empty() && next["output_type"] == "stream" && outputs.back()["output_type"] == "stream")
    for (const OrderedJson& line : next["text"]) outputs.back()["text"].push_back(line);
  else outputs.push_back(std::move(next));
}

}  // namespace

std::string lesson_ipynb(const Lesson& lesson, const LessonRun& run) {
  OrderedJson cells = OrderedJson::array();
  int executed = 0;
  for (const LessonCell& cell : lesson.cells) {
    if (cell.has_tag("program")) continue;
    OrderedJson c = OrderedJson::object();
    c["cell_type"] = cell.markdown ? "markdown" : "code";
    c["id"] = cell_id(lesson.name, cells.size() + 1);
    c["metadata"] = OrderedJson::object();
    if (!cell.tags.empty()) c["metadata"]["tags"] = cell.tags;
    if (cell.has_tag("solution") || cell.has_tag("folded")) c["metadata"]["jupyter"] = {{"source_hidden", true}};
    c["source"] = text_lines(cell.source);
    if (!cell.markdown) {
      c["execution_count"] = ++executed;
      c["outputs"] = OrderedJson::array();
      for (const LessonOutput& o : run.outputs)
        if (lesson.shown_at(o.line) == &cell) append(c["outputs"], output(o));
    }
    cells.push_back(std::move(c));
  }
  OrderedJson notebook = OrderedJson::object();
  notebook["cells"] = std::move(cells);
  notebook["metadata"] = {{"kernelspec", {{"display_name", "C++20"}, {"language", "C++20"}, {"name", "xcpp20"}}},
                          {"language_info",
                           {{"file_extension", ".cpp"},
                            {"mimetype", "text/x-c++src"},
                            {"name", "C++"},
                            {"codemirror_mode", "text/x-c++src"},
                            {"version", "20"}}},
                          {"title", lesson.title}};
  notebook["nbformat"] = 4;
  notebook["nbformat_minor"] = 5;
  return narrow::visible(notebook.dump(2, ' ', false, OrderedJson::error_handler_t::replace), "\n") + "\n";
}

}  // namespace lesson
