#include "analysis/experiments/attention_size.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/experiments/attention_model.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/base/parallel.hpp"

namespace analysis {
namespace {

using namespace narrow;
using enum PlotColour;

// n queries and keys of d entries with standard deviation sigma, `heads` times.
struct Size {
  double d, n, sigma, heads;
  bool causal;

  double pairs() const { return heads * (causal ? n * (n + 1) / 2 : n * n); }
  double square() const { return sigma * sigma; }  // scores are so much larger than with sigma = 1
};

// What was drawn: all of it, or so much of it as there is time for.
struct Measured {
  std::size_t positions = 0, rows = 0, heads = 0;
  double pairs = 0;             // of one run
  std::vector<double> largest;  // of each run, ascending, with sigma = 1

  double median() const { return 0.5 * (largest[(largest.size() - 1) / 2] + largest[largest.size() / 2]); }
  double share_from(double x) const {
    const auto above = std::count_if(largest.begin(), largest.end(), [&](double s) { return s >= x; });
    return static_cast<double>(above) / static_cast<double>(largest.size());
  }
};

Measured measure(const Size& s, const Parameters& parameters, Progress& progress) {
  auto runs = static_cast<std::size_t>(parameters.integer("trials"));
  const auto seed = static_cast<std::uint64_t>(parameters.integer("seed"));
  // Products in all, and entries of one head. A normal number costs about as much as 128 products.
  const double budget = parameters.by_effort(0x1p31, 0x1p34, 0x1p38);
  const double entries = parameters.by_effort(0x1p20, 0x1p22, 0x1p24);
  // Small ones are drawn more often.
  const double cheap = budget / 4 / (static_cast<double>(runs) * s.heads * s.n * s.d * (256 + s.n));
  runs *= static_cast<std::size_t>(std::clamp(cheap, 1.0, 16.0));
  Measured m;
  m.positions = static_cast<std::size_t>(std::clamp(entries / s.d, 1.0, s.n));
  const double one_row = static_cast<double>(runs * m.positions) * s.d;
  m.heads = static_cast<std::size_t>(std::clamp(budget / (256 * one_row), 1.0, s.heads));
  m.rows = static_cast<std::size_t>(
      std::clamp(budget / (one_row * static_cast<double>(m.heads)), 1.0, static_cast<double>(m.positions)));
  for (std::size_t j = 0; j < m.rows; ++j)
    m.pairs += static_cast<double>(m.heads * (s.causal ? spaced_row(j, m.rows, m.positions) + 1 : m.positions));
  std::vector<double> all(runs * m.heads);
  for (std::size_t run = 0; run < runs; ++run) {
    progress.at(static_cast<double>(run) / static_cast<double>(runs), "made queries and keys");
    parallel_parts(m.heads, 1, 0, [&](std::size_t head, std::size_t) {
      const std::size_t at = run * m.heads + head;
      all[at] = measured_maximum(m.positions, static_cast<std::size_t>(s.d), seed + 2 * at, m.rows, s.causal);
    });
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(run * m.heads);
    m.largest.push_back(*std::max_element(begin, begin + static_cast<std::ptrdiff_t>(m.heads)));
  }
  std::sort(m.largest.begin(), m.largest.end());
  return m;
}

std::string score_text(double x) { return significant_text(x, 3); }

// ---- At which size half of all runs overflow ----

constexpr double longest_realistic = 1e9;  // positions

// The d, to a part in 10^6; NaN where none up to 2^60 does. Raw scores only: they grow with d.
double d_of_half(const Size& s) {
  double low = 0, high = 60;  // log2
  const auto overflows = [&](double log2_d) {
    return share_above(fp16_overflows_from / s.square(), s.pairs(), std::exp2(log2_d)) >= 0.5;
  };
  if (!overflows(high)) return std::nan("");
  if (overflows(low)) return 1;
  while (high - low > 1e-6) {
    const double middle = 0.5 * (low + high);
    (overflows(middle) ? high : low) = middle;
  }
  return std::exp2(high);
}

// "262,144", or the power of ten that no sequence will have.
std::string n_of_half(const Size& s, double x) {
  const double log_n = 0.5 * (log_pairs_of_half(x, s.d) - std::log(s.heads) + (s.causal ? std::log(2.0) : 0));
  if (log_n <= std::log(longest_realistic))
    return "n = " + count_text(std::max<std::int64_t>(1, std::llround(std::exp(log_n))));
  return "no realistic n (10^" + significant_text(log_n / std::log(10.0), 3) + ")";
}

Panel panel_of(const Size& s, const Measured& m, bool by_sigma) {
  Panel p;
  p.title = by_sigma ? "by the standard deviation of the entries" : "by the sequence length";
  p.x = {by_sigma ? "sigma" : "positions n", "", AxisScale::log2, {}, {}, {}, {}};
  p.y = {"largest |q.k|, median of runs", "", AxisScale::log2, {}, {}, {}, {}};
  Series raw{"q.k", Draw::line, {}, {}, {}, {}, {}, vermilion}, scaled = raw, points = raw;
  scaled.name = "after 1/sqrt(d)", scaled.colour = blue;
  points.name = "measured", points.draw = Draw::points, points.colour = ink;
  for (int k = by_sigma ? -4 : 0; k <= (by_sigma ? 10 : 20); ++k) {
    Size at = s;
    (by_sigma ? at.sigma : at.n) = std::ldexp(1.0, k);
    const double x = at.square() * median_maximum(at.pairs(), s.d);
    for (Series* line : {&raw, &scaled}) line->x.push_back(std::ldexp(1.0, k));
    raw.y.push_back(x), scaled.y.push_back(x / std::sqrt(s.d));
  }
  points.x = {by_sigma ? s.sigma : static_cast<double>(m.positions)}, points.y = {s.square() * m.median()};
  p.series = {raw, scaled, points};
  p.marks = {{Along::y, 65504, "FP16 ends at 65504", grey}};
  return p;
}

}  // namespace

Outcome attention_size(const Parameters& parameters, Progress& progress) {
  for (const char* name : {"q", "k", "kv_heads", "layout", "scale", "longest"})
    if (parameters.is_given(name))
      throw Error(std::string(name) + "= has no meaning for made queries and keys (d=, n=, sigma=, heads=, mask=)");
  const Size s{static_cast<double>(parameters.integer("d")), static_cast<double>(parameters.integer("n")),
               parameters.real("sigma"), std::max(1.0, static_cast<double>(parameters.integer("heads"))),
               parameters.text("mask") == "causal"};
  const Measured m = measure(s, parameters, progress);
  const double root = std::sqrt(s.d), pairs = s.pairs();
  const double leading = std::sqrt(2 * std::log(pairs)) * root, normal = normal_median(pairs, s.d),
               median = median_maximum(pairs, s.d), at_measured = median_maximum(m.pairs, s.d);

  Outcome out;
  const std::string which = std::string(s.causal ? "causal" : "all pairs") +
                            (s.heads > 1 ? ", " + significant_text(s.heads, 10) + " heads" : "");
  out.data = "normal numbers made here, d = " + std::to_string(parameters.integer("d")) +
             ", n = " + std::to_string(parameters.integer("n")) + " (" + which +
             "), sigma = " + significant_text(s.sigma, 6);
  Table sizes{
      "size",
      "The largest |q.k| of one run: in closed form and measured",
      {text_column("score"), real_column("sqrt(2 ln N)", "", 4), real_column("normal, median", "", 4),
       real_column("products, median", "", 4), real_column("measured, median", "", 4), real_column("lowest", "", 4),
       real_column("highest", "", 4), real_column("products, for the measured pairs", "", 4),
       real_column("runs that overflow", "%", 3), real_column("measured runs that overflow", "%", 3)},
      {},
      "pairs N: " + significant_text(pairs, 6) +
          "; sqrt(2 ln N): sigma^2 sqrt(d) times that; normal: exact for N independent normal scores; "
          "products: with the tails of a sum of d products; measured runs: " +
          std::to_string(m.largest.size()) + ", pairs in each: " + significant_text(m.pairs, 6) +
          "; a score overflows from 65520 on",
      {}};
  Table halves{"half",
               "Where half of all runs would overflow FP16, the other sizes as they are",
               {text_column("score"), real_column("sigma", "", 4), real_column("d", "", 4), text_column("n")},
               {},
               "a dash: no d up to 2^60, or, after 1/sqrt(d), none by d itself, which changes only the tails there",
               {}};
  double sigma_of_half[2] = {}, shares[2] = {};
  std::string n_texts[2];
  const double d_half = d_of_half(s);
  for (const int scaled : {0, 1}) {
    const double factor = scaled == 1 ? s.square() / root : s.square(), end = fp16_overflows_from / factor;
    const std::string name = scaled == 1 ? "after 1/sqrt(d)" : "q.k";
    shares[scaled] = share_above(end, pairs, s.d);
    sigma_of_half[scaled] = s.sigma * std::sqrt(end / median);
    n_texts[scaled] = n_of_half(s, end);
    sizes.add({name, factor * leading, factor * normal, factor * median, factor * m.median(),
               factor * m.largest.front(), factor * m.largest.back(), factor * at_measured, 100 * shares[scaled],
               100 * m.share_from(end)});
    halves.add({name, sigma_of_half[scaled], scaled == 1 ? Cell{} : Cell{d_half}, n_texts[scaled]});
  }
  out.tables = {sizes, halves};
  const double largest = s.square() * median;
  const std::string verdict = shares[0] >= 0.5   ? "overflows FP16 in "
                              : shares[0] > 1e-6 ? "mostly stays below the end of FP16 and overflows in "
                                                 : "does not overflow FP16: ";
  out.finding = "With d = " + std::to_string(parameters.integer("d")) + ", n = " + count_text(parameters.integer("n")) +
                " (" + which + ") and sigma = " + significant_text(s.sigma, 6) + " the largest |q.k| is about " +
                score_text(largest) + " (measured " + score_text(s.square() * m.median()) +
                (m.pairs < pairs ? " over a part of the pairs" : "") + "), which " + verdict +
                (shares[0] > 1e-6 ? percent_text(shares[0]) + " of runs"
                                  : "it is " + percent_text(largest / 65504) + " of 65504") +
                "; after 1/sqrt(d) it is " + score_text(largest / root) + ", and " +
                (shares[1] > 1e-6 ? percent_text(shares[1]) + " of runs overflow" : "none overflows") +
                "; half of all runs overflow from about sigma = " + significant_text(sigma_of_half[0], 3) + " on (" +
                significant_text(sigma_of_half[1], 3) + " when scaled first), at " +
                (std::isnan(d_half) ? std::string("no realistic d") : "d = " + significant_text(d_half, 3)) +
                " and at " + n_texts[0] + ".";
  constexpr double good = 0.05;
  const double thin = 1 - normal / median, off = at_measured / m.median() - 1;
  out.notes.push_back("The normal approximation is " + percent_text(std::fabs(thin), 2) +
                      (thin >= 0 ? " below" : " above") + " the form with the tails of products" +
                      (std::fabs(thin) > good ? ": at d = " + std::to_string(parameters.integer("d")) +
                                                    " it is not good, because a sum of few products has more in its "
                                                    "middle and in its tails than a normal number."
                                              : "."));
  // Half of the runs lie above a median, up to two standard errors.
  const double excess = m.share_from(at_measured) - 0.5;
  const bool differs = std::fabs(off) > good && excess * excess > 1 / static_cast<double>(m.largest.size());
  out.notes.push_back("The closed form is " + percent_text(std::fabs(off), 2) + (off >= 0 ? " above" : " below") +
                      " the measured median" +
                      (differs ? ": it takes scores as independent, but those of one "
                                 "query or key share its length, the more the smaller d; believe the measurement."
                               : "."));
  if (parameters.integer("d") < 8 || pairs < 16)
    out.notes.push_back(
        "The tails of products are a saddle-point approximation: with so few products or scores its "
        "shares are off by some percent, and its sigma by up to a tenth.");
  if (m.pairs < pairs)
    out.notes.push_back("Measured on " + count_text(static_cast<std::int64_t>(m.rows)) + " queries and " +
                        count_text(static_cast<std::int64_t>(m.positions)) + " keys of " +
                        count_text(static_cast<std::int64_t>(m.heads)) + (m.heads == 1 ? " head" : " heads") +
                        ", and compared with the closed form for as many pairs.");
  out.notes.push_back(
      "Training lines queries and keys up: scores of trained models are larger than those of "
      "independent numbers of the same size.");
  out.plots = {{"size",
                "The largest |q.k| is about " + score_text(largest) +
                    "; half of all runs overflow from about sigma = " + significant_text(sigma_of_half[0], 3) + " on",
                out.data.text,
                {panel_of(s, m, false), panel_of(s, m, true)},
                2,
                0,
                ""}};
  return out;
}

}  // namespace analysis
