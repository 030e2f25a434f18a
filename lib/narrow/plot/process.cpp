#include "narrow/plot/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "narrow/base/error.hpp"

extern char** environ;

namespace narrow {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int file = -1) : file_(file) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return file_; }
  void set(int file) { file_ = file; }
  void reset() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }

 private:
  int file_;
};

// A pair of sockets and not a pipe: send() can be told not to raise SIGPIPE when the reader has gone.
void open_pair(Descriptor& ours, Descriptor& theirs, const std::string& who) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw Error(who + " could not be started: " + std::strerror(errno));
  ours.set(ends[0]);
  theirs.set(ends[1]);
}

// The environment of the child: numbers with points, messages in English, no settings of the user's terminal.
std::vector<std::string> environment() {
  std::vector<std::string> words;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view word = *entry;
    if (!word.starts_with("LC_") && !word.starts_with("LANG") && !word.starts_with("GNU")) words.emplace_back(word);
  }
  words.emplace_back("LC_ALL=C.UTF-8");
  return words;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

pid_t start(const std::vector<std::string>& words, int in, int out, int err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  std::vector<std::string> arguments = words, variables = environment();
  pid_t child = -1;
  const int reason =
      posix_spawnp(&child, words[0].c_str(), &actions, nullptr, pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (reason != 0) throw Error(words[0] + " could not be started: " + std::strerror(reason));
  return child;
}

// Writes and reads at once, so that neither side waits for the other; false when the time is over.
bool exchange(Descriptor& in, int out, int err, std::string_view input, Finished& result, int limit_seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(limit_seconds);
  std::array<pollfd, 3> files{pollfd{in.get(), POLLOUT, 0}, pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  std::array<std::string*, 3> texts{nullptr, &result.out, &result.err};
  while (files[1].fd >= 0 || files[2].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    if (poll(files.data(), files.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) return false;
    if (files[0].fd >= 0 && files[0].revents != 0) {
      const ssize_t sent = send(in.get(), input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) input.remove_prefix(static_cast<std::size_t>(sent));
      if (input.empty() || (sent < 0 && errno != EAGAIN && errno != EINTR)) {
        in.reset();
        files[0].fd = -1;
      }
    }
    for (std::size_t i = 1; i < files.size(); ++i) {
      if (files[i].fd < 0 || files[i].revents == 0) continue;
      std::array<char, 65536> buffer;
      const ssize_t count = read(files[i].fd, buffer.data(), buffer.size());
      if (count > 0) texts[i]->append(buffer.data(), static_cast<std::size_t>(count));
      else if (count == 0 || errno != EINTR) files[i].fd = -1;
    }
  }
  return true;
}

}  // namespace

bool is_on_path(std::string_view name) {
  const char* variable = std::getenv("PATH");
  std::string_view path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (!path.empty()) {
    const std::size_t end = std::min(path.find(':'), path.size());
    const std::string file = std::string(path.substr(0, end)) + "/" + std::string(name);
    if (end > 0 && access(file.c_str(), X_OK) == 0) return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

Finished run_process(const std::vector<std::string>& words, std::string_view input, int limit_seconds) {
  Descriptor in, their_in, out, their_out, err, their_err;
  open_pair(in, their_in, words[0]);
  open_pair(out, their_out, words[0]);
  open_pair(err, their_err, words[0]);
  const pid_t child = start(words, their_in.get(), their_out.get(), their_err.get());
  their_in.reset();
  their_out.reset();
  their_err.reset();
  Finished result;
  const bool in_time = exchange(in, out.get(), err.get(), input, result, limit_seconds);
  if (!in_time) kill(child, SIGKILL);
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
  if (!in_time) throw Error(words[0] + " did not end within " + std::to_string(limit_seconds) + " s");
  result.status = WIFEXITED(state) ? WEXITSTATUS(state) : 1000 + WTERMSIG(state);
  return result;
}

}  // namespace narrow
