// Every command on files whose names, metadata and contents want to steer the terminal of whoever looks at them.
#include <map>
#include <set>

#include "explorer_page.hpp"
#include "tensor/archive.hpp"
#include "tensor/watched_folder.hpp"
#include "tensor_files.hpp"

using namespace test;

namespace {

// Clears the screen, rings, goes to the front of the line, begins a line of its own, C1 by code point, turned words.
const std::string as_json =
    R"(\u001b[2J\u0007\r\nFORGED\t\u007f\u009b31m\u202egpj\u202c\u2066\u200e\u200f\u061c\ud7ff\ufffe)";
const std::string as_bytes =
    "\x1b[2J\a\r\nFORGED\t\x7f\xC2\x9b"
    "31m\xE2\x80\xAEgpj\xE2\x80\xAC\xE2\x81\xA6\xE2\x80\x8E\xE2\x80\x8F\xD8\x9C\xED\x9F\xBF\xEF\xBF\xBE";
const std::string broken = "\x9b\xC0\xAF\xED\xA0\x80\xFF";  // raw C1, overlong, a surrogate: no UTF-8

// What the program itself may send to a terminal: the colours of terminal.cpp.
constexpr std::string_view own[] = {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[94m", "\x1b[33m"};

bool is_hostile(unsigned p) {
  return (p < 0x20 && p != '\n') || (p >= 0x7F && p < 0xA0) || p == 0x61C || p == 0x200E || p == 0x200F ||
         (p >= 0x202A && p <= 0x202E) || (p >= 0x2066 && p <= 0x2069) || p == 0xFFFE;
}

// The first thing that steers, with what stands before it; "" when there is none.
std::string first_hostile(std::string text, bool terminal) {
  if (terminal) {
    for (const std::string_view sequence : own)
      for (std::size_t at = 0; (at = text.find(sequence, at)) != std::string::npos;) text.erase(at, sequence.size());
    for (std::size_t at = 0; (at = text.find("\r\n", at)) != std::string::npos;) text.erase(at, 1);  // the terminal's
  }
  if (text.rfind("FORGED", 0) == 0 || contains(text, "\nFORGED")) return "a line that the program did not begin";
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u; };
    const std::size_t size = byte(0) < 0x80 ? 1 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
    unsigned point = size == 1 ? byte(0) : byte(0) & (0xFFu >> (size + 1));
    bool bad = byte(0) >= 0x80 && (byte(0) < 0xC2 || byte(0) > 0xF4);
    for (std::size_t k = 1; k < size; ++k) bad |= byte(k) >> 6 != 2, point = point << 6 | (byte(k) & 63);
    if (bad || is_hostile(point) || (point >= 0xD800 && point < 0xE000) || (size == 3 && point < 0x800))
      return std::to_string(point) + " after: " + text.substr(i > 60 ? i - 60 : 0, std::min<std::size_t>(i, 60));
    i += size;
  }
  return "";
}

using Words = std::vector<std::string>;

// Requests by command, with the hostile files in a folder.
std::map<std::string, std::vector<Words>> requests(const Folder& folder) {
  const std::string data = raw(std::vector<float>(64, 0.5f)), bad = as_bytes + broken;
  const auto tensors = [&](const std::string& first) {
    return safetensors_of({{first + as_json, "F32", "[8,8]", data},
                           {"b.grad" + as_json, "F32", "[8,8]", data},
                           {"ids" + as_json, "I32", "[64]", data}},
                          "{\"k" + as_json + "\":\"v" + as_json + "\"}");
  };
  const std::string f = folder.write("f" + bad + ".safetensors", tensors("a.grad"));
  const std::string g = folder.write("g.safetensors", tensors("other"));
  const std::string type = folder.write("t.safetensors", safetensors_of({{"a", "F" + as_json, "[1]", "1234"}}));
  const std::string npy = folder.write("n" + bad + ".npy", npy_of("<f4", "(8, 8)", data));
  const std::string descr = folder.write("d.npy", npy_of("<f4" + bad, "(8, 8)", data));
  const std::string npz =
      folder.write("z.npz", archive({stored("m" + as_bytes + ".npy", npy_of("<f4", "(8, 8)", data)),
                                     stored("x" + as_bytes + ".npy", "no array"),
                                     stored("y" + broken + ".npy", npy_of("<f4", "(1,)", "1234"))}));
  const std::string recipe = folder.write("r.json", "{\"name\": \"" + as_json + "\", \"" + as_json + "\": 1}");
  const std::string named =
      folder.write("s.json", R"({"base": "fp32", "name": ")" + as_json + "\", \"about\": \"" + as_json + "\"}");
  const std::string config =
      folder.write("ds_config.json", "{\"fp16\": {\"enabled\": \"" + as_json + "\"}, \"" + as_json + "\": 1}");
  const std::string log =
      folder.write("l.json", "{\"run" + as_json + "\": [[0, 1, 65536, 0], [1, 1, \"" + as_json + "\", 1]]}");
  const std::string csv = folder.write("l.csv", "step,scale," + bad + "\n0,1," + bad + "\n" + bad + ",2,3\n");
  const std::string text = folder.write("text" + bad, bad);
  const std::string lesson =
      folder.write("l" + bad + ".cpp", "// %% [markdown]\n// # " + bad + "\n\n// %%\nint a" + bad + ";\n");
  const std::string page = folder.write("p" + bad + ".md", "# x\n\n$" + bad + "\n");
  const std::string compiler =
      folder.write("cc", "#!/bin/sh\nprintf '%s' '" + bad.substr(bad.find('F') + 6) + "' >&2\nexit 1\n");
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  const std::string runs = folder / ("runs" + bad);
  std::filesystem::create_directory(runs);
  const std::string checkpoint =
      safetensors_of({{"step" + as_json, "F32", "[64]", data}},
                     "{\"run\":\"{\\\"" + as_json.substr(0, 9) + "\\u202e\\\":1}\",\"progress\":\"" + as_json + "\"}");
  std::ofstream(runs + "/fp32-seed1.safetensors", std::ios::binary) << checkpoint;
  const std::string out = folder / ("o" + bad);
  std::filesystem::create_directory(folder / "explorer");
  folder.write("explorer/index.html", explorer_page);
  // A watched run whose names, and one whose formats and roles, want to steer.
  const std::string watched = folder / ("w" + bad), broken_run = folder / "x";
  for (const std::string& path : {watched, broken_run}) std::filesystem::create_directory(path);
  const auto put = [](const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  };
  put(watched + "/run.json", R"({"narrow_run": 1, "model": ")" + as_json + R"(", "formats": ["fp16", "e4m3"]})");
  put(watched + "/tensors.jsonl", watched_line({0, "gradient", "g" + as_bytes, {1e-9f, 1, NAN}, 8}) +
                                      watched_line({50, "activation", "a" + as_bytes, {1e-9f, 1, 1e9f}}));
  put(broken_run + "/run.json", run_json);
  put(broken_run + "/tensors.jsonl", R"({"step": 0, "role": ")" + as_json +
                                         R"(", "name": "", "dtype": ""})"
                                         "\n");
  return {
      {"formats", {{bad}, {"e5m2", "--json"}}},
      {"show", {{bad}, {"1", "--formats", bad}}},
      {"inspect", {{f}, {g}, {npy}, {npz}, {type}, {descr}, {f, "--tensors", bad}, {f + ":" + bad}, {text}}},
      {"cast",
       {{f, out + ".safetensors", "--to", "fp16"},
        {npz, out + "2.safetensors", "--to", "fp16"},
        {f, bad, "--to", bad}}},
      {"stats",
       {{f, g},
        {npz},
        {f, "--fail-if", "underflow >= 0%"},
        {f, "--steps"},
        {f, "--formats", bad},
        {watched},
        {watched, "--tensors", "."},
        {watched, "--formats", "e2m1"},
        {watched, "--fail-if", "underflow >= 0%"},
        {broken_run}}},
      {"histogram",
       {{f},
        {f, "--text"},
        {npz},
        {f, "-o", out + ".csv"},
        {f, "-o", out + ".gif"},
        {watched},
        {watched, "--text"},
        {watched, "-o", out + "w.svg"},
        {broken_run}}},
      {"quantize",
       {{f, out + ".safetensors", "--layout", "deepseek", "--to", "fp8_128x128", "--tensors", "."},
        {f, out + ".safetensors", "--layout", bad, "--to", bad},
        {f, out + ".safetensors", "--layout", "narrow", "--to", bad, "--keep", bad},
        {npz, out + ".safetensors", "--layout", "narrow", "--to", "nvfp4"},
        {text, bad, "--layout", "narrow", "--to", "nvfp4"}}},
      {"dequantize", {{f, out + ".safetensors"}, {f, out + bad}, {f, out, "--to", bad}, {text, out + ".safetensors"}}},
      {"lint",
       {{f},
        {f, "--format", "github"},
        {f, "--json"},
        {text},
        {bad},
        {f, "--ignore", bad},
        {f, "--format", bad},
        {runs}}},
      {"compare", {{f, g}, {f, npz}, {npz, g}, {f, text}}},
      {"models", {{bad}}},
      {"dot",
       {{"--model", bad, "--a", "1", "--b", "1"}, {"--model", "hopper.wgmma.f32.f16.f16", "--a", bad, "--b", bad}}},
      {"gemm",
       {{"--model", "hopper.wgmma.f32.f16.f16", "--a", f + ":a.grad" + as_bytes, "--b", npy},
        {"--model", bad, "--a", f, "--b", g}}},
      {"op",
       {{"softmax", "--x", f + ":a.grad" + as_bytes},
        {bad, "--x", f},
        {"softmax", "--x", npy, "-o", out + bad},
        {"gelu", "--x", bad, "--variant", bad}}},
      {"validate",
       {{"--a", npy, "--b", npy, "--d", npy},
        {"--a", f, "--b", f, "--d", text},
        {"--op", bad, "--x", f, "--d", f},
        {"--op", "gelu", "--x", npy, "--d", npy, "--variant", bad}}},
      {"gpu", {{bad}}},
      {"list-scaling", {{bad}}},
      {"scale-trace",
       {{"--events", log},
        {"--events", watched},
        {"--events", broken_run},
        {"--events", csv},
        {"--events", log + ":run" + as_bytes},
        {"--policy", bad},
        {"--gradients", f, "--model", "growth", "--steps", "8"},
        {"--policy", "deepspeed:" + config, "--events", csv},
        {"--events", text}}},
      {"train",
       {{"--recipe", recipe},
        {"--recipe", named, "--steps", "1"},
        {"--recipe", config},
        {"--recipe", bad},
        {"--print-recipe", named},
        {"--recipe", "fp32", "--steps", "1", "--resume", "-o", runs},
        {"--task", "lm", "--text", text, "--steps", "1"}}},
      {"all-reduce",
       {{f, f}, {f}, {npz}, {bad}, {"--algorithm", bad}, {"--format", bad}, {"--ranks", bad}, {f, f, "-o", out + bad}}},
      {"manual", {{bad}, {"-o", out + "man"}}},
      {"complete",
       {{bad},
        {"--", "narrow", bad},
        {"--", "narrow", "stats", f, "--tensors", ""},
        {"--", "narrow", "stats", watched, "--tensors", ""},
        {"--", "narrow", "inspect", npz + ":"},
        {"--", "narrow", "run", bad, "run=" + bad}}},
      {"memory", {{"--recipe", recipe}, {"--recipe", named, "--layers", "1", "--width", "64"}, {"--recipe", bad}}},
      {"bench", {{"--kernel", bad}, {"--quick", "--kernel", "histogram", "--size", bad}}},
      {"list", {{bad}}},
      {"run",
       {{"gradient_underflow", "gradients=" + f},
        {"gradient_underflow", "run=" + watched},
        {"watched_run", "run=" + watched},
        {"watched_run", "run=" + broken_run},
        {"watched_run", "run=" + watched, "-o", out + "run", "--plot-backend", "own"},
        {"fp8_scaling", "tensors=" + f},
        {"format_choice", "tensors=" + npz},
        {bad},
        {"gradient_underflow", "gradients=" + f, "-o", out + "dir", "--plot-backend", "own"}}},
      {"report",
       {{"--only", "gradient_underflow", "--fast", "gradients=" + f, "-o", out + "page"},
        {"--only", "watched_run,gradient_underflow", "run=" + watched, "-o", out + "page2"},
        {"--only", bad, "-o", out}}},
      {"notebook", {{lesson, "-o", out + ".html", "--cxx", compiler}, {page, "-o", out + ".html"}, {text, "-o", bad}}},
      {"explore",
       {{f, npz, watched, "--seconds", "0", "--no-open"},
        {f, "--seconds", "0", "--no-open", "--json"},
        {bad, "--seconds", "0"},
        {runs + "/none" + bad},
        {"--port", bad},
        {broken_run, "--seconds", bad}}},
  };
}

