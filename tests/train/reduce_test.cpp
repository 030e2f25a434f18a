#include "narrow/train/operations/reduce.hpp"

#include <doctest/doctest.h>

#include "narrow/base/random.hpp"
#include "narrow/round/round_to.hpp"

using namespace narrow::train;
using narrow::operator""_fmt;

namespace {

std::vector<std::vector<float>> make_ranks(std::size_t ranks, std::size_t n) {
  std::vector<std::vector<float>> all(ranks, std::vector<float>(n));
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i)
      all[r][i] = static_cast<float>(static_cast<std::int64_t>(narrow::random_bits(r, i) >> 40) - (1 << 23)) * 0x1p-20f;
  return all;
}

// Element by element, in the order that a picture of the ring or the tree shows.
float ring_of(const std::vector<std::vector<float>>& ranks, std::size_t i, const narrow::Format& f) {
  const std::size_t n = ranks.size(), size = ranks[0].size();
  const auto own = [&](std::size_t r) { return narrow::round_to(ranks[r % n][i] / static_cast<float>(n), f); };
  std::size_t piece = 0;
  while (i >= (piece + 1) * size / n) ++piece;
  float sum = own(piece + 1);
  for (std::size_t hop = 2; hop <= n; ++hop) sum = narrow::round_to(sum + own(piece + hop), f);
  return sum;
}

float tree_of(const std::vector<std::vector<float>>& ranks, std::size_t i, const narrow::Format& f, std::size_t begin,
              std::size_t width) {
  if (width == 1) return narrow::round_to(ranks[begin][i] / static_cast<float>(ranks.size()), f);
  const float left = tree_of(ranks, i, f, begin, width / 2);
  if (begin + width / 2 >= ranks.size()) return left;
  return narrow::round_to(left + tree_of(ranks, i, f, begin + width / 2, width / 2), f);
}

}  // namespace

TEST_CASE("train: a reduction adds in the order of the ring or of the tree") {
  for (const narrow::Format f : {"fp32"_fmt, "bf16"_fmt, "e5m2"_fmt})
    for (const std::size_t ranks : {2, 3, 4, 7, 8}) {
      const std::vector<std::vector<float>> all = make_ranks(ranks, 1001);
      const std::vector<float> ring = all_reduce(all, {.format = f}, ReduceOrder::ring, 1);
      const std::vector<float> tree = all_reduce(all, {.format = f}, ReduceOrder::tree, 1);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < 1001; ++i)
        wrong += (ring[i] != ring_of(all, i, f)) + (tree[i] != tree_of(all, i, f, 0, 8));
      CAPTURE(ranks);
      CHECK(wrong == 0);
    }
}

TEST_CASE("train: the order of a reduction matters in a narrow format") {
  const std::vector<std::vector<float>> all = make_ranks(8, 5000);
  CHECK(all_reduce(all, {.format = "bf16"_fmt}, ReduceOrder::ring, 1) !=
        all_reduce(all, {.format = "bf16"_fmt}, ReduceOrder::tree, 1));
}

TEST_CASE("train: one rank is left as it is") {
  const std::vector<std::vector<float>> one = make_ranks(1, 100);
  CHECK(all_reduce(one, {.format = "e5m2"_fmt}, ReduceOrder::ring, 1) == one[0]);
}

TEST_CASE("train: a reduction gives the same bits for any number of threads") {
  const std::vector<std::vector<float>> all = make_ranks(4, 50001);
  Precision stochastic{.format = "bf16"_fmt};
  stochastic.cast.rounding = narrow::Rounding::stochastic;
  for (const Precision& p : {Precision{}, Precision{.format = "bf16"_fmt}, stochastic})
    for (const ReduceOrder order : {ReduceOrder::ring, ReduceOrder::tree})
      CHECK(all_reduce(all, p, order, 1, 1) == all_reduce(all, p, order, 1, 3));
}
