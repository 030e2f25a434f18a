#include "narrow/base/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "narrow/base/descriptor.hpp"
#include "narrow/base/error.hpp"

extern char** environ;

namespace narrow {
namespace {

// A pair of sockets and not a pipe: send() can be told not to raise SIGPIPE when the reader has gone.
void open_pair(Descriptor& ours, Descriptor& theirs, const std::string& who) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw Error(who + " could not be started: " + std::strerror(errno));
  ours.reset(ends[0]);
  theirs.reset(ends[1]);
}

// The folders of PATH that have a place of their own. An empty or relative entry means the folder in which somebody
// happens to stand, and whatever lies there under the name of a program.
std::string search_path() {
  const char* variable = std::getenv("PATH");
  std::string_view path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  std::string folders;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find(':'), path.size());
    if (path[0] == '/') folders += (folders.empty() ? "" : ":") + std::string(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return folders;
}

// The environment of the child: numbers with points, messages in English, no settings of the user's terminal, and the
// path by which it was found, for what it starts itself.
std::vector<std::string> environment() {
  std::vector<std::string> words;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view word = *entry;
    if (!word.starts_with("LC_") && !word.starts_with("LANG") && !word.starts_with("GNU") && !word.starts_with("PATH="))
      words.emplace_back(word);
  }
  words.emplace_back("PATH=" + search_path());
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
  const std::string program = place_on_path(words[0]);
  if (program.empty()) throw Error(words[0] + " could not be started: " + std::strerror(ENOENT));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  // A group of its own: what the program starts (a compiler its passes, a shell its commands) can be ended with it.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<std::string> arguments = words, variables = environment();
  pid_t child = -1;
  const int reason = posix_spawn(&child, program.c_str(), &actions, &attributes, pointers(arguments).data(),
                                 pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (reason != 0) throw Error(words[0] + " could not be started: " + std::strerror(reason));
  return child;
}

std::atomic<pid_t> guarded_group = 0;

void end_group_and_self(int signal) {  // SA_RESETHAND: raised again it ends this program
  if (const pid_t group = guarded_group; group > 0) kill(-group, SIGKILL);
  raise(signal);
}

// Ctrl-C in a terminal does not reach another group: a signal that ends this program ends the group first. Signals
// that the caller handles or ignores stay as they are; of programs run at the same time only the first is guarded.
class GroupGuard {
 public:
  explicit GroupGuard(pid_t group) {
    pid_t none = 0;
    if (!guarded_group.compare_exchange_strong(none, group)) return;
    owner_ = true;
    struct sigaction ours = {};
    ours.sa_handler = end_group_and_self;
    ours.sa_flags = static_cast<int>(SA_RESETHAND);
    for (std::size_t i = 0; i < signals.size(); ++i) {
      sigaction(signals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler == SIG_DFL) sigaction(signals[i], &ours, nullptr);
    }
  }
  ~GroupGuard() {
    if (!owner_) return;
    for (std::size_t i = 0; i < signals.size(); ++i)
      if (before_[i].sa_handler == SIG_DFL) sigaction(signals[i], &before_[i], nullptr);
    guarded_group = 0;
  }
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

 private:
  static constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, signals.size()> before_ = {};
  bool owner_ = false;
};

struct Limit {
  Limit(int limit, const std::function<bool()>& stop)
      : seconds(limit), end(std::chrono::steady_clock::now() + std::chrono::seconds(limit)), should_stop(stop) {}
  std::chrono::milliseconds left() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  }
  // Why the program has to be ended; nothing while it may go on.
  std::string passed() const {
    if (should_stop && should_stop()) return "was interrupted";
    return left().count() > 0 ? "" : "did not end within " + std::to_string(seconds) + " s";
  }
  int seconds;
  std::chrono::steady_clock::time_point end;
  const std::function<bool()>& should_stop;
};

