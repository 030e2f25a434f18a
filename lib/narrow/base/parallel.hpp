// Threads: the only file that knows OpenMP. Work is cut into parts by size, never by the number of threads, so that
// what a part computes cannot depend on how many threads there are.
#pragma once

#include <algorithm>
#include <cstddef>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "narrow/base/float_environment.hpp"

namespace narrow {

// How many threads parallel_parts uses when not told otherwise (OMP_NUM_THREADS is obeyed).
inline int default_threads() noexcept {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

// Calls body(begin, end) for consecutive parts of [0, count), each of part_size elements but the last, on up to
// `threads` threads (0: the default), all with the default floating-point environment: a thread of the pool has that of
// whoever made it. body must not throw.
template <class Body>
void parallel_parts(std::size_t count, std::size_t part_size, int threads, const Body& body) {
  const auto parts = static_cast<std::ptrdiff_t>((count + part_size - 1) / part_size);
  const int used = static_cast<int>(std::min<std::ptrdiff_t>(threads > 0 ? threads : default_threads(), parts));
  const auto run = [&](std::ptrdiff_t part) {
    const std::size_t begin = static_cast<std::size_t>(part) * part_size;
    body(begin, std::min(count, begin + part_size));
  };
  if (used <= 1) {
    const DefaultFloats guard;
    for (std::ptrdiff_t part = 0; part < parts; ++part) run(part);
    return;
  }
#ifdef _OPENMP
#pragma omp parallel num_threads(used)
#endif
  {
    const DefaultFloats guard;
#ifdef _OPENMP
#pragma omp for schedule(dynamic, 1)
#endif
    for (std::ptrdiff_t part = 0; part < parts; ++part) run(part);
  }
}

}  // namespace narrow
