// Threads that wait for work. A thread that cannot be made is done without, and what a part of the work throws reaches
// the caller: neither a full process table nor short memory may end a program or look like its result.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#ifdef __linux__
#include <pthread.h>
#endif

#include "narrow/base/float_environment.hpp"

namespace narrow::detail {

// The parts 0 ... parts - 1 of one call. They are taken in order, so every part below one that fails has been taken
// too, and the failure of the lowest part is the one that leaves: the same for any number of threads.
class Job {
 public:
  using Call = void (*)(const void* body, std::ptrdiff_t part);
  Job(std::ptrdiff_t parts, const void* body, Call call) : parts_(parts), body_(body), call_(call) {}

  void work() noexcept {
    const DefaultFloats guard;  // a thread has the floating-point environment of whoever made it
    for (std::ptrdiff_t part = next_++; part < parts_; part = next_++) {
      try {
        call_(body_, part);
      } catch (...) {
        fail(part);
      }
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void fail(std::ptrdiff_t part) noexcept {
    next_ = parts_;
    const std::lock_guard<std::mutex> hold(lock_);
    if (failure_ && failed_part_ < part) return;
    failure_ = std::current_exception();
    failed_part_ = part;
  }

  const std::ptrdiff_t parts_;
  const void* const body_;
  const Call call_;
  std::atomic<std::ptrdiff_t> next_{0};
  std::mutex lock_;
  std::exception_ptr failure_;
  std::ptrdiff_t failed_part_ = 0;
};

// One job at a time; whoever comes while another is under way, or from inside one, works alone.
class ThreadPool {
 public:
  static ThreadPool& instance() {
    // Never destroyed: its threads sleep in it until the process ends.
    alignas(ThreadPool) static std::byte place[sizeof(ThreadPool)];
    static ThreadPool* const pool = [] {
#ifdef __linux__
      // A child of fork has none of the threads.
      pthread_atfork(nullptr, nullptr, [] { ::new (place) ThreadPool; });
#endif
      return ::new (place) ThreadPool;
    }();
    return *pool;
  }

  void run(Job& job, int threads) {
    std::unique_lock<std::mutex> turn(turn_, std::defer_lock);
    if (threads <= 1 || inside() || !turn.try_lock()) {
      job.work();
      return;
    }
    while (made_ < threads - 1 && make_thread()) {
    }
    {
      const std::lock_guard<std::mutex> hold(lock_);
      job_ = &job;
      open_ = threads - 1;
      ++round_;
    }
    wake_.notify_all();
    const Inside mark;
    job.work();
    // A thread that has not come yet is not waited for.
    open_ = 0;
    for (int spins = 0; busy_ != 0 && spins < patience; ++spins) pause();
    std::unique_lock<std::mutex> hold(lock_);
    open_ = 0;
    done_.wait(hold, [&] { return busy_ == 0; });
    job_ = nullptr;
  }

 private:
  // About 50 us: as long as going to sleep and being woken takes.
  static constexpr int patience = 1000;

  static bool& inside() {
    thread_local bool is = false;
    return is;
  }
  struct Inside {
    Inside() { inside() = true; }
    ~Inside() { inside() = false; }
  };

  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#else
    std::this_thread::yield();
#endif
  }

  // Not out of the last memory: what the threads are to compute takes some, too. (volatile: or the pair is left out.)
  bool make_thread() noexcept {
    constexpr std::size_t for_the_work = std::size_t{32} << 20;
    void* const volatile kept = std::malloc(for_the_work);
    if (kept == nullptr) return false;
    bool is_made = true;
    try {
      std::thread([this] { serve(); }).detach();
      ++made_;
    } catch (...) {
      is_made = false;
    }
    std::free(kept);
    return is_made;
  }

  void serve() noexcept {
    const Inside mark;
    std::uint64_t seen = 0;
    std::unique_lock<std::mutex> hold(lock_);
    for (;;) {
      if (round_ == seen) {
        hold.unlock();
        for (int spins = 0; round_ == seen && spins < patience; ++spins) pause();
        hold.lock();
      }
      wake_.wait(hold, [&] { return round_ != seen; });
      seen = round_;
      if (open_ <= 0) continue;
      --open_;
      ++busy_;
      hold.unlock();
      job_->work();
      hold.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex turn_;  // held by the caller whose job it is
  int made_ = 0;     // under turn_

  std::mutex lock_;
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;
  std::atomic<std::uint64_t> round_{0};
  std::atomic<int> open_{0};  // how many more threads may join
  std::atomic<int> busy_{0};  // how many have joined
};

}  // namespace narrow::detail
