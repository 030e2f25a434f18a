// What did formats do to a run that narrow.torch.watch looked at: which role, which tensor, at which step?
#include "narrow/tensor/watched_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/gradients.hpp"
#include "analysis/recordings/recorded_runs.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis::of_watched_run {
namespace {

using namespace narrow;
using enum PlotColour;

constexpr std::size_t roles = std::size(watched_roles);
constexpr const char* role_words[roles] = {
    "parameter gradients", "activation gradients", "activations", "parameters", "updates", "attention scores"};

PlotColour colour_of(std::string_view format) {
  for (const auto& [name, colour] :
       {std::pair{"fp16", blue}, {"bf16", orange}, {"e4m3", green}, {"e5m2", purple}, {"fp32", ink}})
    if (format == name) return colour;
  return automatic;
}

std::size_t place_of(const std::string& role) {
  return static_cast<std::size_t>(std::find(watched_roles, watched_roles + roles, role) - watched_roles);
}

// Several tensors together. Shares are of the values that are finite and not zero.
struct Pool {
  std::uint64_t tensors = 0, nonzero = 0, nan = 0, inf = 0;
  double amax = 0;
  std::vector<WatchedCounts> formats = {};

  void add(const WatchedTensor& t) {
    formats.resize(t.formats.size());
    ++tensors, nonzero += t.finite() - t.zero.total(), nan += t.nan.total(), inf += t.inf.total();
    amax = std::max(amax, t.amax);
    for (std::size_t k = 0; k < formats.size(); ++k) {
      formats[k].underflow += t.formats[k].underflow, formats[k].subnormal += t.formats[k].subnormal;
      formats[k].overflow += t.formats[k].overflow;
    }
  }
  double share(std::uint64_t part) const { return static_cast<double>(part) / static_cast<double>(nonzero); }
  double lost(std::size_t k) const { return share(formats[k].underflow + formats[k].overflow); }
  Cell percent(std::uint64_t part) const { return nonzero == 0 ? Cell{} : Cell{100 * share(part)}; }
};

struct Named {
  std::string name;
  std::int64_t step = 0;
  Pool pool;
};

// The run in a few numbers; its records are read once, one at a time.
struct Summary {
  std::array<Pool, roles> by_role;
  std::array<ExponentHistogram, roles> binades;
  std::array<std::vector<Named>, roles> worst;  // of each format: the tensor and step that lose the largest share
  std::map<std::int64_t, std::array<Pool, roles>> by_step;
  std::uint64_t records = 0, not_finite = 0, in_fp16 = 0;
  double least_scale = HUGE_VAL, most_scale = 0;  // of gradients
  std::string first_not_finite;

