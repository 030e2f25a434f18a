#include "narrow/train/operations/reduce.hpp"

#include "narrow/base/parallel.hpp"
#include "narrow/tensor/seed_at.hpp"
#include "narrow/train/operations/round_in_place.hpp"

namespace narrow::train {

namespace {

constexpr std::size_t part_size = 1 << 14;

// to = R(to + from) for elements [begin, end). One call, one stream of random bits.
void add(std::vector<float>& to, const std::vector<float>& from, std::size_t begin, std::size_t end,
         const Precision& precision, std::uint64_t seed, int threads) {
  parallel_parts(end - begin, part_size, threads, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = begin + first; i < begin + last; ++i) to[i] += from[i];
    round_in_place(std::span(to).subspan(begin + first, last - first), precision, seed_at(seed, begin + first));
  });
}

std::vector<float> ring(std::vector<std::vector<float>>& ranks, const Precision& precision, std::uint64_t seed,
                        int threads) {
  const std::size_t n = ranks.size(), size = ranks[0].size();
  std::vector<float> sum(size);
  for (std::size_t piece = 0; piece < n; ++piece) {
    const std::size_t begin = piece * size / n, end = (piece + 1) * size / n;
    for (std::size_t hop = 1; hop <= n; ++hop) {
      const std::vector<float>& own = ranks[(piece + hop) % n];
      if (hop > 1) add(sum, own, begin, end, precision, random_bits(seed, hop), threads);
      else
        std::copy(own.begin() + static_cast<std::ptrdiff_t>(begin), own.begin() + static_cast<std::ptrdiff_t>(end),
                  sum.begin() + static_cast<std::ptrdiff_t>(begin));
    }
  }
  return sum;
}

std::vector<float> tree(std::vector<std::vector<float>>& ranks, const Precision& precision, std::uint64_t seed,
                        int threads) {
  const std::size_t n = ranks.size();
  for (std::size_t distance = 1; distance < n; distance *= 2)
    for (std::size_t r = 0; r + distance < n; r += 2 * distance)
      add(ranks[r], ranks[r + distance], 0, ranks[r].size(), precision, random_bits(seed, n * distance + r), threads);
  return std::move(ranks[0]);
}

}  // namespace

std::vector<float> all_reduce(std::vector<std::vector<float>> ranks, const Precision& precision, ReduceOrder order,
                              std::uint64_t seed, int threads) {
  if (ranks.size() == 1) return std::move(ranks[0]);
  const DefaultFloats guard;
  const auto count = static_cast<float>(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (float& x : ranks[r]) x /= count;
    round_in_place(ranks[r], precision, random_bits(~seed, r), threads);
  }
  return order == ReduceOrder::ring ? ring(ranks, precision, seed, threads) : tree(ranks, precision, seed, threads);
}

}  // namespace narrow::train
