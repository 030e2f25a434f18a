#include "narrow/dot/telling_test.hpp"

#include <algorithm>
#include <functional>

#include "narrow/base/random.hpp"

namespace narrow::detail {

namespace {

constexpr std::size_t tests_at_once = 64;  // tests that are tried at once

Code code_in(double x, const Format& f) {
  if (f == "tf32"_fmt) return std::bit_cast<std::uint32_t>(static_cast<float>(x));
  return encode(x, f, Cast{.overflow = Overflow::saturate});
}

// Columns of B for a K. Half of them are three numbers and zeros: a pair that cancels, and a small one that survives only
// where it does not meet the pair in between. The others are numbers of spread exponents.
std::vector<Code> test_columns(std::size_t k, const Format& f, std::uint64_t seed) {
  std::vector<Code> b(k * tests_at_once, code_in(0, f));
  auto random = [&, n = std::uint64_t{0}](std::uint64_t below) mutable { return random_bits(seed, n++) % below; };
  const int top = std::min(f == "tf32"_fmt ? 12 : f.max_exponent(), 12), low = std::max(f.min_quantum_exponent(), -40);
  for (std::size_t j = 0; j < tests_at_once; ++j) {
    if (j % 2 == 0) {
      const std::size_t p = random(k), q = random(k), r = random(k);
      const int large = top - static_cast<int>(random(4)), small = large - 10 - static_cast<int>(random(18));
      if (p == q || q == r || p == r) continue;
      b[p * tests_at_once + j] = code_in(std::ldexp(1, large), f);
      b[q * tests_at_once + j] = code_in(-std::ldexp(1, large), f);
      b[r * tests_at_once + j] = code_in(std::ldexp(1 + static_cast<double>(random(4)) / 4, std::max(small, low)), f);
      continue;
    }
    const int width = 1 + static_cast<int>(random(20));
    for (std::size_t n = 0; n < k; ++n) {
      const double x = std::ldexp(1 + static_cast<double>(random(256)) / 256, std::max(top / 2 - static_cast<int>(random(static_cast<std::uint64_t>(width))), low));
      b[n * tests_at_once + j] = code_in(random(2) == 0 ? x : -x, f);
    }
  }
  return b;
}

struct Best {
  std::size_t groups = 1, k = 0, column = 0;
  std::vector<Code> b;
  std::vector<Code> answers;  // by candidate
};

void try_length(const ValidateRequest& r, const std::vector<Candidate>& candidates, std::size_t k, std::uint64_t seed, Best& best) {
  const std::vector<Code> b = test_columns(k, r.b_format, seed), a(k, code_in(1, r.a_format));
  std::vector<std::vector<Code>> results(candidates.size(), std::vector<Code>(tests_at_once));
  GemmOptions options;
  options.output = r.d_format;
  using View = MatrixView<const Code>;
  for (std::size_t c = 0; c < candidates.size(); ++c)
    gemm(*candidates[c].model, candidates[c].plan, View{a.data(), 1, k}, View{b.data(), k, tests_at_once}, View{},
         MatrixView<Code>{results[c].data(), 1, tests_at_once}, options);
  for (std::size_t j = 0; j < tests_at_once; ++j) {
    std::vector<Code> answers;
    for (const auto& row : results) answers.push_back(row[j]);
    std::vector<Code> sorted = answers;
    std::sort(sorted.begin(), sorted.end());
    const auto groups = static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
    if (groups <= best.groups) continue;
    best = {groups, k, j, {}, std::move(answers)};
    for (std::size_t n = 0; n < k; ++n) best.b.push_back(b[n * tests_at_once + j]);
  }
}

}  // namespace

std::optional<TellingTest> telling_test(const ValidateRequest& r, const std::vector<Candidate>& all) {
  constexpr std::size_t most = 24, longest = 8192;
  std::vector<Candidate> candidates(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size())));
  if (candidates.size() < 2 || candidates[0].model->is_integer()) return {};
  Best best;
  // Short ones first: a longer one must tell more apart. Longer than the data only where nothing else tells: cuts of K
  // that lie beyond it.
  const std::size_t given = std::min(r.a.cols, longest);
  for (std::size_t k = 4, before = 0; best.groups < candidates.size() && k <= longest; k *= 2) {
    const std::size_t length = before < given ? std::min(k, given) : k;
    if (before >= given && best.groups > 1) break;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) try_length(r, candidates, length, seed * 1000 + length, best);
    before = length;
  }
  if (best.groups < 2) return {};
  TellingTest test{best.b, {}};
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    auto answer = std::find_if(test.answers.begin(), test.answers.end(), [&](const auto& x) { return x.code == best.answers[c]; });
    if (answer == test.answers.end()) answer = test.answers.insert(test.answers.end(), {best.answers[c], {}});
    answer->candidates.push_back(candidates[c]);
  }
  return test;
}

std::string differences_of(const std::vector<Candidate>& candidates) {
  struct Property {
    const char* name;
    std::function<std::string(const Candidate&)> of;
  };
  static const Property properties[] = {
      {"accumulator", [](const Candidate& c) { return std::string(c.model->accumulator.name); }},
      {"kind of sum", [](const Candidate& c) { return std::string(c.model->generation == Generation::software ? unit_name(c.model->unit) : "tensor core"); }},
      {"products a step", [](const Candidate& c) { return c.model->generation == Generation::software ? "" : std::to_string(c.model->products_per_step); }},
      {"bits kept below the largest exponent", [](const Candidate& c) { return c.model->fraction_bits == 0 ? "" : std::to_string(c.model->fraction_bits); }},
      {"plan", [](const Candidate& c) { return plan_text(c.plan); }},
  };
  constexpr std::size_t most = 6;
  std::string text;
  for (const Property& property : properties) {
    std::vector<std::string> values;
    for (const Candidate& c : candidates) {
      const std::string value = property.of(c);
      if (!value.empty() && std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
    if (values.size() < 2) continue;
    text += (text.empty() ? "" : "; ") + std::string(property.name) + " (";
    for (std::size_t n = 0; n < values.size() && n < most; ++n) text += (n == 0 ? "" : ", ") + values[n];
    text += values.size() > most ? ", and " + std::to_string(values.size() - most) + " more)" : ")";
  }
  return text;
}

}  // namespace narrow::detail
