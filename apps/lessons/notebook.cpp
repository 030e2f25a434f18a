// narrow notebook: runs a lesson and renders it: a Jupyter notebook, a page, or both.
#include <filesystem>
#include <memory>

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_value.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/lesson/html.hpp"
#include "narrow/lesson/ipynb.hpp"
#include "narrow/lesson/run.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/split.hpp"

namespace app {
namespace of_notebook {

using namespace lesson;

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> output, program, compiler, flags;
  bool json = false;
};

// The cell with numbered lines, the one with the fault marked.
std::string cell_text(const LessonCell& cell, std::size_t fault_line) {
  std::string out;
  std::size_t number = cell.first_line;
  for (std::size_t start = 0; start <= cell.source.size(); ++number) {
    const std::size_t end = std::min(cell.source.find('\n', start), cell.source.size());
    const std::string digits = std::to_string(number);
    out += (number == fault_line ? "> " : "  ") + std::string(5 - std::min<std::size_t>(5, digits.size()), ' ') +
           digits + "  " + cell.source.substr(start, end - start) + "\n";
    start = end + 1;
  }
  return out;
}

int report_fault(const Lesson& lesson, const LessonFault& fault) {
  const std::string place = lesson.path + (fault.line > 0 ? ":" + std::to_string(fault.line) : "");
  complain(place + ": the lesson " + fault.what);
  if (const LessonCell* cell = fault.line > 0 ? lesson.cell_at(fault.line) : nullptr)
    print_error("\n" + cell_text(*cell, fault.line) + "\n");
  if (!fault.message.empty()) print_error(fault.message + (fault.message.ends_with('\n') ? "" : "\n"));
  return 1;
}

// A signal that ends this program finds neither compiler nor lesson running afterwards, and no temporary folder.
LessonRun run_or_clear_away(const Lesson& lesson, RunRequest request) {
  const Interrupt interrupt;
  request.should_stop = [&] { return interrupt.came(); };
  LessonRun ran = run_lesson(lesson, request);
  interrupt.pass_on();
  return ran;
}

int finish(const std::vector<ReadyFile>& files, const Options& options, std::size_t pictures, std::size_t statements) {
  Json list = Json::array();
  for (const ReadyFile& file : files) {
    write_file(file.path, file.content);
    list.push_back(file.path);
  }
  if (options.json) print(json_text({{"files", list}, {"pictures", pictures}, {"statements", statements}}));
  else
    for (const ReadyFile& file : files) print(narrow::visible(file.path) + "\n");
  return 0;
}

int run(const Options& options) {
  if (options.files.size() != 1)
    throw narrow::Error("notebook: one lesson at a time; for example: narrow notebook lesson.cpp -o lesson.html");
  if (!options.output) throw narrow::Error("notebook: no output; -o takes NAME.ipynb, NAME.html, or a folder for both");
  const std::string& output = *options.output;
  const std::filesystem::path ending = std::filesystem::path(output).extension();
  if (options.files[0].ends_with(".md")) {
    if (ending != ".html") throw narrow::Error("notebook: a Markdown file becomes a page: -o NAME.html");
    return finish({{output, markdown_page(read_text_file(options.files[0]), options.files[0])}}, options, 0, 0);
  }
  const bool folder = ending != ".ipynb" && ending != ".html";
  if (folder && !ending.empty() && !std::filesystem::is_directory(output))
    throw narrow::Error("-o: " + output + " ends in neither .ipynb nor .html, and is no folder");
  const Lesson lesson = read_lesson(options.files[0]);
  if (folder) make_folder(output);
  if (is_terminal(2))
    print_error((options.program ? "running " : "compiling and running ") + narrow::visible(lesson.path) + "\n");
  const LessonRun ran = run_or_clear_away(
      lesson, {options.program.value_or(""), options.compiler.value_or(""),
               narrow::words_of<std::string>(options.flags.value_or(""))});
  if (!ran.fault.what.empty()) return report_fault(lesson, ran.fault);

  std::vector<ReadyFile> files;
  const std::string stem = output + "/" + lesson.name;
  if (folder || ending == ".ipynb") files.push_back({folder ? stem + ".ipynb" : output, lesson_ipynb(lesson, ran)});
  if (folder || ending == ".html")
    files.push_back({folder ? stem + ".html" : output, lesson_html(lesson, ran, place_of(lesson))});
  if (!ran.outputs.empty() && lesson.shown_at(0) == nullptr)
    throw narrow::Error(lesson.path + ": outputs without a place; a lesson has a code cell (// %%) that is shown");
  std::size_t pictures = 0, statements = 0;
  for (const LessonOutput& o : ran.outputs) {
    pictures += o.kind == LessonOutput::Kind::picture ? 1 : 0;
    statements += o.kind == LessonOutput::Kind::expect ? 1 : 0;
  }
  return finish(files, options, pictures, statements);
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("FILE", options->files, "a lesson: C++ in percent cells (// %%); or a Markdown file, for an index");
  arguments.option("-o,--output", options->output, "OUT", "NAME.ipynb, NAME.html, or a folder for both");
  arguments.option("--program", options->program, "PATH", "the lesson, already built (default: it is compiled)");
  arguments.option("--cxx", options->compiler, "PROGRAM", "the compiler (default: the one that narrow was built with)");
  arguments.option("--flags", options->flags, "WORDS", "more arguments for the compiler, by spaces");
  arguments.flag("--json", options->json, "print JSON: the files, and how many pictures and statements they hold");
  return [options] { return run(*options); };
}

}  // namespace of_notebook

const Command notebook_command{
    "notebook", "runs a lesson and renders it as a notebook and a page",
    "narrow notebook notebooks_cpp/01_what_the_bits_mean.cpp -o lesson.html", of_notebook::declare,
    "A lesson is a C++ file in percent cells. It is compiled against the installed library (or --program names "
    "what it became), run, and rendered with its outputs; a statement in it that does not hold is an error "
    "with its line."};

}  // namespace app