  void add(const WatchedTensor& t) {
    const std::size_t role = place_of(t.role);
    by_role[role].add(t), by_step[t.step][role].add(t), binades[role].merge(t.histogram());
    ++records;
    in_fp16 += t.dtype == "fp16" ? 1 : 0;
    if (t.is_gradient()) least_scale = std::min(least_scale, t.scale), most_scale = std::max(most_scale, t.scale);
    if (t.finite() != t.count && ++not_finite == 1)
      first_not_finite = t.series() + " at step " + std::to_string(t.step);
    Named one{t.series(), t.step, {}};
    one.pool.add(t);
    if (one.pool.nonzero == 0) return;
    if (worst[role].empty()) worst[role].assign(t.formats.size(), one);
    for (std::size_t k = 0; k < t.formats.size(); ++k)
      if (one.pool.lost(k) > worst[role][k].pool.lost(k)) worst[role][k] = one;
  }
  // The first role with a value that a format could lose; `roles` where there is none.
  std::size_t lead() const {
    for (std::size_t role = 0; role < roles; ++role)
      if (by_role[role].nonzero > 0) return role;
    return roles;
  }
};

std::string counted(std::size_t n, const char* word) {
  return count_text(static_cast<std::int64_t>(n)) + " " + word + (n == 1 ? "" : "s");
}

Table by_role(const Summary& s, const std::vector<WatchedFormat>& formats) {
  Table t{"by_role",
          "What each format makes of each kind of tensor over all watched steps, and of the tensor that loses most to "
          "zero and overflow, in shares of the values that are finite and not zero",
          {text_column("kind"), text_column("format"), integer_column("tensors"), real_column("zero", "%", 3),
           real_column("subnormal", "%", 3), real_column("overflow", "%", 3), text_column("worst tensor"),
           integer_column("at step"), integer_column("its values"), real_column("its zero", "%", 3),
           real_column("its subnormal", "%", 3), real_column("its overflow", "%", 3), integer_column("NaN"),
           integer_column("Inf")},
          {},
          "tensors: one counts once a step; gradients are as they were in memory, times the loss scale",
          {}};
  for (std::size_t role = 0; role < roles; ++role) {
    const Pool& all = s.by_role[role];
    for (std::size_t k = 0; k < all.formats.size(); ++k) {
      std::vector<Cell> row{std::string(role_words[role]),          formats[k].name,
                            static_cast<std::int64_t>(all.tensors), all.percent(all.formats[k].underflow),
                            all.percent(all.formats[k].subnormal),  all.percent(all.formats[k].overflow)};
      if (s.worst[role].empty() || s.worst[role][k].pool.lost(k) == 0) row.insert(row.end(), 6, Cell{});
      else {
        const auto& [name, step, pool] = s.worst[role][k];
        row.insert(row.end(), {Cell{name}, Cell{step}, Cell{static_cast<std::int64_t>(pool.nonzero)},
                               pool.percent(pool.formats[k].underflow), pool.percent(pool.formats[k].subnormal),
                               pool.percent(pool.formats[k].overflow)});
      }
      row.insert(row.end(), {Cell{static_cast<std::int64_t>(all.nan)}, Cell{static_cast<std::int64_t>(all.inf)}});
      t.add(std::move(row));
    }
  }
  return t;
}

Table over_steps(const Summary& s, const std::vector<WatchedFormat>& formats) {
  Table t{"over_steps",
          "The same step by step: zero and overflow together are lost",
          {integer_column("step"), text_column("kind"), real_column("largest", "", 3), integer_column("NaN"),
           integer_column("Inf")},
          {},
          "largest: of the finite values, as they were in memory",
          {}};
  for (const WatchedFormat& f : formats) t.columns.push_back(real_column(f.name + " lost", "%", 3));
  for (const auto& [step, by_role] : s.by_step)
    for (std::size_t role = 0; role < roles; ++role) {
      const Pool& pool = by_role[role];
      if (pool.tensors == 0) continue;
      std::vector<Cell> row{step, std::string(role_words[role]), pool.nonzero == 0 ? Cell{} : Cell{pool.amax},
                            static_cast<std::int64_t>(pool.nan), static_cast<std::int64_t>(pool.inf)};
      for (const WatchedCounts& c : pool.formats) row.push_back(pool.percent(c.underflow + c.overflow));
      t.add(std::move(row));
    }
  return t;
}

// ---- Pictures ----

Panel lost_panel(const Summary& s, const std::vector<WatchedFormat>& formats, std::size_t role) {
  Panel p;
  p.title = role_words[role];
  p.x.label = "training step";
  p.y = {"zero or overflow", "%", AxisScale::linear, 0.0, {}, {}, {}};
  for (std::size_t k = 0; k < formats.size(); ++k) {
    Series line{formats[k].name, Draw::line_points, {}, {}, {}, {}, {}, colour_of(formats[k].name)};
    for (const auto& [step, pools] : s.by_step) {
      if (pools[role].nonzero == 0) continue;
      line.x.push_back(static_cast<double>(step)), line.y.push_back(100 * pools[role].lost(k));
    }
    p.series.push_back(std::move(line));
  }
  return p;
}

Panel scale_panel(const GradientLog& log) {
  Panel p;
  p.title = "loss scale";
  p.x.label = "training step";
  p.y = {"loss scale", "", AxisScale::exponent_of_two, {}, {}, {}, {}};
  Series line{"", Draw::steps, {}, {}, {}, {}, {}, ink};
  for (std::size_t i = 0; i < log.scale.size(); ++i)
    if (i == 0 || i + 1 == log.scale.size() || log.scale[i] != log.scale[i - 1])
      line.x.push_back(static_cast<double>(log.steps[i])),
          line.y.push_back(std::log2(static_cast<double>(log.scale[i])));
  p.series = {line};
  return p;
}

Panel loss_panel(const std::vector<WatchedLoss>& losses) {
  const std::size_t window = std::max<std::size_t>(1, losses.size() / 500);
  Panel p;
  p.title = "loss";
  p.x.label = "training step";
  p.y.label = window == 1 ? "training loss" : "training loss, mean of " + std::to_string(window);
  Series line{"", Draw::line, {}, {}, {}, {}, {}, ink};
  for (std::size_t i = 0; i + window <= losses.size(); i += window) {
    double sum = 0;  // Inf and NaN spoil their own window: a gap
    for (std::size_t k = i; k < i + window; ++k) sum += losses[k].loss;
    line.x.push_back(static_cast<double>(losses[i + window - 1].step)),
        line.y.push_back(sum / static_cast<double>(window));
  }
  p.series = {line};
  return p;
}

struct Data {
  Source source;
  std::vector<WatchedFormat> formats;
  bool by_binades = false;  // no format was watched
  Summary summary;
  std::optional<ScaleLog> scaler;
  std::vector<WatchedLoss> losses;
  std::vector<std::string> notes;
};

// ---- The sentence ----

std::string steps_text(const Summary& s) {
  if (s.by_step.size() == 1) return "at step " + std::to_string(s.by_step.begin()->first);
  return "at " + counted(s.by_step.size(), "watched step") + ", " + std::to_string(s.by_step.begin()->first) + " to " +
         std::to_string(s.by_step.rbegin()->first);
}

// What each format makes of the role, as long as it can be read.
std::string formats_text(const Pool& pool, const std::vector<WatchedFormat>& formats) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t k = 0; k < formats.size() && k < most; ++k) {
    const WatchedCounts& c = pool.formats[k];
    text += (k == 0 ? "" : ", ") + formats[k].name + " turns " + percent_text(pool.share(c.underflow)) +
            " into zero and " + percent_text(pool.share(c.subnormal)) + " into subnormals" +
            (c.overflow > 0 ? " and " + percent_text(pool.share(c.overflow)) + " overflow" : "");
  }
  return text +
         (formats.size() > most ? ", and " + counted(formats.size() - most, "format") + " are in the table" : "");
}