std::set<std::string> commands() {
  const std::string help = run({"--help"}).out;
  std::set<std::string> names;
  std::size_t at = help.find("Subcommands:\n") + 13;
  for (; help.compare(at, 2, "  ") == 0; at = help.find('\n', at) + 1)
    if (help[at + 2] != ' ') names.insert(help.substr(at + 2, help.find(' ', at + 2) - at - 2));
  return names;
}

}  // namespace

TEST_CASE("apps: no byte of a file steers the terminal or forges a line under any command") {
  REQUIRE(first_hostile("\x1b[31m", false) != "");
  REQUIRE(first_hostile("\x1b[31mred\x1b[0m", true) == "");
  REQUIRE(first_hostile("\xC2\x9b", true) != "");
  const Folder folder;
  const auto all = requests(folder);
  for (const std::string& command : commands()) {
    CAPTURE(command);
    CHECK_MESSAGE(all.contains(command), "a new command needs its hostile files here");
    for (const bool terminal : {false, true})
      for (Words words : all.contains(command) ? all.at(command) : std::vector<Words>{}) {
        words.insert(words.begin(), command);
        RunOptions options = with_environment("TERM", "xterm");
        options.environment.emplace_back("NARROW_EXPLORER", folder / "explorer");
        if (terminal) options.output = RunOptions::Output::terminal;
        const Ran ran = run(words, options);
        const std::string out = first_hostile(ran.out, terminal), err = first_hostile(ran.err, false);
        CAPTURE(words);
        CHECK_MESSAGE(out == "", out);
        CHECK_MESSAGE(err == "", err);
        CHECK_MESSAGE(ran.status <= 2, ran.err);
      }
  }
  // Blanks of a name are blanks in what is written; nothing else of it is left as it was.
  std::size_t written = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    for (const char* ending : {".html", ".svg", ".md", ".json"}) {
      if (entry.path().extension() != ending || entry.path().string().rfind(folder / "o", 0) != 0) continue;
      std::string text = read_file(entry.path().string());
      std::replace_if(
          text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
      CHECK_MESSAGE(first_hostile(text, false) == "", entry.path().filename());
      ++written;
    }
  CHECK(written >= 5);
}

TEST_CASE("apps: JSON with hostile names is valid and has their values") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", safetensors_of({{as_json, "F32", "[1]", "1234"}}));
  for (const Words& words : {Words{"inspect", path, "--json"}, Words{"stats", path, "--json"}}) {
    const Ran ran = run(words);
    CHECK(first_hostile(ran.out, false) == "");
    const Json json = Json::parse(ran.out);
    CHECK((words[0] == "stats" ? json[0]["tensor"] : json["tensors"][0]["name"]) == as_bytes);
  }
}

