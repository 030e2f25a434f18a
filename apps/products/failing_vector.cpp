#include "products/failing_vector.hpp"

#include "narrow/dot/model_table.hpp"
#include "narrow/text/exact_sum.hpp"
#include "narrow/text/text.hpp"
#include "products/code_matrix.hpp"
#include "products/step_picture.hpp"

namespace app {
namespace {

using narrow::Code;
using narrow::Format;

constexpr std::size_t line_width = 100;

// TF32 is shown and passed as the word that matrices hold: the code in its upper bits.
bool is_word(const Format& f) { return f == narrow::detail::tf32.format; }
Format shown_format(const Format& f) { return is_word(f) ? narrow::detail::f32.format : f; }

std::string list(const std::vector<Code>& codes, const Format& f, const std::string& indent) {
  std::string text, line = indent;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::string word = operand_text(codes[i], f) + (i + 1 < codes.size() ? "," : "");
    if (line.size() + 1 + word.size() > line_width) {
      text += line + "\n";
      line = indent;
    }
    line += (line == indent ? "" : " ") + word;
  }
  return text + line;
}

std::string word_type(const Format& f) {
  const int width = shown_format(f).width();
  return "std::uint" + std::to_string(width <= 8 ? 8 : width <= 16 ? 16 : width <= 32 ? 32 : 64) + "_t";
}

// The format in C++: a name where the table has one.
std::string format_expression(const Format& f) {
  for (const narrow::NamedFormat& row : narrow::format_table)
    if (row.format == f) return "*narrow::find_format(\"" + std::string(row.name) + "\")";
  return "model.accumulator.format";
}

std::string float_text(float x) {
  return narrow::to_hex_float(std::bit_cast<std::uint32_t>(x), narrow::detail::f32.format) + "f";
}

}  // namespace

std::string operand_text(Code code, const Format& f) {
  return narrow::to_hex_code(is_word(f) ? code << (32 - f.width()) : code, shown_format(f));
}

std::string hex_lines(const FailingVector& v, std::size_t indent) {
  const std::string space(indent, ' '), deep(indent + 4, ' ');
  const auto value = [](Code code, const Format& f) { return code_and_value(code, f); };
  std::string text = space + "a =\n" + list(v.dot.a, v.a_format, deep) + "\n" + space + "b =\n" +
                     list(v.dot.b, v.b_format, deep) + "\n";
  if (v.has_c) text += space + "c = " + value(v.dot.c, v.c_format) + "\n";
  text += space + "expected " + value(v.dot.expected, v.d_format) + "\n";
  return text + space + "found    " + value(v.dot.found, v.d_format) + "\n";
}

std::string cpp_program(const FailingVector& v) {
  const std::string k = std::to_string(v.dot.a.size()), model(v.candidate.model->name.view());
  const auto array = [&](const char* name, const Format& f, const std::vector<Code>& codes) {
    return "  const " + word_type(f) + " " + name + "[] = {\n" + list(codes, f, "      ") + "};\n";
  };
  const auto view = [&](const char* name, const Format& f, const std::string& rows, const std::string& cols) {
    return "narrow::MatrixView<const " + word_type(f) + ">{" + name + ", " + rows + ", " + cols + "}";
  };
  std::string text = "#include <cstdio>\n#include <narrow/narrow.hpp>\n\nint main() {\n";
  text += array("a", v.a_format, v.dot.a) + array("b", v.b_format, v.dot.b);
  if (v.has_c) text += array("c", v.c_format, {v.dot.c});
  text += "  " + word_type(v.d_format) + " d[1] = {};\n";
  text += "  const narrow::DotModel& model = *narrow::find_dot_model(\"" + model + "\");\n";
  text += "  narrow::GemmOptions options;\n";
  if (v.d_format != v.candidate.model->accumulator.format)
    text += "  options.output = " + format_expression(v.d_format) + ";\n";
  if (v.has_c && v.c_format != v.candidate.model->accumulator.format)
    text += "  options.c_format = " + format_expression(v.c_format) + ";\n";
  if (v.alpha != 1) text += "  options.alpha = " + float_text(v.alpha) + ";\n";
  if (v.has_c && v.beta != 1) text += "  options.beta = " + float_text(v.beta) + ";\n";
  text += "  narrow::gemm(model, narrow::parse_plan(\"" + narrow::plan_text(v.candidate.plan) +
          "\"),\n               " + view("a", v.a_format, "1", k) + ",\n               " +
          view("b", v.b_format, k, "1") + ",\n               " +
          (v.has_c ? view("c", v.c_format, "1", "1") : "narrow::MatrixView<const std::uint32_t>{}") +
          ",\n               narrow::MatrixView<" + word_type(v.d_format) + ">{d, 1, 1}, options);\n";
  text += "  std::printf(\"model 0x%llX, kernel " + narrow::to_hex_code(v.dot.found, v.d_format) +
          "\\n\", static_cast<unsigned long long>(d[0]));\n";
  return text + "  return d[0] == " + narrow::to_hex_code(v.dot.found, v.d_format) + " ? 0 : 1;\n}\n";
}

}  // namespace app
