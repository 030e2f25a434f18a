// A progress bar on standard error: only on a terminal, only when the work takes more than a second, at most 10 Hz.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace app {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  Progress(std::string label, std::uint64_t total, int file = 2,
           std::chrono::milliseconds quiet = std::chrono::milliseconds(1000));
  ~Progress();  // wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(std::uint64_t count = 1);  // from any thread
  void note(std::string text);        // stands behind the bar from the next time it is drawn

 private:
  void draw(std::uint64_t done, Clock::time_point now);

  const std::string label_;
  const std::uint64_t total_;
  const int file_;
  const bool enabled_;
  const bool colour_;
  const Clock::time_point start_;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<Clock::rep> next_draw_;  // time since the clock's epoch; the thread that moves it draws
  std::mutex drawing_;
  std::string note_;
  bool drawn_ = false;
};

}  // namespace app
