#include "cli/progress.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "support/run_program.hpp"

namespace {

// Runs the work with a bar on a new terminal; returns what was drawn.
template <class Work>
std::string drawn(std::chrono::milliseconds quiet, std::uint64_t total, Work work) {
  const test::detail::Channel terminal = test::detail::open_terminal();
  REQUIRE(terminal.write >= 0);
  {
    app::Progress progress("casting", total, terminal.write, quiet);
    work(progress);
  }
  fcntl(terminal.read, F_SETFL, O_NONBLOCK);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(terminal.read, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  close(terminal.write);
  close(terminal.read);
  return text;
}

}  // namespace

TEST_CASE("apps: a progress bar shows the part done and is wiped at the end") {
  const std::string text = drawn(std::chrono::milliseconds(0), 200, [](app::Progress& p) { p.add(50); });
  CHECK(text.find("casting [") != std::string::npos);
  CHECK(text.find(" 25 %") != std::string::npos);
  CHECK(text.substr(text.size() - 4) == "\r\033[K");
}

TEST_CASE("apps: a note stands behind the bar") {
  const std::string text = drawn(std::chrono::milliseconds(0), 200, [](app::Progress& p) {
    p.note("loss 2.5");
    p.add(50);
  });
  CHECK(text.find(" left  loss 2.5") != std::string::npos);
}

TEST_CASE("apps: short work draws no bar") {
  CHECK(drawn(std::chrono::milliseconds(1000), 10, [](app::Progress& p) { p.add(10); }) == "");
}

TEST_CASE("apps: a bar is drawn at most ten times a second") {
  const std::string text = drawn(std::chrono::milliseconds(0), 100000, [](app::Progress& p) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (std::chrono::steady_clock::now() < end) p.add(1);
  });
  CHECK(std::count(text.begin(), text.end(), '[') <= 8);  // one bar holds up to five brackets, four of them colours
}

TEST_CASE("apps: a bar counts what several threads add") {
  const std::string text = drawn(std::chrono::milliseconds(0), 4000, [](app::Progress& p) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&p] {
        for (int i = 0; i < 1000; ++i) p.add(1);
      });
    for (std::thread& thread : threads) thread.join();
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    p.add(0);
  });
  CHECK(text.find("100 %") != std::string::npos);
}

TEST_CASE("apps: a bar without a terminal writes nothing") {
  const test::detail::Channel pipe = test::detail::open_pipe();
  {
    app::Progress progress("casting", 0, pipe.write, std::chrono::milliseconds(0));
    progress.add(1);
  }
  close(pipe.write);
  char byte = 0;
  CHECK(read(pipe.read, &byte, 1) == 0);
  close(pipe.read);
}
