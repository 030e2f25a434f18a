#include "analysis/experiments/attention_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/recordings/inputs.hpp"
#include "narrow/round/round_to.hpp"

namespace analysis {

using narrow::round_to;

double gaussian_maximum(double n, double d) { return std::sqrt(d) * std::sqrt(2 * std::log(n * n)); }

namespace {

constexpr double ln_2 = 0.69314718055994531;

// The t with K'(t) = d t / (1 - t^2) = x.
double saddle_of(double x, double d) { return 2 * x / (d + std::sqrt(d * d + 4 * x * x)); }

// The x in (0, high) where a falling function crosses zero.
template <class F>
double crossing(double high, const F& falling) {
  double low = 0;
  for (int i = 0; i < 200; ++i) {
    const double x = 0.5 * (low + high);
    (falling(x) > 0 ? low : high) = x;
  }
  return low;
}

// Beyond it no share of so many pairs is left: P(q.k > x) < e^(d/2 ln 2 - x / 2), from K(t) at t = 1/2.
double beyond(double pairs, double d) { return d + 4 * std::log(2 * pairs) + 100; }

}  // namespace

// By Lugannani and Rice (1980). The cumulant function of a sum of d products of normal numbers is K(t) = -d/2 ln(1 -
// t^2); with K'(t) = x,
//   P(s > x) = Q(w) + phi(w) (1/u - 1/w),   w = sqrt(2 (t x - K)),   u = t sqrt(K''),   K'' = d (1 + t^2) / (1 -
//   t^2)^2,
// where phi and Q are the density and the tail of a normal number. Far out Q(w) = phi(w) (1/w - 1/w^3 + 3/w^5 ..).
double log_tail(double x, double d) {
  constexpr double pi = 3.14159265358979323846;
  const double t = saddle_of(x, d), one = d * t / x;  // 1 - t^2, without cancellation
  const double w = std::sqrt(2 * (t * x + 0.5 * d * std::log(one))), u = t * std::sqrt(d * (1 + t * t)) / one;
  if (!(w > 1e-3)) return -ln_2;  // the middle, where 1/u - 1/w cancels
  const double rest = w > 30 ? -1 / (w * w * w) + 3 / (w * w * w * w * w)
                             : std::sqrt(pi / 2) * std::exp(0.5 * w * w) * std::erfc(w / std::sqrt(2.0)) - 1 / w;
  return std::min(-ln_2, -0.5 * w * w - 0.5 * std::log(2 * pi) + std::log(1 / u + rest));
}

// 1 - (1 - 2 P)^N: scores as if they were independent. Those of one query are not; the fewer d, the more they share.
double share_above(double x, double pairs, double d) {
  return -std::expm1(pairs * std::log1p(-2 * std::exp(log_tail(x, d))));
}

double normal_median(double pairs, double d) {
  const double tail = -std::expm1(-ln_2 / pairs);  // 2 Q(z) = 1 - 2^(-1/N)
  return std::sqrt(d) * crossing(40, [&](double z) { return std::erfc(z / std::sqrt(2.0)) - tail; });
}

double median_maximum(double pairs, double d) {
  const double tail = std::log(-std::expm1(-ln_2 / pairs));
  return crossing(beyond(pairs, d), [&](double x) { return ln_2 + log_tail(x, d) - tail; });
}

double log_pairs_of_half(double x, double d) { return std::log(ln_2) - ln_2 - log_tail(x, d); }

// The x with 2 n^2 P(s > x) = 1; the largest of many draws lies around it as a Gumbel number of width 1/t, whose mean
// is Euler's constant times that above.
double saddle_maximum(double n, double d) {
  constexpr double euler = 0.57721566490153286;
  const double x = crossing(beyond(n * n, d), [&](double at) { return std::log(2 * n * n) + log_tail(at, d); });
  return x + euler / saddle_of(x, d);
}

// Keys side by side and d ascending: the compiler adds them in lanes without changing the order of any sum.
double measured_maximum(std::size_t n, std::size_t d, std::uint64_t seed, std::size_t rows, bool causal) {
  const std::vector<float> q = normal_values(rows * d, 1, seed), keys = normal_values(n * d, 1, seed + 1);  // d x n
  float largest = 0;
  std::vector<float> row(n);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t seen = causal ? spaced_row(i, rows, n) + 1 : n;
    std::fill(row.begin(), row.end(), 0.0f);
    for (std::size_t l = 0; l < d; ++l) {
      const float x = q[i * d + l];
      const float* k = &keys[l * n];
      for (std::size_t j = 0; j < seen; ++j) row[j] += x * k[j];
    }
    for (std::size_t j = 0; j < seen; ++j) largest = std::max(largest, std::fabs(row[j]));
  }
  return static_cast<double>(largest);
}

