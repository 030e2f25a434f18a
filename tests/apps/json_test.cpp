// Wherever --help names --json, every way to ask prints JSON and nothing else; each prints the same in any locale.
#include <set>

#include "support/make_locale.hpp"
#include "tensor_files.hpp"

using test::contains;
using test::Json;
using test::Ran;

namespace {

// Requests by command: every mode that prints something else without --json.
std::vector<std::vector<std::string>> requests(const test::Folder& folder) {
  const std::string x = folder.write("x.safetensors", test::floats_file("x", {1e-3f, 0, -2, 1e-8f, 7e4f})),
                    odd = folder.write("odd.safetensors", test::floats_file("odd", {std::nanf(""), 1e38f * 10, 0})),
                    events = folder.write("log.csv", "step,scale,found_inf\n0,1024,1\n1,512,0\n");
  const std::string half = std::string("\x00\x3C\x00\x3C", 4);
  const std::string a = folder.write("a.safetensors", test::safetensors_of({{"a", "F16", "[1,2]", half}})),
                    b = folder.write("b.safetensors", test::safetensors_of({{"b", "F16", "[2,1]", half}})),
                    d = folder.write("d.safetensors",
                                     test::safetensors_of({{"d", "F32", "[1,1]", test::raw<float>({2})}}));
  const std::string model = "hopper.mma.f32.f16.f16.k16";
  return {{"formats"},
          {"formats", "fp16"},
          {"show", "0.1", "nan", "--formats", "fp16,e4m3"},
          {"show", "0x7BFF", "--from", "fp16", "--cast", "torch", "--formats", "e4m3"},
          {"inspect", x},
          {"inspect", x, odd},
          {"cast", x, folder / "half.safetensors", "--to", "fp16"},
          {"cast", x, folder / "blocks.safetensors", "--to", "mxfp8_e4m3"},
          {"stats", x, odd, "--formats", "fp16,mxfp8_e4m3"},
          {"stats", x, "--formats", "fp16", "--total", "--scale", "auto"},
          {"histogram", x, odd},
          {"histogram", x, "--text", "--formats", "fp16"},
          {"compare", x, x},
          {"models"},
          {"models", model},
          {"dot", "--model", model, "--a", "1,2", "--b", "1,nan"},
          {"gemm", "--model", model, "--a", a, "--b", b, "--reference"},
          {"validate", "--a", a, "--b", b, "--d", d, "--model", model, "--plan", "chain"},
          {"op"},
          {"op", "softmax", "--x", odd},
          {"validate", "--op", "gelu", "--x", x, "--d", x},
          {"gpu", "check", "--list"},
          {"list-scaling"},
          {"scale-trace", "--events", events},
          {"scale-trace", "--events", events, "--plot", "-o", folder / "trace.csv"},
          {"train", "--recipe", "fp32,fp16-pure", "--steps", "1"},
          {"train", "--list-recipes"},
          {"train", "--print-recipe", "fp8-current"},
          {"bench", "--quick", "--kernel", "round"},
          {"list"},
          {"list", "format_choice"},
          {"formats", "--devices"},
          {"all-reduce", "--elements", "10", "--algorithm", "all"},
          {"memory", "--layers", "2", "--width", "64", "--devices", "2"},
          {"manual", "-o", folder / "man"},
          {"complete", "fish"},
          {"quantize", a, folder / "q.safetensors", "--layout", "deepseek", "--to", "fp8_128x128", "--tensors", "."},
          {"dequantize", a, folder / "d.safetensors"},
          {"lint", a},
          {"lint", "--rules"},
          {"run", "format_choice", "-o", folder / "run", "--show"},
          {"report", "--only", "format_choice", "--fast", "-o", folder / "report"}};
}

}  // namespace

TEST_CASE("apps: every command prints JSON in every mode when its help names --json") {
  const test::Folder folder;
  // notebook needs a lesson that was built, explore a page: notebook_command_test and explore_test ask these.
  std::set<std::string> asked = {"notebook", "explore"};
  for (std::vector<std::string> request : requests(folder)) {
    asked.insert(request.front());
    std::string words;
    for (const std::string& word : request) words += word + " ";
    CAPTURE(words);
    request.push_back("--json");
    const Ran ran = test::run(request);
    CHECK((ran.status == 0 || ran.status == 1));
    const Json json = Json::parse(ran.out, nullptr, false);  // NaN and Infinity are no JSON
    CHECK_FALSE(json.is_discarded());
    CHECK((json.is_array() || json.is_object()));
  }
  std::istringstream help(test::run({"--help"}).out);
  bool in_list = false;
  std::size_t commands = 0;
  for (std::string line; std::getline(help, line);) {
    if (line == "Subcommands:") in_list = true;
    else if (line.empty()) in_list = false;
    else if (in_list && line[2] != ' ') {
      const std::string command = line.substr(2, line.find(' ', 2) - 2);
      ++commands;
      if (contains(test::run({command, "--help"}).out, "--json")) CHECK_MESSAGE(asked.count(command) == 1, command);
    }
  }
  CHECK(commands >= 20);
}

TEST_CASE("apps: every command reads and prints the same numbers under every locale") {
  const test::Folder folder;
  const std::set<std::string> timed = {"bench", "train", "report"};  // print how long they took
  for (const std::string name : {"de_DE", "tr_TR"}) {
    if (!test::make_locale(folder / "", name)) {
      MESSAGE("skipped: no locale " << name << " can be made (Debian: package locales)");
      continue;
    }
    for (const std::vector<std::string>& request : requests(folder)) {
      if (timed.count(request.front()) != 0) continue;
      CAPTURE(request.front());
      test::RunOptions there;
      there.environment = {{"LOCPATH", folder / ""}, {"LC_ALL", name + ".UTF-8"}};
      const Ran expected = test::narrow(request), ran = test::narrow(request, there);
      CHECK(ran.status == expected.status);
      CHECK(ran.out == expected.out);
      CHECK(ran.err == expected.err);
    }
  }
}
