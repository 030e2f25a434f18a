// narrow explore: the explorer in the browser, served to this machine alone, with the files that are given to it.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_value.hpp"
#include "cli/terminal.hpp"
#include "explorer/browser.hpp"
#include "explorer/serve.hpp"
#include "explorer/served_files.hpp"
#include "narrow/report/escape.hpp"
#include "narrow/tensor/file_text.hpp"
#include "options/number_option.hpp"

namespace app {
namespace of_explore {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> port, seconds;
  bool no_open = false, json = false;
};

bool is_file(const fs::path& path) {
  std::error_code unknown;
  return fs::is_regular_file(path, unknown);
}

// The folder with index.html: the one that is named, or one that lies beside the program, installed or just built.
fs::path find_page() {
  const char* chosen = std::getenv("NARROW_EXPLORER");
  std::vector<fs::path> folders;
  if (chosen != nullptr && *chosen != '\0') {
    folders = {chosen};
  } else {
    std::error_code unknown;
    const fs::path program = fs::read_symlink("/proc/self/exe", unknown).parent_path();
    for (const char* place : {"../share/narrow/explorer", "explorer", "../explorer"})
      if (!unknown) folders.push_back((program / place).lexically_normal());
  }
  std::string looked;
  for (const fs::path& folder : folders) {
    if (is_file(folder / "index.html")) return folder;
    looked += (looked.empty() ? "" : ", ") + narrow::quote_path(folder.string());
  }
  throw narrow::Error("explore: there is no page index.html in " + (looked.empty() ? "any folder" : looked) +
                      "; it is made by cmake --build build/release --target explorer (Debian: clang-19 lld-19 "
                      "wasi-libc libc++-19-dev-wasm32 libclang-rt-19-dev-wasm32), and the environment variable "
                      "NARROW_EXPLORER can name its folder");
}

void replace_in_page(std::string& page, std::string_view tag, std::string_view from, const std::string& to) {
  const std::size_t begin = page.find(tag), at = page.find(from, begin), end = page.find('>', begin);
  if (begin == std::string::npos || at >= end)
    throw narrow::Error("explore: the page is not one of this version; build the target explorer again");
  page.replace(at, from.size(), to);
}

// The page may ask this server and nobody else, and knows what to ask for. The names are those of files: anything.
std::string page_with_files(std::string page, const Json& files) {
  replace_in_page(page, "<meta http-equiv=\"Content-Security-Policy\"", "connect-src 'none'", "connect-src 'self'");
  replace_in_page(page, "<meta name=\"narrow-files\"", "content=\"[]\"",
                  "content=\"" + narrow::report::escaped_html(files.dump(-1, ' ', true)) + "\"");
  return page;
}

// 128 bits that nobody can guess, as hexadecimal digits.
std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  if (getentropy(bytes.data(), bytes.size()) != 0)
    throw narrow::Error(std::string("explore: no random numbers: ") + std::strerror(errno));
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// Where standard output is closed the next file that is opened would take its place, and get what is printed.
void keep_standard_places() {
  int file = 0;
  while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDONLY);
  if (file >= 0) close(file);
}

struct Answer {
  std::string address;
  Json files = Json::array();
};

Answer fill(WebServer& server, const fs::path& folder, std::vector<NamedFile> files) {
  // Other users of this machine can reach the port, but not what lies behind a name that they do not know.
  const std::string base = "/" + random_name() + "/";
  Answer answer{"http://127.0.0.1:" + std::to_string(server.port()) + base};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string url = base + "files/" + std::to_string(i);
    answer.files.push_back({{"name", files[i].name}, {"url", url}, {"size", files[i].file->size()}});
    server.add(url, {.type = "application/octet-stream", .file = std::move(files[i].file)});
  }
  std::string page = narrow::read_text((folder / "index.html").string());
  if (!answer.files.empty()) page = page_with_files(std::move(page), answer.files);
  for (const char* name : {"", "index.html"})
    server.add(base + name, {.type = "text/html; charset=utf-8", .body = page});
  if (is_file(folder / "narrow.wasm"))
    server.add(base + "narrow.wasm",
               {.type = "application/wasm", .body = narrow::read_text((folder / "narrow.wasm").string())});
  return answer;
}

// The address on a command line can be read by everybody: it leads to the other one, once.
bool show_in_browser(WebServer& server, const std::string& address) {
  const std::string path = "/" + random_name();
  const std::size_t host_end = address.find('/', std::strlen("http://"));
  server.add(path, {.location = address.substr(host_end)});
  return open_browser(address.substr(0, host_end) + path);
}

int run(const Options& options) {
  using Clock = std::chrono::steady_clock;
  keep_standard_places();
  const auto port = options.port ? parse_count(*options.port, "--port", 1, 65535) : 0;
  std::optional<Clock::time_point> end;
  if (options.seconds)
    end = Clock::now() + std::chrono::seconds(parse_count(*options.seconds, "--seconds", 0, 1'000'000));
  const fs::path folder = find_page();
  std::vector<NamedFile> files = open_files(options.files);
  WebServer server(static_cast<std::uint16_t>(port));
  const Answer answer = fill(server, folder, std::move(files));

  const Interrupt interrupt;  // from here on Ctrl-C is how it ends
  print(options.json ? json_text({{"address", answer.address}, {"files", answer.files}}) : answer.address + "\n");
  flush_output();
  if (std::ferror(stdout) != 0) return 0;  // nobody knows the address; main says why
  if (!options.no_open) show_in_browser(server, answer.address);
  if (is_terminal(2) && !end) print_error("Ctrl-C ends it\n");
  server.run([&] { return interrupt.came() || (end && Clock::now() >= *end); });
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("FILE", options->files,
                   "what the page opens: .safetensors, .npy and .npz files, folders of them, folders of watched runs");
  arguments.option("--port", options->port, "N", "of 127.0.0.1 (default: a free one)");
  arguments.option("--seconds", options->seconds, "N", "ends by itself after that time (default: at Ctrl-C)");
  arguments.flag("--no-open", options->no_open, "print the address, and open no browser");
  arguments.flag("--json", options->json, "print JSON: the address and the files");
  return [options] { return run(*options); };
}

}  // namespace of_explore

const Command explore_command{
    "explore", "the explorer in the browser, served on 127.0.0.1 alone", "narrow explore model.safetensors",
    of_explore::declare,
    "The page is the program in WebAssembly: it shows numbers, designs formats, counts your tensors under a "
    "loss scale that you drag, draws tensor cores step by step. Files are served to this machine alone, under "
    "an address that other users cannot guess. Ctrl-C ends it."};

}  // namespace app
