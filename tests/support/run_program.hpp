// Runs a program and returns what it wrote and how it ended; standard output can be a terminal, closed, or a file.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "support/scale.hpp"

namespace test {

struct Ran {
  int status = -1;  // exit status; 1000 + the signal when one ended it, 2000 when it did not end in time
  std::string out, err;
  long peak_kib = 0;  // the most memory that it had at once
};

struct RunOptions {
  enum class Output { pipe, terminal, closed, unread };
  Output output = Output::pipe;
  std::string output_file;  // instead of `output`, when not empty
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::chrono::seconds limit{60 * patience};
};

namespace detail {

struct Channel {
  int read = -1, write = -1;
};

inline Channel open_pipe() {
  std::array<int, 2> ends{-1, -1};
  // Close on exec: a program that another thread starts must not hold this one's end open.
  return pipe2(ends.data(), O_CLOEXEC) == 0 ? Channel{ends[0], ends[1]} : Channel{};
}

inline Channel open_terminal() {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return {};
  return {master, open(ptsname(master), O_RDWR | O_NOCTTY)};
}

[[noreturn]] inline void become(const std::vector<std::string>& command, const RunOptions& options, int out, int err) {
  // The search for leaks at exit takes seconds a process on some machines; the test's own process still does it.
  setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  dup2(open("/dev/null", O_RDONLY), 0);
  if (!options.output_file.empty()) dup2(open(options.output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
  else if (options.output == RunOptions::Output::closed) close(1);
  else dup2(out, 1);
  dup2(err, 2);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execv(words[0], words.data());
  _exit(127);
}

// Reads both until both are closed; false when the time is over first.
inline bool collect(int out, int err, Ran& ran, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::array<pollfd, 2> files{pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  std::array<std::string*, 2> texts{&ran.out, &ran.err};
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || poll(files.data(), files.size(), static_cast<int>(left.count())) <= 0) return false;
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (files[i].fd < 0 || files[i].revents == 0) continue;
      std::array<char, 65536> buffer{};
      const ssize_t count = read(files[i].fd, buffer.data(), buffer.size());
      if (count > 0) texts[i]->append(buffer.data(), static_cast<std::size_t>(count));
      else files[i].fd = -1;  // the end; a terminal says so by an error
    }
  }
  return true;
}

}  // namespace detail

inline Ran run_program(const std::vector<std::string>& command, const RunOptions& options = {}) {
  const bool terminal = options.output == RunOptions::Output::terminal;
  detail::Channel out = terminal ? detail::open_terminal() : detail::open_pipe();
  const detail::Channel err = detail::open_pipe();
  if (options.output == RunOptions::Output::unread) close(std::exchange(out.read, -1));
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGPIPE, SIG_DFL);
    detail::become(command, options, out.write, err.write);
  }
  close(out.write);
  close(err.write);
  Ran ran;
  const bool in_time = detail::collect(out.read, err.read, ran, options.limit);
  if (!in_time) kill(child, SIGKILL);
  int state = 0;
  rusage used{};
  wait4(child, &state, 0, &used);
  ran.peak_kib = used.ru_maxrss;
  if (out.read >= 0) close(out.read);
  close(err.read);
  ran.status = !in_time ? 2000 : WIFEXITED(state) ? WEXITSTATUS(state) : 1000 + WTERMSIG(state);
  return ran;
}

}  // namespace test
