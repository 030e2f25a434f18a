// The pages of the manual and the words that shells complete: every command, option, format and tensor is in them.
#include <sys/stat.h>

#include "narrow/format/format_table.hpp"
#include "tensor_files.hpp"

using namespace test;

namespace {

std::vector<std::string> commands() {
  const std::string help = test::narrow({"--help"}).out;
  std::vector<std::string> names;
  for (std::size_t at = help.find('\n', help.find("Subcommands:")) + 1; help[at] == ' '; at = help.find('\n', at) + 1)
    names.push_back(help.substr(at + 2, help.find(' ', at + 2) - at - 2));
  REQUIRE(names.size() > 20);
  return names;
}

// The words that may come last, in lines.
std::string offered(std::vector<std::string> words) {
  words.insert(words.begin(), {"complete", "--", "narrow"});
  const Ran ran = test::narrow(words);
  CHECK(ran.status == 0);
  CHECK(ran.err == "");
  return "\n" + ran.out;
}
bool offers(const std::vector<std::string>& words, const std::string& word) {
  return contains(offered(words), "\n+" + word + "\n");
}

}  // namespace

TEST_CASE("apps: every command has a page of the manual, with every option of its help") {
  const Folder folder;
  const Ran all = test::narrow({"manual", "-o", folder / "man"});
  CHECK(all.status == 0);
  const std::string first = read_file(folder / "man/narrow.1");
  for (const std::string& command : commands()) {
    CAPTURE(command);
    std::string name = command;
    if (const std::size_t dash = name.find('-'); dash != std::string::npos) name.insert(dash, "\\");
    CHECK(contains(first, "\\fBnarrow\\-" + name + "\\fR(1)"));
    const std::string page = read_file(folder / ("man/narrow-" + command + ".1"));
    for (const char* part : {".TH NARROW\\-", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH OPTIONS\n",
                             ".SH EXAMPLES\n", ".SH EXIT STATUS\n", ".SH SEE ALSO\n"})
      CHECK(contains(page, part));
    CHECK(test::narrow({"manual", command}).out == page);
    const std::string help = test::narrow({command, "--help"}).out;
    for (std::size_t at = help.find("\n  -", help.find("\nOptions:")); at != std::string::npos;
         at = help.find("\n  -", at + 1)) {
      std::string flag = help.substr(at + 3, help.find_first_of(" ,\n", at + 3) - at - 3), escaped;
      for (const char c : flag) escaped += c == '-' ? "\\-" : std::string(1, c);
      CAPTURE(flag);
      CHECK(contains(page, "\\fB" + escaped + "\\fR"));
    }
  }
  if (run_program({"/bin/sh", "-c", "command -v groff"}).status != 0) {
    MESSAGE("groff is not installed: what it makes of the pages was not seen");
    return;
  }
  const Ran formatted = run_program(
      {"/bin/sh", "-c", "for f in '" + (folder / "man") + "'/*.1; do groff -man -ww -Tutf8 -z \"$f\"; done"});
  CHECK(formatted.status == 0);
  CHECK(formatted.out + formatted.err == "");
}

TEST_CASE("apps: pages and words that are not there are refused") {
  check_refused({"manual", "cats"}, {"'cats'", "did you mean 'cast'?"});
  check_refused({"complete"}, {"no shell", "bash, zsh or fish"});
  check_refused({"complete", "tcsh"}, {"'tcsh'", "bash, zsh or fish"});
}

