#include "program.hpp"

using test::check_refused;
using test::contains;

TEST_CASE("apps: the version is that of the build") {
  const test::Ran ran = test::narrow({"--version"});
  CHECK(ran.status == 0);
  CHECK(ran.out == "narrow " NARROW_VERSION "\n");
}

TEST_CASE("apps: NARROW_SIMD that names no instruction set of this machine is refused with those that do") {
  test::RunOptions options;
  options.environment = {{"NARROW_SIMD", "mmx\x1B[2J"}};
  const test::Ran ran = test::narrow({"formats"}, options);
  CHECK(ran.status == 2);
  CHECK(ran.out == "");
  CHECK(contains(ran.err, "NARROW_SIMD='mmx\\x1B[2J': no instruction set of this machine; it has "));
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
}

TEST_CASE("apps: every help has an example") {
  const test::Ran all = test::narrow({"--help"});
  CHECK(all.status == 0);
  CHECK(all.err == "");
  CHECK(contains(all.out, "Exit status"));
  for (const std::string command : {"formats", "show",  "inspect", "cast",     "stats",  "histogram",    "compare",
                                    "models",  "dot",   "gemm",    "validate", "gpu",    "list-scaling", "scale-trace",
                                    "train",   "bench", "list",    "run",      "report", "explore",      "op"}) {
    CAPTURE(command);
    CHECK(contains(all.out, "  narrow " + command));
    const test::Ran ran = test::narrow({command, "--help"});
    CHECK(ran.status == 0);
    CHECK(contains(ran.out, "Usage: narrow " + command + " ["));
    CHECK(contains(ran.out, "Example:\n  narrow " + command));
    CHECK(contains(ran.out, "--json"));
  }
}

TEST_CASE("apps: without a subcommand the help comes and the status is 2") {
  const test::Ran ran = test::narrow({});
  CHECK(ran.status == 2);
  CHECK(ran.out == "");
  CHECK(contains(ran.err, "formats"));
  CHECK(contains(ran.err, "show"));
}

TEST_CASE("apps: a wrong word is named with what would be right") {
  check_refused({"shwo", "0.1"}, {"'shwo'", "did you mean 'show'?", "formats"});
  check_refused({"xyzzy"}, {"'xyzzy'", "commands: formats, show"});
  check_refused({"--jsn"}, {"'--jsn'", "narrow --help"});
  check_refused({"show", "0.1", "--fromats", "fp16"}, {"show", "'--fromats'", "did you mean '--formats'?"});
  check_refused({"show", "0.1", "--fromats=fp16"}, {"'--fromats'"});
  check_refused({"show", "0.1", "-x"}, {"'-x'", "narrow show --help"});
  check_refused({"show", "0.1", "--formats"}, {"show", "--formats", "comma list"});
  check_refused({"show", "0.1", "--formats", "fp16", "--formats", "bf16"}, {"--formats"});
  check_refused({"show", "0.1", "--json=perhaps"}, {"--json"});
  check_refused({"", "0.1"}, {"unknown command"});
}

TEST_CASE("apps: a subcommand's name can stand where a value stands") {
  check_refused({"show", "0.1", "formats"}, {"'formats'"});
}

TEST_CASE("apps: a message is one readable line whatever was typed") {
  check_refused({"show", "a\nb\x1b[31m"}, {});
  check_refused({"show", "\xff\xfe"}, {});
  check_refused({std::string(100000, 'x')}, {"commands: formats, show"});
  check_refused({"show", std::string(100000, 'x')}, {});
  check_refused({"show", "1", "--formats", std::string(100000, ',')}, {"--formats"});
  check_refused({"show", "1", "--" + std::string(100000, 'y')}, {"unknown option"});
  const test::Ran ran = test::narrow({"show", "a\nb\x1b[31m\xff", "--json"});
  CHECK(ran.status == 2);
  for (const char c : ran.err) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
}

TEST_CASE("apps: a reader that leaves is not an error") {
  test::RunOptions options;
  options.output = test::RunOptions::Output::unread;
  for (const std::string command : {"formats", "--help"}) {
    const test::Ran ran = test::narrow({command}, options);
    CHECK(ran.status == 0);
    CHECK(ran.err == "");
  }
}

TEST_CASE("apps: an output that cannot be written is an error") {
  test::RunOptions closed;
  closed.output = test::RunOptions::Output::closed;
  test::Ran ran = test::narrow({"formats"}, closed);
  CHECK(ran.status == 2);
  CHECK(contains(ran.err, "narrow: standard output: "));
  if (access("/dev/full", W_OK) != 0) return;
  test::RunOptions full;
  full.output_file = "/dev/full";
  ran = test::narrow({"show", "1", "--json"}, full);
  CHECK(ran.status == 2);
  CHECK(contains(ran.err, "narrow: standard output: No space left"));
}

TEST_CASE("apps: colour comes only on a terminal and NO_COLOR is obeyed") {
  test::RunOptions terminal;
  terminal.output = test::RunOptions::Output::terminal;
  terminal.environment = {{"TERM", "xterm"}, {"NO_COLOR", ""}};
  test::RunOptions no_colour = terminal;
  no_colour.environment = {{"TERM", "xterm"}, {"NO_COLOR", "1"}};
  test::RunOptions dumb = terminal;
  dumb.environment = {{"TERM", "dumb"}, {"NO_COLOR", ""}};
  const std::vector<std::string> words{"show", "-0.1", "--formats", "fp16"};

  const std::string coloured = test::narrow(words, terminal).out;
  CHECK(contains(coloured, "\033[31m1\033[0m"));           // sign
  CHECK(contains(coloured, "\033[32m01011\033[0m"));       // exponent
  CHECK(contains(coloured, "\033[94m1001100110\033[0m"));  // mantissa
  CHECK(!contains(test::narrow(words, no_colour).out, "\033"));
  CHECK(!contains(test::narrow(words, dumb).out, "\033"));
  CHECK(!contains(test::narrow(words).out, "\033"));
  CHECK(contains(test::narrow({"formats"}, terminal).out, "\033[1mfp16\033[0m"));
}