std::string worst_text(const Summary& s, const Data& d) {
  const std::vector<WatchedFormat>& formats = d.formats;
  const Named* worst = nullptr;
  std::size_t format = 0;
  for (const std::vector<Named>& of_role : s.worst)
    for (std::size_t k = 0; k < of_role.size(); ++k)
      if (of_role[k].pool.lost(k) > 0 && (worst == nullptr || of_role[k].pool.lost(k) > worst->pool.lost(format)))
        worst = &of_role[k], format = k;
  if (worst == nullptr)
    return std::string("; no tensor ") + (d.by_binades ? "is sure to lose" : "loses") + " a value to zero or overflow";
  const std::uint64_t values = worst->pool.nonzero;
  return "; the worst is " + worst->name + " at step " + std::to_string(worst->step) + ": of its " +
         counted(values, "value") + " that " + (values == 1 ? "is" : "are") + " finite and not zero " +
         formats[format].name + " loses " + percent_text(worst->pool.lost(format));
}

std::string scaler_text(const std::optional<ScaleLog>& scaler) {
  if (!scaler || scaler->log.found_inf.empty()) return "";
  std::vector<std::uint8_t> found = scaler->log.found_inf;
  std::erase(found, GradientLog::not_recorded);
  return "; the loss scaler skipped " +
         count_text(static_cast<std::int64_t>(std::count(found.begin(), found.end(), 1))) + " of " +
         counted(found.size(), "step") + (scaler->what.empty() ? "" : " " + scaler->what);
}

std::string finding_of(const Data& d) {
  const Summary& s = d.summary;
  const std::size_t lead = s.lead();
  std::string text;
  if (s.records == 0)
    text = "The folder has 0 tensors: no step was watched to its end, and what formats did cannot be told";
  else if (lead == roles)
    text = "No value of " + counted(s.records, "tensor") + " " + steps_text(s) + " is finite and not zero";
  else {
    const bool scaled = lead < 2 && s.most_scale != 1;
    text = "Of the " + std::string(role_words[lead]) + " " + steps_text(s) +
           (scaled ? ", times the loss scale, " : ", ") + formats_text(s.by_role[lead], d.formats) + worst_text(s, d);
  }
  if (s.not_finite > 0)
    text += "; NaN or Inf are in " + count_text(static_cast<std::int64_t>(s.not_finite)) + " of " +
            counted(s.records, "tensor") + ", first in " + s.first_not_finite;
  return text + scaler_text(d.scaler) + ".";
}

// ---- Whose run ----

const std::vector<WatchedFormat> usual_formats = {{"fp16", "fp16"_fmt}, {"e4m3", "e4m3"_fmt}, {"e5m2", "e5m2"_fmt}};

// Where no format was watched, as the binades tell.
void count_usual_formats(WatchedTensor& t) {
  for (const WatchedFormat& f : usual_formats) {
    const HistogramShares s = shares_from_histogram(t.histogram(), {f.format, {}});
    t.formats.push_back({s.underflow.lower, s.subnormal.upper, s.overflow.lower, 0, 0});
  }
}