TEST_CASE("apps: a pattern of names is bounded before it is compiled") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", floats_file("layers.12.attn.weight", {1, 2}));
  CHECK(
      narrow_json({"inspect", path, "--tensors", R"(^(layers|h)\.[0-9]{1,2}\.(attn|mlp)\.w.*t$)"})["tensors"].size() ==
      1);
  const std::string deep = std::string(100, '(') + "a" + std::string(100, ')');
  for (const char* command : {"inspect", "stats", "histogram"}) {
    check_refused({command, path, "--tensors", std::string(100000, '(')}, {"--tensors", "longer than 500"});
    check_refused({command, path, "--tensors", deep}, {"--tensors", "nests more than 50"});
    for (const char* many : {"a{65535}{65535}", "((a{99}){99}){99}", "(a*)*{9999999999999999999999}", "a{,999}{,999}"})
      check_refused({command, path, "--tensors", many}, {"--tensors", "repetitions"});
    check_refused({command, path, "--tensors", R"((a*)*\1)"}, {"--tensors", "refers back"});
  }
}

TEST_CASE("apps: no name of a tensor is a formula in CSV") {
  const Folder folder;
  const std::string path = folder.write("a.safetensors", floats_file("=HYPERLINK(0)", {-1, 2}));
  CHECK(run({"stats", path, "--csv", folder / "s.csv"}).status == 0);
  CHECK(contains(read_file(folder / "s.csv"), "\n'=HYPERLINK(0),"));
  CHECK(contains(run({"histogram", path}).out, ",'=HYPERLINK(0),"));
}
