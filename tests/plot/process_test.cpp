#include "narrow/base/process.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "narrow/base/error.hpp"

using namespace narrow;

namespace {

// A pipe that started programs inherit: its reading end hears when the last of them is gone.
class Witness {
 public:
  Witness() { REQUIRE(pipe(ends_.data()) == 0); }
  ~Witness() {
    close_own();
    close(ends_[0]);
  }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  void close_own() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  std::string writing_end() const { return std::to_string(ends_[1]); }
  bool all_are_gone() {
    close_own();
    pollfd file{ends_[0], POLLIN, 0};
    return poll(&file, 1, 5000) == 1 && (file.revents & POLLHUP) != 0;
  }
  void wait_for_a_byte() const {
    char byte = 0;
    CHECK(read(ends_[0], &byte, 1) == 1);
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// An empty entry of PATH is the folder in which one stands, and so is a point.
TEST_CASE("plot: no program of the working folder is run for an entry of PATH that is not absolute") {
  namespace fs = std::filesystem;
  const fs::path before = fs::current_path(),
                 folder = fs::temp_directory_path() / ("narrow_path_" + std::to_string(getpid()));
  const std::string path = getenv("PATH");
  fs::create_directories(folder / "sub");
  for (const char* name : {"planted", "sub/planted"}) {
    std::ofstream(folder / name) << "#!/bin/sh\necho planted\n";
    fs::permissions(folder / name, fs::perms::owner_all);
  }
  fs::current_path(folder);
  for (const std::string& entries :
       {":" + path, path + ":", path + "::/bin", ".:" + path, "sub:" + path, "./sub:" + path}) {
    CAPTURE(entries);
    setenv("PATH", entries.c_str(), 1);
    CHECK(!is_on_path("planted"));
    CHECK_THROWS_AS(run_process({"planted"}, "", 20), Error);
    CHECK(run_process({"sh", "-c", "planted || echo none"}, "", 20).out == "none\n");  // nor by what is run
    CHECK(run_process({"./planted"}, "", 20).out == "planted\n");                      // a place is a place
  }
  setenv("PATH", (path + ":" + (folder / "sub").string()).c_str(), 1);
  CHECK(run_process({"planted"}, "", 20).out == "planted\n");
  CHECK(!is_on_path("sub"));  // a folder is no program
  setenv("PATH", path.c_str(), 1);
  fs::current_path(before);
  fs::remove_all(folder);
}

TEST_CASE("plot: a program gets its input and gives its output whatever their size") {
  const std::string large(3'000'000, 'x');
  const Finished cat = run_process({"cat"}, large, 20);
  CHECK(cat.status == 0);
  CHECK(cat.out == large);
  CHECK(run_process({"cat"}, "", 20).out == "");
  // A reader that does not read: no signal, no waiting.
  CHECK(run_process({"true"}, large, 20).status == 0);
}

TEST_CASE("plot: how a program ended is told") {
  const Finished failed = run_process({"sh", "-c", "echo out; echo err >&2; exit 3"}, "", 20);
  CHECK(failed.status == 3);
  CHECK(failed.out == "out\n");
  CHECK(failed.err == "err\n");
  CHECK(run_process({"sh", "-c", "kill -9 $$"}, "", 20).status == 1009);
  CHECK_THROWS_AS(run_process({"no-such-program-of-that-name"}, "", 20), Error);
  CHECK(run_process({"sh", "-c", "echo $LC_ALL"}, "", 20).out == "C.UTF-8\n");
}

TEST_CASE("plot: a program that does not end is ended") {
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(run_process({"sleep", "30"}, "", 1), Error);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

TEST_CASE("plot: what a program started is ended with it") {
  Witness witness;
  CHECK_THROWS_AS(run_process({"sh", "-c", "sleep 30 & sleep 30"}, "", 1), Error);
  CHECK(witness.all_are_gone());
}

TEST_CASE("plot: a program that closes its outputs and runs on is ended") {
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(run_process({"sh", "-c", "exec >&- 2>&-; sleep 20"}, "", 1), Error);
  CHECK(seconds_since(start) < 10);
}

TEST_CASE("plot: what a program wrote until it was ended is there") {
  const Finished ran = try_process({"sh", "-c", "echo out; echo err >&2; sleep 30"}, "", 1);
  CHECK(ran.stopped == "did not end within 1 s");
  CHECK(ran.status == 1000 + SIGKILL);
  CHECK(ran.out == "out\n");
  CHECK(ran.err == "err\n");
}

TEST_CASE("plot: a program that writes without end is ended") {
  const Finished ran = try_process({"head", "-c", std::to_string(most_output_bytes + 1), "/dev/zero"}, "", 20);
  CHECK(ran.stopped == "wrote more than 64 MiB");
  CHECK(try_process({"head", "-c", "1000000", "/dev/zero"}, "", 20).stopped == "");
}

TEST_CASE("plot: a signal that is handled does not make the limit longer") {
  struct sigaction nothing = {}, before = {};
  nothing.sa_handler = [](int) {};
  sigaction(SIGALRM, &nothing, &before);
  const itimerval once{{0, 0}, {0, 300'000}};
  setitimer(ITIMER_REAL, &once, nullptr);
  const auto start = std::chrono::steady_clock::now();
  CHECK(try_process({"sh", "-c", "echo a; sleep 20"}, "", 1).stopped == "did not end within 1 s");
  CHECK(seconds_since(start) < 10);
  sigaction(SIGALRM, &before, nullptr);
}

TEST_CASE("plot: a signal that ends us ends the program too") {
  Witness witness;
  const pid_t us = fork();
  REQUIRE(us >= 0);
  if (us == 0) {
    signal(SIGTERM, SIG_DFL);
    try_process({"sh", "-c", "sleep 30 & sleep 0.2; echo > /proc/self/fd/" + witness.writing_end() + "; wait"}, "", 20);
    _exit(0);
  }
  witness.wait_for_a_byte();
  kill(us, SIGTERM);
  int state = 0;
  CHECK(waitpid(us, &state, 0) == us);
  CHECK(WIFSIGNALED(state));
  CHECK(witness.all_are_gone());
}

TEST_CASE("plot: programs are found on PATH alone") {
  CHECK(is_on_path("sh"));
  CHECK(!is_on_path("no-such-program-of-that-name"));
}
