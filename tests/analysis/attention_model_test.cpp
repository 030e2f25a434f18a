#include "analysis/experiments/attention_model.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "analysis/recordings/inputs.hpp"
#include "narrow/format/find_format.hpp"

using namespace analysis;
using narrow::operator""_fmt;

namespace {

// Two positions of size 4. q.k of the second query: with the first key a * b * 4, with the second -a * b * 4.
Head opposite(float a, float b) { return {2, 2, 4, {a, a, a, a, a, a, a, a}, {b, b, b, b, -b, -b, -b, -b}}; }

Damage damage(const std::vector<Head>& heads, const Holding& holding, int log2 = 0) {
  return HeldScores(heads, holding).at(log2);
}

}  // namespace

TEST_CASE("analysis: the closed form of the largest score is the mean of what is drawn") {
  constexpr int draws = 40;
  constexpr double tolerance = 0.03;  // a draw spreads by 6 %, so the mean of 40 by 1 %; the form itself is good to 1 %
  for (const std::size_t d : {32u, 128u}) {
    CAPTURE(d);
    double sum = 0;
    for (int t = 0; t < draws; ++t)
      sum += measured_maximum(128, d, 1000 + static_cast<std::uint64_t>(2 * t), 128, false);
    CHECK(std::fabs(sum / draws / saddle_maximum(128, static_cast<double>(d)) - 1) < tolerance);
  }
  CHECK(std::fabs(gaussian_maximum(128, 64) - 8 * std::sqrt(4 * std::log(128.0))) < 1e-9);
}

TEST_CASE("analysis: a score that rounds to infinity makes its row NaN and one below it does not") {
  const Holding raw{"fp16"_fmt};
  // 4 a b = 65472 with a = 128, b = 127.875, exact in FP16; twice that overflows.
  const std::vector<Head> just = {opposite(128, 127.875f)};
  CHECK(damage(just, raw).nan_rows == 0);
  CHECK(damage(just, raw, 1).nan_rows == 1);
  CHECK(damage(just, {"bf16"_fmt}, 1).nan_rows == 0);
  CHECK(damage(just, {"fp32"_fmt}, 1).nan_rows == 0);
  CHECK(scores_of(just[0]).largest == 65472);
  CHECK(scores_of(just[0]).nan_rows == 0);
  CHECK(scores_of(opposite(128, 128)).nan_rows == 2);
  // sqrt(4) = 2: scaling first buys one bit.
  CHECK(damage(just, {"fp16"_fmt, true}, 1).nan_rows == 0);
  CHECK(damage(just, {"fp16"_fmt, true}, 2).nan_rows == 1);
}

// Two queries after two cached keys: the first sees three keys, the second all four.
TEST_CASE("analysis: a query sees the keys that were cached before it and none after it") {
  const Head h{2, 4, 1, {1, 1}, {5, 7, 3, 65520}};
  CHECK(h.seen(0) == 3);
  CHECK(h.seen(1) == 4);
  const Scores s = scores_of(h);
  CHECK(s.largest == 65520);
  CHECK(s.seen == 65520);
  CHECK(s.worst_row == 1);
  CHECK(s.nan_rows == 1);
  Head first = h;
  first.n = 1, first.q = {1}, first.m = 3;
  CHECK(scores_of(first).seen == 7);
  CHECK(damage({h}, {"fp16"_fmt}).nan_rows == 0.5);
  first.causal = false, first.m = 4;
  CHECK(scores_of(first).seen == 65520);
}

TEST_CASE("analysis: minus infinity alone is a probability of zero and no NaN") {
  // The second row sees +x and -x; with q of the other sign the first key gives -Inf, the second +Inf: always one +Inf.
  // A row with one key of -Inf beside a finite one must live.
  Head h{2, 2, 4, {1, 1, 1, 1, 256, 256, 256, 256}, {-128, -128, -128, -128, 0, 0, 0, 0}};
  CHECK(damage({h}, {"fp16"_fmt}).nan_rows == 0);
  CHECK(damage({h}, {"fp16"_fmt}).error == 0);
}