std::vector<Head> made_heads(std::uint64_t seed) {
  return {{256, 256, 64, normal_values(256 * 64, 1.5, seed), normal_values(256 * 64, 1.5, seed + 1)}};
}

namespace {

// Rows of v as they are multiplied: normalised or divided by sqrt(d) where asked, and held in the format.
std::vector<double> operand(const std::vector<float>& v, std::size_t d, double factor, bool normalise,
                            const narrow::Format* hold) {
  std::vector<double> out(v.size());
  for (std::size_t at = 0; at < v.size(); at += d) {
    double squares = 0;
    for (std::size_t l = 0; l < d; ++l) squares += static_cast<double>(v[at + l]) * static_cast<double>(v[at + l]);
    // A position of zeros stays one.
    const double scale = normalise && squares > 0 ? factor / std::sqrt(squares / static_cast<double>(d)) : factor;
    for (std::size_t l = 0; l < d; ++l) {
      const double x = static_cast<double>(v[at + l]) * scale;
      out[at + l] = hold == nullptr ? x : round_to(x, *hold);
    }
  }
  return out;
}

double dot(const double* a, const double* b, std::size_t d) {
  double sum = 0;
  for (std::size_t l = 0; l < d; ++l) sum += a[l] * b[l];
  return sum;
}

// As kernels do it: subtract the largest, exp, divide. Inf - Inf is NaN, and the whole row with it.
void softmax(std::vector<double>& x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& v : x) v = std::exp(v - top), sum += v;
  for (double& v : x) v /= sum;
}

}  // namespace

// Keys side by side and d ascending, four queries at a time: the compiler adds in lanes without changing the order of
// any sum, and a key that was loaded is used four times.
Scores scores_of(const Head& h) {
  constexpr std::size_t together = 4;
  Scores out;
  std::vector<double> keys(h.d * h.m), sums(together * h.m);
  for (std::size_t j = 0; j < h.m; ++j)
    for (std::size_t l = 0; l < h.d; ++l) keys[l * h.m + j] = static_cast<double>(h.k[j * h.d + l]);
  for (std::size_t begin = 0; begin < h.n; begin += together) {
    std::fill(sums.begin(), sums.end(), 0.0);
    double* const s0 = sums.data();
    double *const s1 = s0 + h.m, *const s2 = s1 + h.m, *const s3 = s2 + h.m;
    const auto query = [&](std::size_t i, std::size_t l) {
      return i < h.n ? static_cast<double>(h.q[i * h.d + l]) : 0.0;
    };
    for (std::size_t l = 0; l < h.d; ++l) {
      const double q0 = query(begin, l), q1 = query(begin + 1, l), q2 = query(begin + 2, l), q3 = query(begin + 3, l);
      const double* const k = &keys[l * h.m];
      for (std::size_t j = 0; j < h.m; ++j)
        s0[j] += q0 * k[j], s1[j] += q1 * k[j], s2[j] += q2 * k[j], s3[j] += q3 * k[j];
    }
    for (std::size_t i = begin; i < std::min(begin + together, h.n); ++i) {
      const double* const row = &sums[(i - begin) * h.m];
      double top = -std::numeric_limits<double>::infinity();
      for (std::size_t j = 0; j < h.m; ++j) {
        const double size = std::fabs(row[j]);
        out.largest = std::max(out.largest, size);
        if (j >= h.seen(i)) continue;
        top = std::max(top, row[j]);
        if (size > out.seen) out.seen = size, out.worst_row = i;
      }
      // Inf - Inf: softmax subtracts the largest score, which is Inf, or -Inf where all are.
      if (top >= fp16_overflows_from || top <= -fp16_overflows_from) ++out.nan_rows;
    }
  }
  return out;
}