// Writes and reads at once, so that neither side waits for the other. Returns why the program has to be ended; nothing
// when it closed both of its outputs.
std::string exchange(Descriptor& in, int out, int err, std::string_view input, Finished& result, const Limit& limit) {
  std::array<pollfd, 3> files{pollfd{in.get(), POLLOUT, 0}, pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  std::array<std::string*, 3> texts{nullptr, &result.out, &result.err};
  while (files[1].fd >= 0 || files[2].fd >= 0) {
    if (const std::string why = limit.passed(); !why.empty()) return why;
    // Asked again soon: a signal that comes just before poll() does not end it.
    const int wait = limit.should_stop ? 50 : static_cast<int>(limit.left().count()) + 1;
    if (poll(files.data(), files.size(), wait) < 0) {
      if (errno == EINTR) continue;  // revents says nothing then
      return std::string("could not be waited for: ") + std::strerror(errno);
    }
    if (files[0].fd >= 0 && files[0].revents != 0) {
      const ssize_t sent = send(in.get(), input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      const int reason = sent < 0 && errno != EAGAIN && errno != EINTR ? errno : 0;
      const bool closed = reason == EPIPE || reason == ECONNRESET;  // it wants no more, and its status says whether it is content
      if (reason != 0 && !closed) return std::string("could not be written to: ") + std::strerror(reason);
      if (sent > 0) input.remove_prefix(static_cast<std::size_t>(sent));
      if (input.empty() || closed) {
        in.reset();
        files[0].fd = -1;
      }
    }
    for (std::size_t i = 1; i < files.size(); ++i) {
      if (files[i].fd < 0 || files[i].revents == 0) continue;
      std::array<char, 65536> buffer;
      const ssize_t count = recv(files[i].fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (count > 0) texts[i]->append(buffer.data(), static_cast<std::size_t>(count));
      else if (count == 0) files[i].fd = -1;
      // Left unread, it would wait for its reader until its time is over.
      else if (errno != EINTR && errno != EAGAIN) return std::string("could not be read: ") + std::strerror(errno);
      if (texts[i]->size() > most_output_bytes)
        return "wrote more than " + std::to_string(most_output_bytes >> 20) + " MiB";
    }
  }
  return "";
}

// The state that waitpid gives; a program that has closed its outputs can still run on.
int wait_or_end(pid_t child, const Limit& limit, std::string& stopped) {
  int state = 0;
  while (stopped.empty() && waitpid(child, &state, WNOHANG) == 0) {
    stopped = limit.passed();
    if (stopped.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (stopped.empty()) return state;
  kill(-child, SIGKILL);
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
  return state;
}

}  // namespace

std::string place_on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  std::string folders = search_path();
  for (std::size_t start = 0; start < folders.size();) {
    const std::size_t end = std::min(folders.find(':', start), folders.size());
    const std::string file = folders.substr(start, end - start) + "/" + name;
    struct stat what = {};
    if (access(file.c_str(), X_OK) == 0 && stat(file.c_str(), &what) == 0 && S_ISREG(what.st_mode)) return file;
    start = end + 1;
  }
  return "";
}

bool is_on_path(std::string_view name) { return !place_on_path(std::string(name)).empty(); }

Finished try_process(const std::vector<std::string>& words, std::string_view input, int limit_seconds,
                     const std::function<bool()>& should_stop) {
  Descriptor in, their_in, out, their_out, err, their_err;
  open_pair(in, their_in, words[0]);
  open_pair(out, their_out, words[0]);
  open_pair(err, their_err, words[0]);
  const Limit limit(limit_seconds, should_stop);
  const pid_t child = start(words, their_in.get(), their_out.get(), their_err.get());
  const GroupGuard guard(child);
  their_in.reset();
  their_out.reset();
  their_err.reset();
  Finished result;
  result.stopped = exchange(in, out.get(), err.get(), input, result, limit);
  const int state = wait_or_end(child, limit, result.stopped);
  result.status = WIFEXITED(state) ? WEXITSTATUS(state) : 1000 + WTERMSIG(state);
  return result;
}

Finished run_process(const std::vector<std::string>& words, std::string_view input, int limit_seconds) {
  Finished result = try_process(words, input, limit_seconds);
  if (!result.stopped.empty()) throw Error(words[0] + " " + result.stopped);
  return result;
}

}  // namespace narrow
