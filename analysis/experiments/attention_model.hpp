// Attention scores as numbers: how large they get by a closed form, and what softmax returns when they are held in a
// narrow format, with the usual remedies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/framework/shares.hpp"
#include "narrow/format/format.hpp"

namespace analysis {

// ---- The largest |q.k| of n queries and n keys of d standard normal numbers ----

double gaussian_maximum(double n, double d);  // a score as a normal number of variance d: sqrt(d) sqrt(2 ln n^2)
double saddle_maximum(double n, double d);    // with the tails of a sum of products; the mean over draws

// ---- The same for so many pairs (q, k), and for half of all draws instead of their mean ----

double log_tail(double x, double d);                   // ln P(q.k > x), x > 0
double share_above(double x, double pairs, double d);  // of draws with a |q.k| of at least x
double normal_median(double pairs, double d);          // exact for independent normal scores of variance d
double median_maximum(double pairs, double d);         // with the tails of a sum of products
double log_pairs_of_half(double x, double d);          // ln of the pairs whose median is x

// Of one draw. rows: only so many of the queries, evenly spaced; causal: query i sees the keys up to i.
double measured_maximum(std::size_t n, std::size_t d, std::uint64_t seed, std::size_t rows, bool causal);
// The query that is row j of so many.
constexpr std::size_t spaced_row(std::size_t j, std::size_t rows, std::size_t n) {
  return (2 * j + 1) * n / (2 * rows);
}

// ---- Softmax of scores that are held in few bits ----

// One head of one sequence: n x d queries and m x d keys. Under a causal mask query i sees the keys up to m - n + i: it
// is the last of them that it belongs to, as with a cache of earlier keys.
struct Head {
  std::size_t n = 0, m = 0, d = 0;
  std::vector<float> q, k;
  bool causal = true;
  std::size_t number = 0, sequence = 0;  // its place in the layer and in the batch
  std::size_t worst_row = 0;             // of Scores, where it is known

  std::size_t seen(std::size_t i) const { return causal ? m - n + i + 1 : m; }  // how many keys query i sees
};
std::vector<Head> made_heads(std::uint64_t seed);

// The scores q.k of a head before they are scaled, without rounding but that of double.
struct Scores {
  double largest = 0;         // |q.k| over all pairs: what a product gives before the mask
  double seen = 0;            // over the pairs that the mask leaves
  std::size_t worst_row = 0;  // where that one is
  std::size_t nan_rows = 0;   // of n: softmax of the scores held in FP16 is NaN
};
Scores scores_of(const Head& head);

enum class AttentionFunction : std::uint8_t {
  plain,
  qk_norm,  // q and k of each position divided by their root mean square
  soft_cap  // 50 tanh(s / 50) instead of s
};
struct Holding {
  narrow::Format format;     // of q, k and the scores
  bool scale_first = false;  // q scaled before the product instead of scores after it
  AttentionFunction function = AttentionFunction::plain;
  double scale = 0;  // of the scores; 0: 1/sqrt(d)
};

struct Damage {
  double nan_rows = 0;  // share of the rows of softmax that are NaN
  double error = 0;     // mean over the other rows of the largest error of a probability; NaN when there are none
};

// The scores of one way of holding them, computed once, of a part of the rows where a head has many (its worst_row is
// always one of them); then damage when all of them are 2^log2 times larger, that is with q and k both 2^(log2 / 2)
// times larger.
class HeldScores {
 public:
  HeldScores(const std::vector<Head>& heads, const Holding& holding);
  Damage at(int larger_log2) const;

 private:
  struct Row {
    std::vector<double> exact, held;  // q.k (of scaled q where scale_first), of exact and of rounded q and k
    double scale;                     // of its head
  };
  Holding holding_;
  std::vector<Row> rows_;
};

}  // namespace analysis