namespace {

// So many rows of a head are enough, and fewer where they are long; the one with the largest score is one of them.
std::vector<std::size_t> chosen_rows(const Head& h) {
  const std::size_t most = std::clamp<std::size_t>((std::size_t{1} << 17) / h.m, 1, 128);
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < h.n; i += std::max<std::size_t>(1, (h.n + most - 1) / most)) rows.push_back(i);
  if (std::find(rows.begin(), rows.end(), h.worst_row) == rows.end()) rows.push_back(h.worst_row);
  return rows;
}

}  // namespace

// q and k are rounded once: a power of two more or less changes neither their bits nor, far from the ends of FP16,
// theirs.
HeldScores::HeldScores(const std::vector<Head>& heads, const Holding& holding) : holding_(holding) {
  const bool normalise = holding.function == AttentionFunction::qk_norm;
  for (const Head& h : heads) {
    const double scale = holding.scale > 0 ? holding.scale : 1 / std::sqrt(static_cast<double>(h.d));
    const double q_factor = holding.scale_first ? scale : 1;
    const std::vector<double> q = operand(h.q, h.d, q_factor, normalise, nullptr),
                              k = operand(h.k, h.d, 1, normalise, nullptr);
    const std::vector<double> held_q = operand(h.q, h.d, q_factor, normalise, &holding.format),
                              held_k = operand(h.k, h.d, 1, normalise, &holding.format);
    for (const std::size_t i : chosen_rows(h)) {
      Row row{{}, {}, scale};
      for (std::size_t j = 0; j < h.seen(i); ++j) {
        row.exact.push_back(dot(&q[i * h.d], &k[j * h.d], h.d));
        row.held.push_back(dot(&held_q[i * h.d], &held_k[j * h.d], h.d));
      }
      rows_.push_back(std::move(row));
    }
  }
}

Damage HeldScores::at(int larger_log2) const {
  // QK-norm takes the factor out again before the product.
  const double factor = holding_.function == AttentionFunction::qk_norm ? 1 : std::ldexp(1.0, larger_log2);
  const auto logits = [&](const std::vector<double>& scores, double scale, bool hold) {
    const auto kept = [&](double x) { return hold ? round_to(x, holding_.format) : x; };
    std::vector<double> out(scores.size());
    for (std::size_t j = 0; j < scores.size(); ++j) {
      double s = kept(scores[j] * factor);
      if (!holding_.scale_first) s = kept(s * scale);
      if (holding_.function == AttentionFunction::soft_cap) s = kept(50 * std::tanh(s / 50));
      out[j] = s;
    }
    softmax(out);
    return out;
  };
  Damage damage;
  double good = 0;
  for (const Row& row : rows_) {
    const std::vector<double> want = logits(row.exact, row.scale, false), got = logits(row.held, row.scale, true);
    bool is_nan = false;
    double worst = 0;
    for (std::size_t j = 0; j < got.size(); ++j) {
      is_nan = is_nan || std::isnan(got[j]);
      worst = std::max(worst, std::fabs(got[j] - want[j]));
    }
    if (is_nan) {
      damage.nan_rows += 1;
    } else {
      damage.error += worst, good += 1;
    }
  }
  damage.nan_rows /= static_cast<double>(rows_.size());
  damage.error = good > 0 ? damage.error / good : std::nan("");
  return damage;
}

}  // namespace analysis
