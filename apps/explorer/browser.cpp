#include "explorer/browser.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "narrow/base/process.hpp"

extern char** environ;

namespace app {
namespace {

bool is_given(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

#ifdef __APPLE__
constexpr const char* opener = "open";
bool has_display() { return !is_given("SSH_CONNECTION"); }
#else
constexpr const char* opener = "xdg-open";
bool has_display() { return is_given("DISPLAY") || is_given("WAYLAND_DISPLAY"); }
#endif

}  // namespace

bool open_browser(const std::string& address) {
  std::string program = has_display() ? narrow::place_on_path(opener) : "", argument = address;
  if (program.empty()) return false;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (posix_spawn_file_actions_init(&actions) != 0) return false;
  if (posix_spawnattr_init(&attributes) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return false;
  }
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})  // what it says is not for this terminal
    posix_spawn_file_actions_addopen(&actions, file, "/dev/null", file == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
  // A group of its own: Ctrl-C here does not end a browser that was not there before. And it hears of closed pipes.
  sigset_t heard;
  sigemptyset(&heard);
  for (const int signal : {SIGPIPE, SIGXFSZ}) sigaddset(&heard, signal);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigdefault(&attributes, &heard);
  const std::array<char*, 3> words{program.data(), argument.data(), nullptr};
  pid_t child = -1;
  const int reason = posix_spawn(&child, program.c_str(), &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return reason == 0;
}

}  // namespace app