TEST_CASE("apps: what may come next is what the program has") {
  for (const std::string& command : commands()) {
    CAPTURE(command);
    CHECK(contains(offered({command.substr(0, 2)}), "\n+" + command + "\n"));
    CHECK(offers({command, "--js"}, "--json") == contains(test::narrow({command, "--help"}).out, "--json"));
    CHECK(contains(offered({command, "-"}), "\n+--help\n"));
  }
  for (const ::narrow::NamedFormat& row : ::narrow::format_table)
    CHECK(contains(offered({"stats", "--formats", "fp16," + std::string(row.name)}),
                   "\n+fp16," + std::string(row.name) + "\n"));
  CHECK(contains(offered({"cast", "--to=nv"}), "\n+--to=nvfp4\n"));
  CHECK(contains(offered({"dot", "--model", "hopper.wgmma.f32.e4m3"}), "\n+hopper.wgmma.f32.e4m3.e4m3\n"));
  CHECK(offered({"cast", "--rounding", "to"}) == "\n+toward_zero\n+to_odd\n");
  CHECK(offered({"train", "--schedule", ""}) == "\n+constant\n+linear\n+cosine\n");
  CHECK(offered({"lint", "--format", ""}) == "\n+text\n+json\n+github\n");
  CHECK(offered({"gpu", ""}) == "\n:files\n+check\n+record\n+bench\n+plan\n+replay\n");
  CHECK(contains(offered({"train", "--recipe", "fp32,fp16-amp-no"}), "\n+fp32,fp16-amp-noscale\n"));
  CHECK(contains(offered({"run", "large"}), "\n+large_run\n"));
  CHECK(contains(offered({"run", "gradient_underflow", "gr"}), "\n+gradients=\n"));
  CHECK(contains(offered({"run", "gradient_underflow", "run=fp16-amp-no"}), "\n+run=fp16-amp-noscale\n"));
  CHECK(contains(offered({"inspect", "x"}), "\n:files\n"));
  CHECK(offered({"show", ""}) == "\n");
  CHECK(offered({"dequantize", "--to", "b"}) == "\n+bf16\n");
  CHECK(offered({"formats", "nvfp"}) == "\n");
  CHECK(contains(offered({"quantize", "--to", "nvfp4"}), "\n+nvfp4\n"));
  CHECK(offered({"quantize", "--to", "bf16"}) == "\n");
  CHECK(offered({"models", "--type", ""}) == "\n");
  CHECK(offered({"gpu", "replay", ""}) == "\n:files\n");
  CHECK(offered({"no-such-command", ""}) == "\n");
  CHECK(offered({"stats", "--json", "--js"}) == "\n");  // once is enough
  CHECK(contains(offered({"stats", "--", "--js"}), "\n:files\n"));
}

TEST_CASE("apps: tensors of files are offered, and nothing in their names does anything") {
  const Folder folder;
  const std::string data = raw(std::vector<float>(4, 1.0f));
  const std::string hostile = folder / "hostile.safetensors";
  folder.write("hostile.safetensors", safetensors_of({{"w$(touch broken)", "F32", "[4]", data},
                                                      {"a.b+c", "F32", "[4]", data},
                                                      {"v$((a[$(touch broken)]))", "F32", "[4]", data},
                                                      {R"(x\u001b[2J)", "F32", "[4]", data}},
                                                     "{}"));
  CHECK(offered({"stats", hostile, "--tensors", ""}) ==
        "\n+a.b\\+c\n+v\\$\\(\\(a\\[\\$\\(touch broken\\)]\\)\\)\n+w\\$\\(touch broken\\)\n");
  CHECK(test::narrow({"stats", hostile, "--tensors", "a.b\\+c", "--formats", "fp16"}).status == 0);
  CHECK(contains(offered({"compare", hostile + ":a"}), "\n+" + hostile + ":a.b+c\n"));
  CHECK(offered({"stats", folder / "none.safetensors", "--tensors", ""}) == "\n");
  folder.write("broken.safetensors", "no tensor file");
  check_refused({"complete", "--", "narrow", "stats", folder / "broken.safetensors", "--tensors", ""},
                {"broken.safetensors"});

  REQUIRE(mkfifo((folder / "pipe.npy").c_str(), 0600) == 0);
  CHECK(offered({"stats", folder / "pipe.npy", "--tensors", ""}) == "\n");
  CHECK(contains(offered({"inspect", folder / "pipe.npy:"}), ":files"));

  const Ran shells = run_program({"/bin/bash", NARROW_ROOT "/tests/apps/completion.sh", NARROW_PROGRAM,
                                  NARROW_ROOT "/data/torch/step300.safetensors", hostile});
  CHECK(shells.status == 0);
  CAPTURE(shells.out);
  CHECK((shells.out == "" || contains(shells.out, "not installed")));
  const Ran terminal = run_program(
      {"/usr/bin/env", "python3", NARROW_ROOT "/tests/apps/completion_terminal.py", NARROW_PROGRAM, hostile});
  CAPTURE(terminal.err);
  CHECK(terminal.status == 0);
}
