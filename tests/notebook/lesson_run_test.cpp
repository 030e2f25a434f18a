// A lesson that does not end: ended, with what it had said until then.
#include "narrow/lesson/run.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

TEST_CASE("notebook: a lesson that does not end is a fault of the lesson") {
  const lesson::Lesson lesson = lesson::parse_lesson("// %% [markdown]\n// # A\n\n// %%\nprint();\nloop();\n", "a.cpp");
  const fs::path program = fs::temp_directory_path() / ("lesson_run_test_" + std::to_string(getpid()));
  std::ofstream(program) << "#!/bin/sh\n"
                            "echo '{\"line\":5,\"kind\":\"text\",\"text\":\"a\"}' > \"$NARROW_LESSON_RECORD\"\n"
                            "echo still busy >&2\nsleep 20\n";
  fs::permissions(program, fs::perms::owner_all);
  lesson::RunRequest request;
  request.program = program.string();
  request.run_seconds = 1;
  const lesson::LessonRun run = lesson::run_lesson(lesson, request);
  fs::remove(program);
  CHECK(run.fault.line == 5);
  CHECK(run.fault.what == "did not end within 1 s (last output: line 5)");
  CHECK(run.fault.message == "still busy\n");
}