Data read_run(const WatchedRun& run) {
  Data d;
  d.by_binades = run.formats().empty();
  d.formats = d.by_binades ? usual_formats : run.formats();
  bool is_bounded = false;
  run.for_each_tensor([&](WatchedTensor& t) {
    if (d.by_binades) count_usual_formats(t);
    is_bounded = is_bounded || !t.has_extremes;
    d.summary.add(t);
  });
  if (d.by_binades && d.summary.records > 0) d.notes.push_back(binades_note);
  if (is_bounded) d.notes.push_back(bounded_note);
  if (run.has_scaler()) d.scaler = run.scale_log();
  d.losses = run.losses();
  d.source = file_text(run.folder()) + (run.model().empty() ? "" : ", a run of " + run.model());
  return d;
}

Data made_run() {
  Data d;
  d.formats = usual_formats, d.by_binades = true;
  for (const int step : {0, 50}) {
    WatchedTensor t = made_tensor(step, "made", -12 - step / 10);
    count_usual_formats(t);
    d.summary.add(t);
  }
  d.source = made_text;
  d.notes.push_back(no_recordings_note("these are two steps of made gradients"));
  return d;
}

Data load(const std::string& folder) {
  if (!folder.empty()) return read_run(WatchedRun(folder));
  const std::optional<std::string> path = find_data("watched-run/run.json");
  if (!path) return made_run();
  Data d = read_run(WatchedRun(path->substr(0, path->rfind('/'))));
  d.source = recorded_text("a byte-level GPT of one block, trained under FP16 autocast on a CPU");
  if (d.source.basis.evidence == Evidence::measured) d.source.basis.what = "the recording on a CPU";
  d.notes.push_back("run=DIR shows a run of your own: narrow.torch.watch writes such a folder while a model trains.");
  return d;
}

Outcome run(const Parameters& parameters, Progress& progress) {
  const Data d = load(parameters.text("run"));
  progress.at(0.8);
  const Summary& s = d.summary;
  Outcome out;
  out.data = d.source, out.notes = d.notes;
  out.finding = finding_of(d);
  out.tables = {by_role(s, d.formats), over_steps(s, d.formats)};
  if (s.in_fp16 > 0)
    out.notes.push_back(count_text(static_cast<std::int64_t>(s.in_fp16)) + " of " + counted(s.records, "tensor") +
                        " were held in FP16 when they were counted: what it had lost by then is among their zeros.");
  if (s.most_scale > 0 && (s.least_scale != 1 || s.most_scale != 1))
    out.notes.push_back("Gradients are as they were in memory, times " +
                        (s.least_scale == s.most_scale
                             ? "a loss scale of " + power_text(s.most_scale)
                             : "loss scales from " + power_text(s.least_scale) + " to " + power_text(s.most_scale)) +
                        ".");
  const std::size_t lead = s.lead();
  if (lead == roles) return out;
  const std::string about =
      d.source.text + ", " + steps_text(s) + (lead < 2 && s.most_scale != 1 ? ", times the loss scale" : "");
  std::vector<NamedFormat> shown;
  for (const WatchedFormat& f : d.formats) shown.push_back({f.name, f.format});
  out.plots.push_back({"histogram", "", about, {binades_panel(s.binades[lead], shown)}, 1, 0, ""});
  const WatchedCounts& c = s.by_role[lead].formats[0];
  out.plots.back().title = d.formats[0].name + " turns " + percent_text(s.by_role[lead].share(c.underflow)) +
                           " of the " + role_words[lead] + " into zero and " +
                           percent_text(s.by_role[lead].share(c.subnormal)) + " into subnormals" +
                           (c.overflow > 0 ? "; " + percent_text(s.by_role[lead].share(c.overflow)) + " overflow" : "");
  Plot steps{"over_steps", "", about, {}, 2, 0, ""};
  for (std::size_t role = 0; role < roles; ++role)
    if (s.by_role[role].nonzero > 0) steps.panels.push_back(lost_panel(s, d.formats, role));
  if (d.scaler && !d.scaler->log.scale.empty()) steps.panels.push_back(scale_panel(d.scaler->log));
  if (!d.losses.empty()) steps.panels.push_back(loss_panel(d.losses));
  steps.title = worst_text(s, d).substr(2);
  steps.title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(steps.title[0])));
  out.plots.push_back(std::move(steps));
  return out;
}

const Register entered([]() -> Experiment {
  return {"watched_run", "What did formats do to this run?", 0, {run_parameter()}, run};
});

}  // namespace
}  // namespace analysis::of_watched_run
