#include "analysis/recordings/recorded_runs.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/recordings/gradients.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/watched_counts.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/strict_json.hpp"

namespace analysis {

using namespace narrow;
using Json = nlohmann::json;

namespace {

constexpr double usual_rate = 6e-4;  // of data/gpt/record.py

double number_of(const Json& about, const char* key) {
  const auto found = about.find(key);
  return found != about.end() && found->is_number() ? found->get<double>() : std::nan("");
}
std::int64_t integer_of(const Json& about, const char* key, std::int64_t otherwise) {
  const double x = number_of(about, key);
  return std::fabs(x) < 1e15 ? static_cast<std::int64_t>(x) : otherwise;
}
std::string text_of(const Json& about, const char* key, const std::string& otherwise) {
  const auto found = about.find(key);
  return found != about.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

bool is_number(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Where the first word of a dotted name that is a number ends; 0 where none is.
std::size_t end_of_number(std::string_view name) {
  for (std::size_t from = 0; from <= name.size();) {
    const std::size_t end = std::min(name.find('.', from), name.size());
    if (is_number(name.substr(from, end - from))) return end;
    from = end + 1;
  }
  return 0;
}

}  // namespace

double RecordedRun::final_loss(std::size_t of_first) const {
  constexpr std::size_t last = 20;
  const std::size_t end = std::min(of_first, losses.size()), n = std::min(last, end);
  double mean = 0;
  for (std::size_t i = end - n; i < end; ++i) mean += losses[i].loss / static_cast<double>(n);
  return n == 0 || !std::isfinite(mean) ? std::nan("") : mean;
}

std::optional<std::int64_t> RecordedRun::first_not_finite() const {
  for (const WatchedLoss& l : losses)
    if (!std::isfinite(l.loss)) return l.step;
  return {};
}

int RecordedRun::loss_bits() const {
  int most = 0;
  for (const narrow::WatchedLoss& l : losses) {
    if (!std::isfinite(l.loss) || l.loss == 0) continue;
    int exponent = 0, bits = 0;
    for (double rest = std::frexp(std::abs(l.loss), &exponent); rest > 0; rest -= std::floor(rest)) rest *= 2, ++bits;
    most = std::max(most, bits);
  }
  return most;
}

std::int64_t RecordedRun::skipped() const {
  return !scaler ? 0 : std::count(scaler->log.found_inf.begin(), scaler->log.found_inf.end(), 1);
}

RecordedRun recorded_run(const std::string& folder) {
  const WatchedRun run(folder);
  const std::string path = run.folder() + "/run.json";
  const Json about = parse_strict_json<Json>(read_text(path), visible(path));
  RecordedRun r;
  r.folder = run.folder(), r.name = file_text(run.folder());
  r.recipe = text_of(about, "recipe", r.name), r.remedy = text_of(about, "remedy", "none");
  r.seed = integer_of(about, "seed", 1), r.steps = integer_of(about, "steps", 0);
  r.tokens_per_step = integer_of(about, "tokens_per_step", 0), r.parameters = integer_of(about, "parameters", 0);
  r.rate = number_of(about, "rate"), r.tokens_per_second = number_of(about, "tokens_per_second");
  r.peak_gib = number_of(about, "peak_gib"), r.held_out_loss = number_of(about, "held_out_loss");
  r.arithmetic = text_of(about, "arithmetic", "");
  const auto busy = about.find("machine_was_busy");
  r.was_busy = busy != about.end() && *busy == true;
  r.has_other_rate = std::isfinite(r.rate) && r.rate != usual_rate;
  r.losses = run.losses();
  if (run.has_scaler()) r.scaler = run.scale_log();
  return r;
}

std::string RecordedRun::end_text() const {
  const auto broke = first_not_finite();
  const std::string at = broke ? "step " + std::to_string(*broke) : "";
  if (std::isnan(final_loss())) return broke ? "gives Inf or NaN at " + at : "logged no loss";
  return "ends at a loss of " + fixed_text(final_loss(), 2) + (broke ? " after Inf or NaN at " + at : "");
}

std::string RecordedRun::size_text() const {
  return parameters > 0 ? "at " + significant_text(static_cast<double>(parameters) / 1e6, 3) + " M parameters"
                        : "in " + name;
}

namespace {

double range_of(const std::vector<const RecordedRun*>& runs, double (*value)(const RecordedRun&),
                bool as_share = false) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const RecordedRun* r : runs) {
    const double x = value(*r);
    if (!std::isfinite(x)) return std::nan("");
    low = std::min(low, x), high = std::max(high, x);
  }
  return as_share ? (high - low) / low : high - low;
}

}  // namespace

SeedSpread spread_of_seeds(const std::vector<RecordedRun>& runs) {
  constexpr double near_best = 1.05;
  SeedSpread farthest{{}, std::nan(""), std::nan(""), std::nan("")};
  for (const RecordedRun& first : runs) {
    if (!first.is_usual_but_seed()) continue;
    SeedSpread own;
    std::vector<std::int64_t> seeds;
    double best = HUGE_VAL;  // of as many steps
    for (const RecordedRun& r : runs) {
      if (!r.is_usual_but_seed() || r.losses.size() != first.losses.size()) continue;
      if (r.final_loss() < best) best = r.final_loss();
      if (r.recipe != first.recipe) continue;
      if (std::find(seeds.begin(), seeds.end(), r.seed) != seeds.end()) continue;
      seeds.push_back(r.seed), own.runs.push_back(&r);
    }
    const bool all_train = std::all_of(own.runs.begin(), own.runs.end(),
                                       [&](const RecordedRun* r) { return r->final_loss() <= near_best * best; });
    if (!own.is_known() || !all_train) continue;
    own.final_loss = range_of(own.runs, [](const RecordedRun& r) { return r.final_loss(); });
    own.held_out = range_of(own.runs, [](const RecordedRun& r) { return r.held_out_loss; });
    own.speed_share = range_of(
        own.runs, [](const RecordedRun& r) { return r.was_busy ? std::nan("") : r.tokens_per_second; }, true);
    std::vector<std::string> recipes = std::move(farthest.recipes);
    if (std::find(recipes.begin(), recipes.end(), first.recipe) == recipes.end()) recipes.push_back(first.recipe);
    if (!farthest.is_known() || own.final_loss > farthest.final_loss) farthest = own;
    farthest.recipes = std::move(recipes);
  }
  return farthest;
}

Compared compare(const RecordedRun& run, const RecordedRun& with, const SeedSpread& seeds) {
  const std::size_t steps = std::min(run.losses.size(), with.losses.size());
  const double ends = run.final_loss(steps), other = with.final_loss(steps);
  Compared c;
  c.final_loss = ends - other;
  c.held_out = run.losses.size() == with.losses.size() ? run.held_out_loss - with.held_out_loss : std::nan("");
  c.final_in_spreads = c.final_loss / seeds.final_loss, c.held_out_in_spreads = c.held_out / seeds.held_out;
  if (steps > 0 && std::isnan(ends) != std::isnan(other)) {
    c.verdict = std::isnan(ends) ? Difference::above : Difference::below;
    return c;
  }
  std::size_t above = 0, below = 0, known = 0;
  for (const double x : {c.final_in_spreads, c.held_out_in_spreads})
    if (std::isfinite(x)) ++known, above += x > 1, below += x < -1;
  c.verdict = known == 0                 ? Difference::unknown
              : above == known           ? Difference::above
              : below == known           ? Difference::below
              : above == 0 && below == 0 ? Difference::within
                                         : Difference::undecided;
  return c;
}

std::string text_of(Difference verdict) {
  constexpr const char* words[] = {"within the seeds", "above", "below", "not decided", "not known"};
  return words[static_cast<std::size_t>(verdict)];
}

bool is_recorded(const std::string& folder) {
  const std::vector<std::string> known = recorded_folders();
  return std::find(known.begin(), known.end(), folder) != known.end();
}

std::vector<RecordedRun> recorded_runs() {
  std::vector<RecordedRun> all;
  for (const std::string& folder : recorded_folders()) all.push_back(recorded_run(folder));
  return all;
}

const RecordedRun* find_run(const std::vector<RecordedRun>& runs, std::string_view name) {
  for (const RecordedRun& r : runs)
    if (r.name == name) return &r;
  return nullptr;
}

WatchedTensor made_tensor(std::int64_t step, const std::string& name, int centre) {
  const Values v = made_gradients(128, 128, centre, 1);
  const ExponentHistogram h = exponent_histogram(v.data);
  WatchedTensor t{.step = step, .role = "gradient", .name = name, .dtype = "fp32"};
  t.count = v.data.size(), t.zero = h.zero, t.subnormal = h.subnormal;
  t.first = ExponentHistogram::min_exponent, t.binades.assign(h.binades.begin(), h.binades.end());
  for (const float x : v.data) t.amax = std::max(t.amax, std::fabs(static_cast<double>(x)));
  return t;
}

std::string layer_of(std::string_view name) {
  const std::size_t end = end_of_number(name);
  return std::string(name.substr(0, end > 0 ? end : name.find('.')));
}

std::string part_of(std::string_view name) {
  const std::size_t end = end_of_number(name);
  return std::string(end == 0 || end == name.size() ? name : name.substr(end + 1));
}

ExponentHistogram unscaled_histogram(const WatchedRun& run, const WatchedTensor& t) {
  const int k = std::ilogb(t.scale);
  if (std::isnan(t.unscaled(1)) || std::ldexp(1.0, k) != t.scale)
    throw Error("run=" + quote(run.folder()) + ": " + quote(t.label()) + " was multiplied by " +
                significant_text(t.scale, 6) + ", which is no power of two: its binades cannot be divided by it");
  const auto unscaled = times_power_of_two(t.histogram(), -k);
  if (!unscaled)
    throw Error("run=" + quote(run.folder()) + ": " + quote(t.label()) +
                " has subnormals of FP32 and a loss scale below 1: their binades are not known");
  return *unscaled;
}

}  // namespace analysis
