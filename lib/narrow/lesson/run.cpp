#include "narrow/lesson/run.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include <nlohmann/json.hpp>

#include "narrow/base/error.hpp"
#include "narrow/base/process.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/find_data.hpp"
#include "narrow/text/quote.hpp"

namespace lesson {
namespace {

using Json = nlohmann::json;

namespace fs = std::filesystem;

constexpr int compile_seconds = 300;
constexpr std::uintmax_t most_record_bytes = 256u << 20;

// A folder of our own, gone with its contents at the end: also with what a compiler that was ended leaves behind.
class ScratchFolder {
 public:
  ScratchFolder() {
    if (const char* folder = std::getenv("TMPDIR")) temporary_ = folder;
    std::string pattern = (fs::temp_directory_path() / "narrow-lesson-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw narrow::Error("no temporary folder could be made: " + pattern);
    path_ = pattern;
    setenv("TMPDIR", path_.c_str(), 1);
  }
  ~ScratchFolder() {
    if (temporary_) setenv("TMPDIR", temporary_->c_str(), 1);
    else unsetenv("TMPDIR");
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  std::optional<std::string> temporary_;  // TMPDIR before
};

// ---- Compiling ----

// The file lesson.flags of the package that this program was installed with, else of the build that it comes from.
std::string flags_file(std::string& prefix) {
  std::error_code fault;
  const fs::path program = fs::read_symlink("/proc/self/exe", fault);
  const std::string beside = program.parent_path().parent_path().string();
  const std::string installed = beside + "/" NARROW_LESSON_FLAGS_INSTALLED;
  if (fs::is_regular_file(installed, fault)) return prefix = beside, installed;
  if (fs::is_regular_file(NARROW_LESSON_FLAGS, fault)) return NARROW_LESSON_FLAGS;
  throw narrow::Error("nothing to compile a lesson against: neither " NARROW_LESSON_FLAGS " nor " + installed +
                      " is there; build narrow here, or give the built lesson with --program");
}

std::vector<std::string> compiler_words(const Lesson& lesson, const RunRequest& request, const std::string& program) {
  std::string prefix;
  std::istringstream in(narrow::read_text(flags_file(prefix)));
  std::vector<std::string> words;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    if (line == "FILE") {
      words.insert(words.end(), request.flags.begin(), request.flags.end());
      line = lesson.path;
    }
    if (const std::size_t at = line.find("PREFIX"); at != std::string::npos && !prefix.empty())
      line.replace(at, 6, prefix);
    words.push_back(line);
  }
  if (words.empty()) throw narrow::Error("lesson.flags is empty; build narrow again");
  if (!request.compiler.empty()) words[0] = request.compiler;
  words.emplace_back("-o");
  words.push_back(program);
  return words;
}

// "FILE:LINE:COLUMN: error: ..": the line of the first error in the lesson itself.
std::size_t first_error_line(const Lesson& lesson, const std::string& message) {
  const std::string start = lesson.path + ":";
  for (std::size_t at = message.find(start); at != std::string::npos; at = message.find(start, at + 1)) {
    const std::size_t end = std::min(message.find('\n', at), message.size());
    if (message.substr(at, end - at).find("error") == std::string::npos) continue;
    return static_cast<std::size_t>(std::strtoul(message.c_str() + at + start.size(), nullptr, 10));
  }
  return 0;
}

// ---- Records ----

LessonOutput::Kind kind_of(const std::string& name) {
  using Kind = LessonOutput::Kind;
  constexpr std::pair<const char*, Kind> kinds[] = {{"text", Kind::text},   {"say", Kind::say},
                                                    {"table", Kind::table}, {"picture", Kind::picture},
                                                    {"bits", Kind::bits},   {"expect", Kind::expect}};
  for (const auto& [text, kind] : kinds)
    if (name == text) return kind;
  throw narrow::Error("an unknown kind " + narrow::quote(name));
}

LessonOutput output_of(const Json& r) {
  LessonOutput o;
  o.kind = kind_of(r.at("kind"));
  o.line = r.at("line");
  const auto take = [&](const char* name, std::string& target) {
    if (r.contains(name)) target = r.at(name).get<std::string>();
  };
  take("text", o.text), take("title", o.title), take("subtitle", o.subtitle), take("note", o.subtitle);
  take("inline", o.drawn), take("svg", o.svg), take("png", o.png);
  take("sign", o.sign), take("exponent", o.exponent), take("mantissa", o.mantissa), take("code", o.code),
      take("value", o.value);
  if (o.kind == LessonOutput::Kind::table) {
    for (const Json& c : r.at("columns")) {
      o.columns.emplace_back(c.at("name"), c.at("unit"));
      o.is_text.push_back(c.at("text"));
    }
    for (const Json& row : r.at("rows")) {
      o.rows.push_back(row.get<std::vector<std::string>>());
      if (o.rows.back().size() != o.columns.size())
        throw narrow::Error("a row of " + std::to_string(o.rows.back().size()) + " in a table of " +
                            std::to_string(o.columns.size()) + " columns");
    }
  }
  return o;
}

void take_record(const Json& record, LessonRun& run) {
  if (record.at("kind") == "failure")
    run.fault = {record.at("line"),
                 "threw an exception after line " + std::to_string(record.at("line").get<std::size_t>()),
                 record.at("text")};
  else if (record.at("kind") == "expect" && !record.at("holds").get<bool>())
    run.fault = {record.at("line"), "teaches what does not hold", record.at("text")};
  else run.outputs.push_back(output_of(record));
}

// Of a program that failed the record may be missing or cut anywhere: what can be read of it says where it was.
void read_records(const std::string& path, bool failed, LessonRun& run) {
  std::error_code fault;
  if (fs::file_size(path, fault) > most_record_bytes || fault) {
    if (failed) return;
    throw narrow::Error("the program recorded nothing, or more than 256 MiB; is it a lesson that includes lesson.hpp?");
  }
  std::istringstream in(narrow::read_text(path));
  for (std::string line; std::getline(in, line);) {
    try {
      take_record(Json::parse(line), run);
    } catch (const std::exception& e) {
      if (failed) return;
      throw narrow::Error(std::string("what the program recorded cannot be read: ") + e.what());
    }
  }
}

LessonFault fault_of(const narrow::Finished& ran, const LessonRun& run) {
  LessonFault fault;
  if (!ran.stopped.empty()) fault.what = ran.stopped;
  else if (ran.status >= 1000) fault.what = "was ended by signal " + std::to_string(ran.status - 1000);
  else fault.what = "ended with status " + std::to_string(ran.status);
  if (!run.outputs.empty()) fault.line = run.outputs.back().line;
  fault.what += fault.line > 0 ? " (last output: line " + std::to_string(fault.line) + ")" : " before its first output";
  fault.message = ran.err.empty() ? ran.out : ran.err;
  return fault;
}

// A lesson that was compiled here lies in no installation: it is told where this program found the recordings.
void tell_data_folder() {
  if (std::getenv("NARROW_DATA") != nullptr) return;
  for (const std::string& folder : narrow::data_folders())
    if (std::error_code fault; fs::is_directory(folder, fault)) return void(setenv("NARROW_DATA", folder.c_str(), 1));
}

}  // namespace

LessonRun run_lesson(const Lesson& lesson, const RunRequest& request) {
  const ScratchFolder scratch;
  LessonRun run;
  std::string program = request.program;
  if (program.empty()) {
    program = scratch.file("lesson");
    const narrow::Finished compiled =
        narrow::try_process(compiler_words(lesson, request, program), "", compile_seconds, request.should_stop);
    if (compiled.status != 0 || !compiled.stopped.empty()) {
      run.fault = {first_error_line(lesson, compiled.err), "does not compile", compiled.err};
      if (!compiled.stopped.empty()) run.fault.message += "the compiler " + compiled.stopped + "\n";
      return run;
    }
  } else if (std::error_code fault; !fs::is_regular_file(program, fault) || access(program.c_str(), X_OK) != 0) {
    throw narrow::Error("--program: " + program + " is no program");
  } else if (program.find('/') == std::string::npos) {
    program = "./" + program;
  }
  const std::string record = scratch.file("record");
  setenv("NARROW_LESSON_RECORD", record.c_str(), 1);
  tell_data_folder();
  const narrow::Finished ran = narrow::try_process({program}, "", request.run_seconds, request.should_stop);
  unsetenv("NARROW_LESSON_RECORD");
  const bool failed = ran.status != 0 || !ran.stopped.empty();
  read_records(record, failed, run);
  if (failed && run.fault.what.empty()) run.fault = fault_of(ran, run);
  // What went to standard output past lesson.hpp has no line; it stands below the last output, else the last cell.
  if (!ran.out.empty()) {
    LessonOutput rest;
    rest.line = run.outputs.empty() ? lesson.cells.back().last_line : run.outputs.back().line;
    rest.text = ran.out;
    run.outputs.push_back(rest);
  }
  return run;
}

}  // namespace lesson
