// A lock for lists that a signal handler walks, too: taking it allocates nothing and never sleeps. Whoever holds it
// must not be able to raise the signal.
#pragma once

#include <atomic>

namespace narrow {

class SpinLock {
 public:
  explicit SpinLock(std::atomic_flag& flag) noexcept : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~SpinLock() { flag_.clear(std::memory_order_release); }
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

 private:
  std::atomic_flag& flag_;
};

}  // namespace narrow
