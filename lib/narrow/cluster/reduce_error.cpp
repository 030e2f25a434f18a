#include "narrow/cluster/reduce_error.hpp"

#include <algorithm>
#include <cmath>

#include "narrow/base/parallel.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/round/round_to.hpp"

namespace narrow::cluster {

namespace {

constexpr std::size_t error_part_size = 1 << 12;

}  // namespace

std::vector<ExactSum> exact_sums(std::size_t ranks, std::size_t size, const ReadRanks& read, int threads) {
  std::vector<ExactSum> sums(size);
  parallel_parts(size, error_part_size, threads, [&](std::size_t begin, std::size_t end) {
    std::vector<float> values(end - begin);
    for (std::size_t r = 0; r < ranks; ++r) {
      const Stretch own{r, begin, end - begin};
      read({&own, 1}, values);
      for (std::size_t i = begin; i < end; ++i) sums[i].add(values[i - begin]);
    }
  });
  return sums;
}

double ReduceError::sqnr_db() const {
  return mean_square == 0 && signal > 0 ? std::numeric_limits<double>::infinity()
                                        : 10 * std::log10(signal / mean_square);
}

ReduceError reduce_error(std::span<const ExactSum> exact, std::uint32_t divisor, std::span<const double> got,
                         const std::optional<Format>& format, int threads) {
  // Parts are added in their order, so that the bits do not depend on threads.
  std::vector<ReduceError> parts(exact.size() / error_part_size + 1);
  parallel_parts(exact.size(), error_part_size, threads, [&](std::size_t begin, std::size_t end) {
    ReduceError& part = parts[begin / error_part_size];
    part.mean_square = part.signal = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (!exact[i].is_finite()) {
        ++part.special;
        continue;
      }
      ++part.elements;
      const Exact quotient = exact[i].quotient(divisor);
      if (format) {
        const Code nearest = round_exact(quotient, *format), code = encode(got[i], *format);
        const bool is_number = !is_nan(nearest, *format) && !is_nan(code, *format);
        const std::uint64_t ulp = is_number ? ulp_distance(nearest, code, *format) : 0;
        part.max_ulp = std::max(part.max_ulp, ulp);
        part.not_nearest += is_number ? ulp != 0 : is_nan(nearest, *format) != is_nan(code, *format);
      }
      if (!std::isfinite(got[i])) {
        ++part.overflow;
        continue;
      }
      const double x = decode(round_exact(quotient, "fp64"_fmt), "fp64"_fmt), e = got[i] - x;
      part.mean_square += e * e;
      part.signal += x * x;
    }
  });
  ReduceError all;
  double square = 0, signal = 0;
  for (const ReduceError& part : parts) {
    all.elements += part.elements, all.special += part.special, all.overflow += part.overflow;
    all.not_nearest += part.not_nearest, all.max_ulp = std::max(all.max_ulp, part.max_ulp);
    if (part.elements > 0) square += part.mean_square, signal += part.signal;
  }
  if (all.elements > 0 && all.overflow == 0) {
    all.mean_square = square / static_cast<double>(all.elements);
    all.signal = signal / static_cast<double>(all.elements);
  }
  return all;
}

}  // namespace narrow::cluster
