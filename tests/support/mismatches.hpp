// Counts what differs, from any thread, and keeps the first few in words: a CHECK per input would cost more than the
// work.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <string>

namespace test {

class Mismatches {
 public:
  // words() gives the description; it is called for the first few only.
  template <class Words>
  void add(const Words& words) {
    if (count_++ >= kept_) return;
    const std::string text = words();
    const std::lock_guard lock(mutex_);
    text_ += "\n  " + text;
  }
  void require_none(const std::string& about) const {
    INFO(about << text_);
    CHECK(count_.load() == 0);
  }

 private:
  static constexpr std::uint64_t kept_ = 5;
  std::atomic<std::uint64_t> count_{0};
  std::mutex mutex_;
  std::string text_;
};

inline std::string hex(std::uint64_t x) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIX64, x);
  return text;
}
inline std::string hex_float(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", x);
  return text;
}

}  // namespace test
