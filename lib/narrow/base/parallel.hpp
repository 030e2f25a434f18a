// Work on several threads, cut into parts by size, never by the number of threads, so that what a part computes cannot
// depend on how many threads there are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

#ifdef __wasi__  // one thread, and a standard library without the words for more
#include "narrow/base/float_environment.hpp"
#else
#include "narrow/base/thread_pool.hpp"
#endif

namespace narrow {

// How many threads parallel_parts uses when not told otherwise: OMP_NUM_THREADS, else the CPUs that this process has.
inline int default_threads() noexcept {
  static const int count = [] {
    constexpr long most = 4096;
    const char* asked = std::getenv("OMP_NUM_THREADS");
    if (const long threads = asked != nullptr ? std::strtol(asked, nullptr, 10) : 0; threads > 0)
      return static_cast<int>(std::min(threads, most));
#ifdef __linux__
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) return std::max(1, CPU_COUNT(&cpus));
#endif
#ifdef __wasi__
    return 1;
#else
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#endif
  }();
  return count;
}

// Calls body(begin, end) for consecutive parts of [0, count), each of part_size elements but the last, on up to
// `threads` threads (0: the default; fewer where no more can be made), all with the default floating-point environment.
// What body throws leaves when all threads are done: of several failures that of the first part.
template <class Body>
void parallel_parts(std::size_t count, std::size_t part_size, int threads, const Body& body) {
  const auto parts = static_cast<std::ptrdiff_t>(count / part_size + (count % part_size != 0));
  const int used = static_cast<int>(std::min<std::ptrdiff_t>(threads > 0 ? threads : default_threads(), parts));
  const auto run = [&](std::ptrdiff_t part) {
    const std::size_t begin = static_cast<std::size_t>(part) * part_size;
    body(begin, std::min(count - begin, part_size) + begin);
  };
#ifndef __wasi__
  if (used > 1) {
    detail::Job job(parts, &run,
                    [](const void* call, std::ptrdiff_t part) { (*static_cast<decltype(&run)>(call))(part); });
    detail::ThreadPool::instance().run(job, used);
    job.rethrow();
    return;
  }
#endif
  const DefaultFloats guard;
  for (std::ptrdiff_t part = 0; part < parts; ++part) run(part);
}

}  // namespace narrow
