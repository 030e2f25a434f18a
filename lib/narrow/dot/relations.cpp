#include "narrow/dot/relations.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>

namespace narrow::detail {

namespace {

// Root mean square distance of two sets of outputs over that of the found ones, where both are finite. The worst of every
// sixteen are left out: a corrupted word or a lost corner must not hide what the rest is.
struct Fit {
  double error = std::numeric_limits<double>::infinity();
  std::size_t compared = 0;
};

template <class Predict>
Fit fit_of(const ValueSample& s, const Predict& predict) {
  std::vector<std::pair<double, double>> squares;  // of the distance and of what was found
  for (std::size_t i = 0; i < s.rows.size(); ++i)
    for (std::size_t j = 0; j < s.cols.size(); ++j) {
      const double found = s.found[s.at(i, j)], expected = predict(i, j);
      if (std::isfinite(found) && std::isfinite(expected)) squares.emplace_back((found - expected) * (found - expected), found * found);
    }
  Fit fit{std::numeric_limits<double>::infinity(), squares.size()};
  if (squares.empty()) return fit;
  std::sort(squares.begin(), squares.end());
  squares.resize(squares.size() - squares.size() / 16);
  double off = 0, size = 0;
  for (const auto& [distance, value] : squares) off += distance, size += value;
  fit.error = off == 0 ? 0 : size == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(off / size);
  return fit;
}

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Sums of FP8 on Hopper are off by some percent, those of BF16 accumulators by more; another relation has to be far better
// than the product itself, and good: within that, or within what rounding to the output loses.
constexpr double sums_are_off = 0.03, far_better = 0.2;
double rounding_of(const Format& output) { return output.is_integer() ? 0 : std::ldexp(1.0, -output.mantissa_bits); }
constexpr std::size_t fewest = 4;  // outputs below which nothing is said by value

std::string number_text(double x) {
  char text[32];  // to_chars knows no locale
  return {text, std::to_chars(text, text + sizeof text, x, std::chars_format::general, 6).ptr};
}

// A factor as people would write it, and its value where that is what they meant: 2^-3, -1, 3, 1/7, 1/sqrt(K).
struct Factor {
  double value;
  std::string text;
  bool plain;
};
Factor plain_factor(double x, std::size_t k) {
  constexpr double off = 2e-3;  // rounding of the outputs that it was taken from
  const auto near = [&](double y) { return std::abs(x - y) <= off * std::abs(y); };
  const double sign = x < 0 ? -1 : 1, size = std::abs(x);
  const std::string minus = x < 0 ? "-" : "";
  const int e = static_cast<int>(std::lround(std::log2(size)));
  if (near(sign * std::ldexp(1, e))) return {sign * std::ldexp(1, e), minus + (e == 0 ? "1" : e > 0 && e <= 10 ? std::to_string(1 << e) : "2^" + std::to_string(e)), true};
  const double root = 1 / std::sqrt(static_cast<double>(k));
  if (near(sign * root)) return {sign * root, minus + "1/sqrt(K)", true};
  if (near(sign / static_cast<double>(k))) return {sign / static_cast<double>(k), minus + "1/K", true};
  for (const double n : {3., 5., 6., 7., 9., 10., 12., 100., 255.}) {
    if (near(sign * n)) return {sign * n, minus + number_text(n), true};
    if (near(sign / n)) return {sign / n, minus + "1/" + number_text(n), true};
  }
  return {x, number_text(x), false};
}

struct Activation {
  const char* name;
  double (*of)(double);
};
constexpr double root_2_over_pi = 0.7978845608028654;
const Activation activations[] = {
    {"relu", [](double x) { return std::max(x, 0.0); }},
    {"gelu", [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
    {"gelu_tanh", [](double x) { return 0.5 * x * (1 + std::tanh(root_2_over_pi * (x + 0.044715 * x * x * x))); }},
    {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
    {"squared relu", [](double x) { return x > 0 ? x * x : 0; }},
    {"quick gelu", [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
    {"leaky relu (slope 0.01)", [](double x) { return x > 0 ? x : 0.01 * x; }},
    {"softplus", [](double x) { return x > 30 ? x : std::log1p(std::exp(x)); }},
    {"mish", [](double x) { return x > 30 ? x : x * std::tanh(std::log1p(std::exp(x))); }},
    {"hardswish", [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"tanh", [](double x) { return std::tanh(x); }},
};

// The sums of the first products of one output, none to all of them.
struct PrefixSums {
  std::vector<double> first, squares;  // of the products up to there
  double found, c;
};

class Relations {
 public:
  Relations(const ValidateRequest& r, const ValueSample& s)
      : r_(r), s_(s), close_enough_(std::max(sums_are_off, rounding_of(r.d_format))) {
    as_asked_ = fit_of(s, [&](std::size_t i, std::size_t j) { return asked(i, j); });
    std::vector<double> sizes;
    for (const double x : s.found)
      if (std::isfinite(x) && x != 0) sizes.push_back(std::abs(x));
    if (!sizes.empty()) typical_ = median(sizes);
  }

  ValueVerdict verdict() {
    ValueVerdict v;
    v.error = as_asked_.error;
    v.is_product = as_asked_.compared < fewest || as_asked_.error <= close_enough_;
    if (as_asked_.compared < fewest || as_asked_.error <= rounding_of(r_.d_format)) return v;
    if (r_.options.function.of != nullptr) look_without_function();
    look_at_terms();
    look_at_factors();
    look_at_activations();
    // Another line's outputs are off by their own size, and one product of K by 1 / sqrt(K) of it.
    constexpr double other_line = 0.1, one_product = 0.25;
    if (as_asked_.error > other_line) look_at_order();
    if (as_asked_.error > one_product / std::sqrt(static_cast<double>(r_.a.cols))) look_at_k();
    look_at_bias();
    if (best_) {
      v.is_product = false;
      v.relation = std::move(best_);
    }
    return v;
  }

 private:
  double asked(std::size_t i, std::size_t j) const { return applied(r_, sum_of(i, j)); }
  double sum_of(std::size_t i, std::size_t j) const {  // before the function
    const std::size_t at = s_.at(i, j);
    return static_cast<double>(r_.options.alpha) * s_.sum[at] + beta() * s_.c[at];
  }
  double beta() const { return static_cast<double>(r_.options.beta); }

  // Keeps a relation that is good, and so much better than the best so far that simpler ones came first for a reason.
  void consider(double error, const std::function<Relation()>& make) {
    const double limit = best_ ? best_error_ * far_better : std::min(close_enough_, as_asked_.error * far_better);
    if (!(error < limit)) return;
    best_error_ = error;
    best_ = make();
  }
  ValidateRequest copy() const {
    ValidateRequest out = r_;
    out.progress = {};
    return out;
  }

  void look_without_function() {
    const std::string name(r_.options.function.name);
    consider(fit_of(s_, [&](std::size_t i, std::size_t j) { return sum_of(i, j); }).error, [&] {
      Relation x{"missing " + name, name + " is missing: D is the sum that it should have taken", copy()};
      x.under->options.function = {};
      return x;
    });
  }

  // C, alpha and scales that are missing or too many.
  void look_at_terms() {
    const double alpha = static_cast<double>(r_.options.alpha);
    const bool has_c = r_.c.data != nullptr && r_.options.beta != 0;
    const auto error = [&](const auto& predict) { return fit_of(s_, [&](std::size_t i, std::size_t j) { return applied(r_, predict(s_.at(i, j))); }).error; };
    if (has_c) {
      const auto with_beta = [&](double factor, const char* name, const char* sentence) {
        consider(error([&](std::size_t n) { return alpha * s_.sum[n] + factor * beta() * s_.c[n]; }), [&] {
          Relation x{name, sentence, copy()};
          if (factor == 0) x.under->c = {}, x.under->batch.c = 0;
          x.under->options.beta = static_cast<float>(factor * beta());
          return x;
        });
      };
      with_beta(0, "missing bias", "C is missing: D is the product alone");
      with_beta(2, "doubled bias", "C was added twice");
      with_beta(-1, "negated bias", "C was subtracted");
      consider(error([&](std::size_t n) { return beta() * s_.c[n]; }), [&] { return Relation{"missing product", "D is C alone: the product is missing", {}}; });
    }
    const GemmOptions& o = r_.options;
    if (!o.scale_a.values.empty() || !o.scale_b.values.empty() || !o.block_a.empty() || !o.block_b.empty())
      consider(error([&](std::size_t n) { return alpha * s_.plain[n] + beta() * s_.c[n]; }), [&] {
        Relation x{"missing scale", "the scales are missing: D is the product of the codes", copy()};
        x.under->options.scale_a = {}, x.under->options.scale_b = {}, x.under->options.block_a = {}, x.under->options.block_b = {};
        return x;
      });
    if (alpha != 1)
      consider(error([&](std::size_t n) { return s_.sum[n] + beta() * s_.c[n]; }), [&] {
        Relation x{"missing factor", "alpha is missing", copy()};
        x.under->options.alpha = 1;
        return x;
      });
    const bool all_zero = std::all_of(s_.found.begin(), s_.found.end(), [](double x) { return x == 0; });
    if (all_zero && as_asked_.error > 0) best_ = Relation{"zero", "every sampled output of D is zero, and the product is not", {}};
  }

  void look_at_factors() {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < s_.rows.size(); ++i)
      for (std::size_t j = 0; j < s_.cols.size(); ++j)
        if (const double x = asked(i, j), y = s_.found[s_.at(i, j)]; x != 0 && std::isfinite(x) && std::isfinite(y)) ratios.push_back(y / x);
    if (const double ratio = median(ratios); std::isfinite(ratio) && ratio != 0 && ratio != 1) {
      const auto error = [&](double factor) { return fit_of(s_, [&](std::size_t i, std::size_t j) { return factor * asked(i, j); }).error; };
      Factor f = plain_factor(ratio, r_.a.cols);
      constexpr double sums_round = 1e-5;  // what sums in FP32 may differ by
      if (f.plain && error(f.value) > 2 * error(ratio) + sums_round + rounding_of(r_.d_format)) f = {ratio, number_text(ratio), false};
      consider(fit_of(s_, [&](std::size_t i, std::size_t j) { return f.value * asked(i, j); }).error, [&] {
        Relation x{f.value == -1 ? "negation" : "factor", f.value == -1 ? "D is the negated product" : "D is " + f.text + " times the product: a factor that was not asked for, or one that is missing", {}};
        if (r_.options.function.of == nullptr && f.plain && static_cast<double>(static_cast<float>(f.value)) == f.value) {
          x.under = copy();
          x.under->options.alpha *= static_cast<float>(f.value), x.under->options.beta *= static_cast<float>(f.value);
        }
        return x;
      });
    }
    by_line(false, true), by_line(true, true);
  }

  // A factor, or a summand, for each row (column).
  void by_line(bool columns, bool factor) {
    const std::size_t lines = columns ? s_.cols.size() : s_.rows.size(), across = columns ? s_.rows.size() : s_.cols.size();
    if (across < fewest || lines < 2) return;
    std::vector<double> of_line(lines);
    for (std::size_t line = 0; line < lines; ++line) {
      std::vector<double> values;
      for (std::size_t n = 0; n < across; ++n) {
        const std::size_t i = columns ? n : line, j = columns ? line : n;
        const double x = asked(i, j), y = s_.found[s_.at(i, j)];
        if (std::isfinite(x) && std::isfinite(y) && (!factor || x != 0)) values.push_back(factor ? y / x : y - x);
      }
      of_line[line] = median(values);
      if (factor && of_line[line] == 0) return;  // zeros are no scale
    }
    // Where most lines are as asked, something happened to the others, and it was no scale.
    const auto as_asked = [&](double v) { return std::abs(factor ? v - 1 : v / typical_) < 1e-3; };
    if (2 * std::count_if(of_line.begin(), of_line.end(), as_asked) > static_cast<std::ptrdiff_t>(lines)) return;
    const std::string line = columns ? "column" : "row";
    const Fit fit = fit_of(s_, [&](std::size_t i, std::size_t j) {
      const double v = of_line[columns ? j : i];
      return factor ? v * asked(i, j) : asked(i, j) + v;
    });
    consider(fit.error, [&] {
      return factor ? Relation{line + " scale", "every " + line + " of D is the product's times a factor of its own: scales by " + line + " that were not given", {}}
                    : Relation{line + " bias", "every " + line + " of D is the product's plus a number of its own: a bias by " + line + " that was not given", {}};
    });
  }

  void look_at_bias() {
    std::vector<double> differences;
    for (std::size_t i = 0; i < s_.rows.size(); ++i)
      for (std::size_t j = 0; j < s_.cols.size(); ++j)
        if (const double x = s_.found[s_.at(i, j)] - asked(i, j); std::isfinite(x)) differences.push_back(x);
    const double shift = median(differences);
    if (std::isfinite(shift) && shift != 0)
      consider(fit_of(s_, [&](std::size_t i, std::size_t j) { return asked(i, j) + shift; }).error,
               [&] { return Relation{"constant", "D is the product plus " + number_text(shift), {}}; });
    by_line(true, false), by_line(false, false);
  }

  void look_at_activations() {
    // Far from zero they are alike: the first whose fit no other betters by a tenth.
    const Activation* best = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Activation& f : activations)
      if (const double error = fit_of(s_, [&](std::size_t i, std::size_t j) { return f.of(sum_of(i, j)); }).error; error < 0.9 * least) best = &f, least = error;
    if (best == nullptr || !bends_alike(*best)) return;
    consider(least, [&] {
      Relation x{best->name, std::string("D is ") + best->name + " of the product: an activation that was not asked for", {}};
      if (x.name == "relu") x.under = copy(), x.under->options.function = {}, x.finish = Finish::relu;
      return x;
    });
  }

  // Large outputs pass nearly unchanged and tell how far off sums are; where the function bends it has to be as good.
  bool bends_alike(const Activation& f) const {
    constexpr double large = 8, times = 8;
    std::vector<std::pair<double, double>> off;  // by the sum
    for (std::size_t i = 0; i < s_.rows.size(); ++i)
      for (std::size_t j = 0; j < s_.cols.size(); ++j)
        if (const double x = sum_of(i, j), y = s_.found[s_.at(i, j)]; std::isfinite(x) && std::isfinite(y)) off.emplace_back(x, std::abs(y - f.of(x)));
    std::sort(off.begin(), off.end());
    const std::size_t top = off.size() - off.size() / 4;
    if (top == off.size() || off[top].first < large || std::abs(f.of(off.back().first) - off.back().first) > 1e-3 * off.back().first) return true;
    const auto typical = [&](std::size_t begin, std::size_t end) {
      std::vector<double> part;
      for (std::size_t n = begin; n < end; ++n) part.push_back(off[n].second);
      std::sort(part.begin(), part.end());
      return part[part.size() * 3 / 4];
    };
    return typical(0, top) <= times * typical(top, off.size());
  }

  // Transposed, or rows or columns that stand elsewhere.
  void look_at_order() {
    const std::size_t rows = r_.d.rows, cols = r_.d.cols;
    if (rows == cols && rows > 1) {
      const ValueSample t = sample_values(r_, s_.item, s_.cols, s_.rows);
      consider(fit_of(s_, [&](std::size_t i, std::size_t j) {
                 const std::size_t at = t.at(j, i);
                 return output_of(r_, t.sum[at], t.c[at]);
               }).error, [&] {
        Relation x{"transpose", "D is the transposed product", copy()};
        x.under->d.layout = r_.d.layout == Layout::row_major ? Layout::column_major : Layout::row_major;
        return x;
      });
    }
    for (const bool columns : {false, true})
      if (const std::ptrdiff_t shift = likeliest_shift(columns); shift != 0)
        look_at_shift(columns, static_cast<std::size_t>(std::abs(shift)), shift > 0);
  }

  // By which distance lines of D fit lines of the product best: two lines across, and all distances up to half of them.
  std::ptrdiff_t likeliest_shift(bool columns) const {
    constexpr std::size_t most_lines = 2048, most_shift = 512;
    const std::size_t total = columns ? r_.d.cols : r_.d.rows, across = columns ? r_.d.rows : r_.d.cols;
    const std::size_t count = std::min(total, most_lines), furthest = std::min(count / 2, most_shift);
    std::vector<std::size_t> lines(count);
    for (std::size_t n = 0; n < count; ++n) lines[n] = n;
    const std::vector<std::size_t> two = spread(across, 2, 1);
    const ValueSample x = sample_values(r_, s_.item, columns ? two : lines, columns ? lines : two);
    const auto at = [&](std::size_t line, std::size_t other) { return columns ? x.at(other, line) : x.at(line, other); };
    std::ptrdiff_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (auto shift = -static_cast<std::ptrdiff_t>(furthest); shift <= static_cast<std::ptrdiff_t>(furthest); ++shift) {
      double off = 0;
      std::size_t compared = 0;
      for (std::size_t n = 0; n < count; ++n)
        if (const auto from = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(n) + shift); from < count)
          for (std::size_t other = 0; other < two.size(); ++other) {
            const double expected = output_of(r_, x.sum[at(from, other)], x.c[at(from, other)]);
            if (const double distance = std::abs(x.found[at(n, other)] - expected); std::isfinite(distance)) off += distance, ++compared;
          }
      if (compared != 0 && off / static_cast<double>(compared) < least) least = off / static_cast<double>(compared), best = shift;
    }
    return best;
  }

  // Line i of D is line i + shift (down) or i - shift of the product.
  void look_at_shift(bool columns, std::size_t shift, bool down) {
    const std::size_t total = columns ? r_.d.cols : r_.d.rows;
    if (shift * 2 > total) return;
    ValueSample part = s_;
    std::vector<std::size_t>& lines = columns ? part.cols : part.rows;
    std::erase_if(lines, [&](std::size_t line) { return down ? line + shift >= total : line < shift; });
    // Few lines are enough to rule it out, and each costs a line of products.
    constexpr std::size_t lines_asked = 8;
    const auto thin = [&](std::vector<std::size_t>& places) {
      if (places.size() <= lines_asked) return;
      for (std::size_t n = 0; n < lines_asked; ++n) places[n] = places[(2 * n + 1) * places.size() / (2 * lines_asked)];
      places.resize(lines_asked);
    };
    thin(lines);
    std::vector<std::size_t>& others = columns ? part.rows : part.cols;
    thin(others);
    if (lines.empty() || lines.size() * others.size() < fewest) return;
    std::vector<std::size_t> from = lines;
    for (std::size_t& line : from) line = down ? line + shift : line - shift;
    const ValueSample found = sample_values(r_, s_.item, part.rows, part.cols);
    const ValueSample moved = sample_values(r_, s_.item, columns ? part.rows : from, columns ? from : part.cols);
    const Fit fit = fit_of(found, [&](std::size_t i, std::size_t j) {
      const std::size_t at = moved.at(i, j);
      return output_of(r_, moved.sum[at], moved.c[at]);
    });
    consider(fit.error, [&] {
      const std::string line = columns ? "column" : "row", index = columns ? "j" : "i";
      Relation x{line + " shift", line + " " + index + " of D is " + line + " " + index + (down ? " + " : " - ") + std::to_string(shift) + " of the product: a wrong " + line + " offset", {}};
      const std::size_t kept = total - shift;
      if (r_.batch.count == 1 && !columns) {
        x.under = rows_of(copy(), down ? shift : 0, kept);
        x.under->d = rows_of(copy(), down ? 0 : shift, kept).d;
      } else if (r_.batch.count == 1) {
        x.under = cols_of(copy(), down ? shift : 0, kept);
        x.under->d = cols_of(copy(), down ? 0 : shift, kept).d;
      }
      return x;
    });
  }

  // A part of K that is missing at its end or at its start: found on single outputs, by the place where the sum of the
  // first products is D.
  void look_at_k() {
    const std::size_t k = r_.a.cols;
    if (k < 2) return;
    // Half of the outputs find the place, the others judge it: with so many places one fits a few outputs by chance.
    constexpr std::size_t outputs = 16;
    std::vector<PrefixSums> finders, judges;
    for (std::size_t n = 0; n < outputs; ++n) {
      const std::size_t i = n * s_.rows.size() / outputs, j = (n * 5 + 1) % s_.cols.size(), at = s_.at(i, j);
      if (!std::isfinite(s_.found[at]) || !std::isfinite(s_.sum[at])) continue;
      PrefixSums x{{0}, {0}, s_.found[at], s_.c[at]};
      for (const double p : products_of(r_, s_.item, s_.rows[i], s_.cols[j])) x.first.push_back(x.first.back() + p), x.squares.push_back(x.squares.back() + p * p);
      if (x.squares.back() > 0) (n % 2 == 0 ? finders : judges).push_back(std::move(x));
    }
    if (finders.size() < fewest || judges.size() < fewest) return;
    for (const bool tail : {true, false}) {
      std::size_t best = 0;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t cut = 1; cut < k; ++cut)
        if (const double off = off_at(finders, cut, tail); off < least) least = off, best = cut;
      const double off = off_at(judges, best, tail), whole = off_at(judges, tail ? k : 0, tail);
      if (!(off < far_better * whole)) continue;
      consider(off, [&] {
        const std::size_t missing = tail ? k - best : best;
        Relation x{tail ? "missing tail" : "missing head",
                   std::string("the ") + (tail ? "last " : "first ") + std::to_string(missing) + " of " + std::to_string(k) + " products are missing: K " + (tail ? "ends at " : "starts at ") + std::to_string(best), {}};
        if (tail && r_.options.scale_a.values.empty() && r_.options.scale_b.values.empty() && r_.options.block_a.empty() && r_.options.block_b.empty())
          x.under = copy(), x.under->a.cols = best, x.under->b.rows = best;
        return x;
      });
    }
  }

  // Root mean square distance of D from the sum of the first (tail) or last products up to a cut, in typical sums of so
  // many products.
  double off_at(const std::vector<PrefixSums>& sums, std::size_t cut, bool tail) const {
    double off = 0;
    for (const PrefixSums& x : sums) {
      const double part = tail ? x.first[cut] : x.first.back() - x.first[cut];
      const double typical = std::sqrt(tail ? x.squares[cut] : x.squares.back() - x.squares[cut]);
      const double alpha = static_cast<double>(r_.options.alpha), d = (output_of(r_, part, x.c) - x.found) / (std::abs(alpha) * typical);
      if (std::isnan(d)) continue;  // 0 / 0
      off += d * d;
    }
    return std::sqrt(off / static_cast<double>(sums.size()));
  }

  const ValidateRequest& r_;
  const ValueSample& s_;
  const double close_enough_;
  double typical_ = 1;  // size of an output
  Fit as_asked_;
  std::optional<Relation> best_;
  double best_error_ = 0;
};

}  // namespace

ValueVerdict look_at_values(const ValidateRequest& r) {
  constexpr std::size_t side = 16;
  const auto look = [&](std::size_t item, std::uint64_t seed) {
    const ValueSample s = sample_values(r, item, spread(r.d.rows, side, seed), spread(r.d.cols, side, seed + 1));
    return Relations(r, s).verdict();
  };
  ValueVerdict verdict = look(r.batch.count / 2, 0);
  // What is said of all of D has to hold at other places too, and in other items.
  if (verdict.relation)
    for (const auto& [item, seed] : {std::pair(std::size_t{0}, std::uint64_t{2}), std::pair(r.batch.count - 1, std::uint64_t{4})})
      if (const ValueVerdict again = look(item, seed); !again.relation || again.relation->name != verdict.relation->name) {
        verdict.relation.reset();
        break;
      }
  return verdict;
}

}  // namespace narrow::detail