TEST_CASE("analysis: QK-norm takes any factor out again and a soft cap keeps infinity finite") {
  const std::vector<Head> heads = made_heads(3);
  const Holding norm{"fp16"_fmt, false, AttentionFunction::qk_norm},
      cap{"fp16"_fmt, false, AttentionFunction::soft_cap};
  const HeldScores normed(heads, norm), capped(heads, cap);
  CHECK(normed.at(0).error == normed.at(14).error);
  CHECK(capped.at(14).nan_rows == 0);
  CHECK(HeldScores(heads, {"fp16"_fmt}).at(14).nan_rows > 0.5);
}

TEST_CASE("analysis: probabilities from FP32 scores are nearly exact and from BF16 scores are not") {
  const std::vector<Head> heads = made_heads(4);
  const double wide = damage(heads, {"fp32"_fmt}, 4).error, narrow_one = damage(heads, {"bf16"_fmt}, 4).error;
  CHECK(wide < 1e-5);
  CHECK(narrow_one > 1000 * wide);
}

// Simpson's rule over the density of the length of q: P(q.k > x) = E Q(x / |q|), |q|^2 chi-squared with d degrees.
TEST_CASE("analysis: the tail of a score is the integral over the length of its query") {
  constexpr double off = 0.05;  // of Lugannani and Rice for few products, of the probability; less for more of them
  for (const double d : {4.0, 16.0, 128.0})
    for (const double z : {1.0, 3.0, 5.0}) {
      CAPTURE(d);
      CAPTURE(z);
      const double x = z * std::sqrt(d), end = 3 * d + 400;
      constexpr int parts = 200000;
      double sum = 0;
      for (int i = 1; i < parts; ++i) {
        const double r = end * i / parts;  // |q|^2
        const double density = std::exp((d / 2 - 1) * std::log(r) - r / 2 - d / 2 * std::log(2.0) - std::lgamma(d / 2));
        sum += (i % 2 == 1 ? 4 : 2) * density * 0.5 * std::erfc(x / std::sqrt(2 * r));
      }
      const double exact = std::log(sum * end / parts / 3);
      CHECK(std::fabs(log_tail(x, d) - exact) < off);
    }
  CHECK(log_tail(1e-9, 64) == std::log(0.5));
  CHECK(std::isfinite(log_tail(1e9, 64)));
}

TEST_CASE("analysis: medians and shares and pairs of the largest score are inverse to each other") {
  constexpr double bisected = 1e-6;
  for (const double pairs : {1.0, 2080.0, 1e7, 1e14})
    for (const double d : {2.0, 64.0, 4096.0}) {
      CAPTURE(pairs);
      CAPTURE(d);
      const double x = median_maximum(pairs, d);
      CHECK(std::fabs(share_above(x, pairs, d) - 0.5) < bisected);
      if (pairs > 1e6) CHECK(std::fabs(log_pairs_of_half(x, d) - std::log(pairs)) < bisected);
      if (pairs > 1) CHECK(x > normal_median(pairs, d));  // heavier tails
    }
  CHECK(std::fabs(normal_median(1, 1) - 0.674489750196) < 1e-9);  // the quartile of a normal number
  CHECK(median_maximum(1e7, 1e8) / normal_median(1e7, 1e8) - 1 < 1e-5);
}

TEST_CASE("analysis: a measured maximum of some rows is of these rows and a causal one of fewer pairs") {
  CHECK(measured_maximum(64, 8, 5, 64, true) <= measured_maximum(64, 8, 5, 64, false));
  CHECK(measured_maximum(1, 8, 5, 1, true) == measured_maximum(1, 8, 5, 1, false));
  for (std::size_t j = 0; j < 10; ++j) CHECK(spaced_row(j, 10, 10) == j);
  CHECK(spaced_row(3, 4, 4096) == 3584);
}
