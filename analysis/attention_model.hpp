// Attention scores as numbers: how large they get by a closed form, and what softmax returns when they are held in a
// narrow format, with the usual remedies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "narrow/format/format.hpp"

namespace analysis {

inline constexpr double fp16_overflows_from = 65520;  // the middle between 65504 and 2^16 rounds to Inf

// ---- The largest |q.k| of n queries and n keys of d standard normal numbers ----

double gaussian_maximum(double n, double d);  // a score as a normal number of variance d: sqrt(d) sqrt(2 ln n^2)
double saddle_maximum(double n, double d);    // with the tails of a sum of products; the mean over draws
double measured_maximum(std::size_t n, std::size_t d, std::uint64_t seed);  // of one draw

// ---- Softmax of scores that are held in few bits ----

// One head of one sequence: n x d queries and keys.
struct Head {
  std::size_t n = 0, d = 0;
  std::vector<float> q, k;
};
std::vector<Head> read_heads(const std::string& path);  // tensors that end with attn.q and attn.k; throws Error
std::vector<Head> made_heads(std::uint64_t seed);
double largest_score(const std::vector<Head>& heads);  // before 1/sqrt(d), causal

enum class AttentionFunction : std::uint8_t {
  plain,
  qk_norm,  // q and k of each position divided by their root mean square
  soft_cap  // 50 tanh(s / 50) instead of s
};
struct Holding {
  narrow::Format format;     // of q, k and the scores
  bool scale_first = false;  // q / sqrt(d) before the product instead of scores / sqrt(d) after it
  AttentionFunction function = AttentionFunction::plain;
};

struct Damage {
  double nan_rows = 0;  // share of the rows of softmax that are NaN
  double error = 0;     // mean over the other rows of the largest error of a probability; NaN when there are none
};

// The scores of one way of holding them, computed once; then damage when all of them are 2^log2 times larger, that is
// with q and k both 2^(log2 / 2) times larger.
class HeldScores {
 public:
  HeldScores(const std::vector<Head>& heads, const Holding& holding);
  Damage at(int larger_log2) const;

 private:
  struct Row {
    std::vector<double> exact, held;  // q.k (of q / sqrt(d) where scale_first), of exact and of rounded q and k
    double root;                      // sqrt(d) of its head
  };
  Holding holding_;
  std::vector<Row> rows_;
};

}  // namespace analysis
