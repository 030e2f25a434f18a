// How large do attention scores get, when does FP16 overflow, what does softmax return then, and which remedy helps?
#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <new>

#include "analysis/experiments/attention_file.hpp"
#include "analysis/experiments/attention_run.hpp"
#include "analysis/experiments/attention_size.hpp"
#include "analysis/framework/experiment.hpp"
#include "analysis/framework/run_folders.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/format/find_format.hpp"

namespace analysis::of_attention_overflow {
namespace {

using namespace narrow;
using enum PlotColour;
using enum AttentionFunction;

constexpr Format fp32 = "fp32"_fmt, fp16 = "fp16"_fmt, bf16 = "bf16"_fmt;

struct Remedy {
  const char* name;
  Holding holding;
  PlotColour colour;
};
constexpr Remedy remedies[] = {
    {"FP16", {fp16, false, plain}, vermilion},
    {"FP16, Q scaled first", {fp16, true, plain}, blue},
    {"BF16", {bf16, false, plain}, orange},
    {"FP32", {fp32, false, plain}, ink},
    {"FP16, soft-cap 50", {fp16, false, soft_cap}, sky},
    {"FP16, QK-norm", {fp16, false, qk_norm}, green},
};

// ---- Synthetic scores against the closed form ----

struct MaximumRow {
  std::size_t d, n;
  double measured, gaussian, saddle;
};

// Shorter sequences are drawn more often, for the same work.
std::vector<MaximumRow> maxima(std::size_t longest, std::size_t trials, std::uint64_t seed, Progress& progress) {
  std::vector<MaximumRow> rows;
  for (const std::size_t d : {32u, 64u, 128u})
    for (std::size_t n = 64; n <= longest; n *= 2) {
      const std::size_t times = trials * std::min<std::size_t>(longest / n, 16);
      double sum = 0;
      for (std::size_t t = 0; t < times; ++t)
        sum += measured_maximum(n, d, seed + (d << 32) + (n << 16) + 2 * t, n, false);
      const auto dn = static_cast<double>(n), dd = static_cast<double>(d);
      rows.push_back({d, n, sum / static_cast<double>(times), gaussian_maximum(dn, dd), saddle_maximum(dn, dd)});
      progress.at(0.3 * static_cast<double>(rows.size()) / 18, "synthetic scores");
    }
  return rows;
}

Table maximum_table(const std::vector<MaximumRow>& rows) {
  Table t{"maximum",
          "Largest |q.k| of n queries and n keys of d standard normal numbers, measured and estimated",
          {integer_column("d"), integer_column("n"), fixed_column("measured", "", 1),
           fixed_column("Gaussian estimate", "", 1), fixed_column("saddle point", "", 1),
           fixed_column("its error", "%", 1), fixed_column("after 1/sqrt(d)", "", 2),
           fixed_column("spread that overflows", "", 1), fixed_column("with Q scaled first", "", 1)},
          {},
          "Gaussian: sqrt(d) sqrt(2 ln n^2); saddle point: with the tails of a sum of products; spread: the standard "
          "deviation of q "
          "and k at which the largest raw score passes 65520",
          {}};
  for (const MaximumRow& r : rows) {
    const double root = std::sqrt(static_cast<double>(r.d));
    t.add({static_cast<std::int64_t>(r.d), static_cast<std::int64_t>(r.n), r.measured, r.gaussian, r.saddle,
           100 * (r.saddle / r.measured - 1), r.measured / root, std::sqrt(fp16_overflows_from / r.measured),
           std::sqrt(fp16_overflows_from * root / r.measured)});
  }
  return t;
}

Panel maximum_panel(const std::vector<MaximumRow>& rows) {
  Panel p;
  p.title = "largest |q.k| of normal numbers";
  p.x = {"sequence length n", "", AxisScale::log2, {}, {}, {}, {}};
  p.y = {"largest score / (spread of q and k)^2", "", AxisScale::linear, 0.0, {}, {}, {}};
  const std::pair<std::size_t, PlotColour> sizes[] = {{128, blue}, {64, green}, {32, orange}};
  for (const auto& [d, colour] : sizes) {
    Series measured{"measured, d = " + std::to_string(d), Draw::points, {}, {}, {}, {}, {}, colour};
    Series estimate{d == 128 ? "closed form" : "", Draw::line, {}, {}, {}, {}, {}, colour};
    for (const MaximumRow& r : rows) {
      if (r.d != d) continue;
      for (Series* s : {&measured, &estimate}) s->x.push_back(static_cast<double>(r.n));
      measured.y.push_back(r.measured), estimate.y.push_back(r.saddle);
    }
    p.series.insert(p.series.end(), {measured, estimate});
  }
  return p;
}

// ---- The recorded training ----

double largest_of(const TrainingLog& log) {
  double largest = 0;
  for (const double s : log.score_amax) largest = std::max(largest, s);  // a NaN never wins
  return largest;
}

Panel training_panel(const std::vector<TrainingLog>& logs) {
  Panel p;
  p.title = "largest |q.k| in training";
  p.x = {"training step", "", AxisScale::linear, 0.0, 1000.0, {}, {}};
  p.y = {"largest score, before 1/sqrt(d)", "", AxisScale::log2, 1.0, 0x1p18, {}, {}};
  const std::tuple<const char*, const char*, PlotColour> shown[] = {
      {"fp16", "FP16, loss scale 2^16", blue},
      {"fp16 without scaling", "FP16, no loss scale", vermilion},
      {"fp16 from 2^-10", "FP16, loss scale from 2^-10", purple}};
  for (const auto& [name, title, colour] : shown)
    if (const TrainingLog* log = find_log(logs, name); log != nullptr) {
      Series s{title, Draw::line, {}, log->score_amax, {}, {}, {}, colour};
      for (std::size_t i = 0; i < log->score_amax.size(); ++i) s.x.push_back(static_cast<double>(i));
      p.series.push_back(s);
    }
  p.marks = {{Along::y, 65504, "FP16 ends at 65504", grey}};
  return p;
}

Table training_table(const Recording& r) {
  Table t{"training",
          "Attention scores of the recorded run, by step and layer (largest of the heads)",
          {integer_column("step"), integer_column("layer"), real_column("largest |q.k|", "", 4),
           real_column("rms of q", "", 3), real_column("rms of k", "", 3), real_column("estimate from the rms", "", 4),
           fixed_column("headroom in FP16", "bits", 1)},
          {},
          "estimate: the closed form for independent normal q and k of that rms; training aligns them",
          {}};
  const double d = r.heads > 0 ? static_cast<double>(r.width) / r.heads : 64;
  std::map<std::pair<int, int>, AttentionRow> largest;
  for (const AttentionRow& a : r.attention) {
    AttentionRow& have = largest[{a.step, a.layer}];
    if (a.score_amax > have.score_amax) have = a;  // a NaN never wins
  }
  for (const auto& [key, a] : largest)
    if (a.score_amax > 0)
      t.add({std::int64_t{a.step}, std::int64_t{a.layer}, a.score_amax, a.q_rms, a.k_rms,
             a.q_rms * a.k_rms * saddle_maximum(r.context, d), std::log2(fp16_overflows_from / a.score_amax)});
  return t;
}

// ---- Softmax when the scores are larger ----

struct Remedied {
  Table table;
  Panel nan, error;
  double nan_at_0[std::size(remedies)] = {};  // as recorded
  double nan_at_12[std::size(remedies)] = {}, error_at_12[std::size(remedies)] = {};
  double most_nan[std::size(remedies)] = {};  // over all sizes of the scores
};

Remedied try_remedies(const std::vector<Head>& heads, double amax, double scale, Progress& progress) {
  Remedied out;
  out.table = {"remedies",
               "Softmax of scores that are 2^k times larger than recorded, by how they are held",
               {power_column("scores larger by"), real_column("largest raw score", "", 3)},
               {},
               "NaN: share of the rows of softmax; error: mean over the other rows of the largest error of a "
               "probability, against "
               "the same function in exact arithmetic (QK-norm and soft-cap are other functions than plain softmax)",
               {}};
  out.nan.title = "rows of softmax that become NaN";
  out.nan.x = {"scores larger than recorded by", "", AxisScale::exponent_of_two, 0.0, 14.0, {}, {}};
  out.nan.y = {"rows that are NaN", "%", AxisScale::linear, 0.0, 100.0, {}, {}};
  out.error = out.nan;
  out.error.title = "error of a probability in the other rows";
  out.error.y = {"largest error in a row, mean", "", AxisScale::log10, 1e-8, 0.1, {}, {}};
  std::vector<HeldScores> held;
  for (const Remedy& r : remedies) {
    out.table.columns.push_back(fixed_column(std::string(r.name) + ": NaN", "%", 1));
    out.table.columns.push_back(real_column(std::string(r.name) + ": error", "", 2));
    out.nan.series.push_back({r.name, Draw::line, {}, {}, {}, {}, {}, r.colour});
    out.error.series.push_back({r.name, Draw::line, {}, {}, {}, {}, {}, r.colour});
    Holding holding = r.holding;
    holding.scale = scale;
    held.emplace_back(heads, holding);
  }
  for (int k = 0; k <= 14; ++k) {
    progress.at(0.6 + 0.4 * k / 15, "softmax");
    std::vector<Cell> row = {std::ldexp(1.0, k), std::ldexp(amax, k)};
    for (std::size_t i = 0; i < held.size(); ++i) {
      const Damage d = held[i].at(k);
      row.push_back(100 * d.nan_rows);
      row.push_back(std::isnan(d.error) ? Cell{} : Cell{d.error});
      out.nan.series[i].x.push_back(k), out.nan.series[i].y.push_back(100 * d.nan_rows);
      out.error.series[i].x.push_back(k), out.error.series[i].y.push_back(d.error);
      out.most_nan[i] = std::max(out.most_nan[i], d.nan_rows);
      if (k == 0) out.nan_at_0[i] = d.nan_rows;
      if (k == 12) out.nan_at_12[i] = d.nan_rows, out.error_at_12[i] = d.error;
    }
    out.table.add(row);
  }
  return out;
}

// ---- Every head of the file ----

struct Scanned {
  struct Of {
    std::size_t layer;
    Head* head;
    Scores scores;
  };
  std::vector<Of> heads;
  const Of* largest = nullptr;  // before the mask
  const Of* seen = nullptr;     // the largest that the mask leaves
  double rows = 0, nan_rows = 0;
  std::size_t layers_over = 0, heads_over = 0;  // with a score beyond FP16 that softmax sees
};

Scanned scan(std::vector<AttentionLayer>& layers, Progress& progress) {
  Scanned out;
  for (std::size_t l = 0; l < layers.size(); ++l)
    for (Head& h : layers[l].heads) out.heads.push_back({l, &h, {}});
  constexpr std::size_t together = 64;      // heads between two moves of the progress bar
  std::atomic<bool> out_of_memory = false;  // a part of parallel work must not throw
  for (std::size_t begin = 0; begin < out.heads.size(); begin += together) {
    const std::size_t count = std::min(together, out.heads.size() - begin);
    parallel_parts(count, 1, 0, [&](std::size_t from, std::size_t) {
      Scanned::Of& one = out.heads[begin + from];
      try {
        one.scores = scores_of(*one.head);
      } catch (const std::bad_alloc&) {
        out_of_memory = true;
      }
      one.head->worst_row = one.scores.worst_row;
    });
    if (out_of_memory) throw std::bad_alloc();
    progress.at(0.3 + 0.3 * static_cast<double>(begin + count) / static_cast<double>(out.heads.size()), "heads");
  }
  std::size_t last_over = layers.size();
  for (const Scanned::Of& one : out.heads) {
    if (out.largest == nullptr || one.scores.largest > out.largest->scores.largest) out.largest = &one;
    if (out.seen == nullptr || one.scores.seen > out.seen->scores.seen) out.seen = &one;
    out.rows += static_cast<double>(one.head->n), out.nan_rows += static_cast<double>(one.scores.nan_rows);
    if (one.scores.seen < fp16_overflows_from) continue;
    ++out.heads_over;
    if (one.layer != last_over) ++out.layers_over, last_over = one.layer;
  }
  return out;
}

std::string score_text(double score) {
  return score >= 1000 && score < 1e12 ? count_text(std::llround(score)) : significant_text(score, 3);
}

std::string name_of(const Scanned::Of& one, const std::vector<AttentionLayer>& layers) {
  const AttentionLayer& layer = layers[one.layer];
  return layer.name + (layer.heads.size() > 1 ? ", head " + std::to_string(one.head->number) : "") +
         (layer.heads.back().sequence > 0 ? " of sequence " + std::to_string(one.head->sequence) : "");
}

Table head_table(const Scanned& scanned, const std::vector<AttentionLayer>& layers) {
  Table t{"heads",
          "Scores of every head as they are recorded, before they are scaled",
          {text_column("queries"), integer_column("sequence"), integer_column("head"), integer_column("positions"),
           integer_column("keys"), integer_column("d"), real_column("largest |q.k|", "", 6),
           real_column("under the mask", "", 6), fixed_column("headroom in FP16", "bits", 2),
           fixed_column("rows that are NaN in FP16", "%", 2)},
          {},
          "headroom: log2(65520 / largest under the mask); at 0 and below the score is Inf",
          {}};
  for (const Scanned::Of& one : scanned.heads)
    t.add({layers[one.layer].name, static_cast<std::int64_t>(one.head->sequence),
           static_cast<std::int64_t>(one.head->number), static_cast<std::int64_t>(one.head->n),
           static_cast<std::int64_t>(one.head->m), static_cast<std::int64_t>(one.head->d), one.scores.largest,
           one.scores.seen, one.scores.seen > 0 ? Cell{std::log2(fp16_overflows_from / one.scores.seen)} : Cell{},
           100 * static_cast<double>(one.scores.nan_rows) / static_cast<double>(one.head->n)});
  return t;
}

// The heads with the largest scores: enough to see what softmax returns.
constexpr std::size_t most_heads = 8;

std::vector<Head> worst_heads(const Scanned& scanned) {
  std::vector<const Scanned::Of*> order;
  for (const Scanned::Of& one : scanned.heads) order.push_back(&one);
  std::stable_sort(order.begin(), order.end(),
                   [](const Scanned::Of* a, const Scanned::Of* b) { return a->scores.seen > b->scores.seen; });
  order.resize(std::min(order.size(), most_heads));
  std::vector<Head> heads;
  for (const Scanned::Of* one : order) heads.push_back(*one->head);
  return heads;
}

struct Told {
  std::string title, finding;
};

std::string rows_text(const Scanned& scanned) {
  return "the softmax rows" + (scanned.heads.size() > most_heads
                                   ? " of the " + std::to_string(most_heads) + " heads with the largest scores"
                                   : std::string());
}

Told tell(const Scanned& scanned, const std::vector<AttentionLayer>& layers, const Remedied& remedied,
          const std::string& model, double logged) {
  const double seen = scanned.seen->scores.seen, largest = std::max(scanned.largest->scores.largest, logged);
  const std::string rows = rows_text(scanned);
  const std::string at_12 = "with scores 2^12 times larger " + percent_text(remedied.nan_at_12[0]) + " of " + rows +
                            " are NaN, " + percent_text(remedied.nan_at_12[1]) + " when Q is scaled first.";
  std::string where =
      logged > scanned.largest->scores.largest ? "by its log, over all layers" : name_of(*scanned.largest, layers);
  if (logged <= scanned.largest->scores.largest && seen < largest)
    where += "; " + score_text(seen) + " under the causal mask" +
             (scanned.seen == scanned.largest ? "" : ", in " + name_of(*scanned.seen, layers));
  const std::string what = "The largest |q.k| of " + model + " is " + score_text(largest) + " (" + where + ")";
  if (seen >= fp16_overflows_from) {
    const std::string share = percent_text(scanned.nan_rows / scanned.rows) + " of the softmax rows are NaN";
    return {"Scores of " + score_text(largest) + " overflow FP16 as they are recorded: " + share,
            model + " overflows FP16 as it is recorded: the largest |q.k| is " + score_text(largest) + " (" + where +
                "), scores of " + std::to_string(scanned.heads_over) + " of " + std::to_string(scanned.heads.size()) +
                " heads in " + std::to_string(scanned.layers_over) + " of " + std::to_string(layers.size()) +
                " layers pass 65504, and " + share + "; " +
                (remedied.nan_at_0[1] > 0
                     ? "with Q scaled first " + percent_text(remedied.nan_at_0[1]) + " of " + rows + " still are."
                     : "with Q scaled first none of " + rows + " is.")};
  }
  if (largest >= fp16_overflows_from)
    return {"Scores of " + score_text(largest) + " overflow FP16, but only where the mask hides them",
            what + ": it overflows FP16 as it is recorded, but only in pairs that the mask hides; " + at_12};
  const double room = std::log2(fp16_overflows_from / largest);
  return {"Scores of " + score_text(largest) + " leave FP16 " + fixed_text(room, 1) + " bits; at 2^12 times more " +
              percent_text(remedied.nan_at_12[0], 2) + " of the softmax rows are NaN",
          what + ", " + fixed_text(room, 1) + " bits below the end of FP16; " + at_12};
}

Outcome run(const Parameters& parameters, Progress& progress) {
  Outcome out;
  const auto seed = static_cast<std::uint64_t>(parameters.integer("seed"));
  const std::string& file = parameters.text("attention");
  if (file.empty() && !parameters.text("run").empty()) {
    for (const char* name : {"d", "n", "sigma", "q", "k", "heads", "kv_heads", "layout", "mask", "scale"})
      if (parameters.is_given(name))
        throw Error(std::string(name) + "= does not go with run=: a run has scores, not queries and keys");
    return attention_of_run(parameters.text("run"));
  }
  for (const char* name : {"d", "n", "sigma"}) {
    if (!parameters.is_given(name)) continue;
    if (!file.empty())
      throw Error(std::string(name) + "= is a size of made queries and keys; attention=FILE has its own");
    return attention_size(parameters, progress);
  }
  if (file.empty())
    for (const char* name : {"q", "k", "heads", "kv_heads", "layout", "mask", "scale"})
      if (parameters.is_given(name))
        throw Error(std::string(name) + "= says how attention=FILE is to be read; give attention=FILE");
  const std::optional<std::string> recorded = file.empty() ? find_data("torch/step1000.safetensors") : std::nullopt;
  const std::optional<Recording> recording = file.empty() ? load_recording() : std::nullopt;
  const std::vector<TrainingLog> logs = file.empty() ? load_logs() : std::vector<TrainingLog>{};
  Attention attention;
  std::string model = "the trained model";
  if (!file.empty()) {
    attention = read_attention({file, parameters.text("q"), parameters.text("k"),
                                static_cast<std::size_t>(parameters.integer("heads")),
                                static_cast<std::size_t>(parameters.integer("kv_heads")), parameters.text("layout"),
                                parameters.text("mask") == "causal"});
    out.data = file_text(file), model = out.data.text;
  } else if (recorded) {
    attention = read_attention({*recorded});
    out.data = recorded_text("queries and keys of a byte-level GPT after 1000 steps");
  } else {
    attention.layers = {{"made", made_heads(seed)}};
    out.data = made_text, model = "a made head";
    out.notes.push_back(no_recordings_note("q and k are normal numbers"));
  }
  const std::vector<MaximumRow> rows = maxima(static_cast<std::size_t>(parameters.integer("longest")),
                                              static_cast<std::size_t>(parameters.integer("trials")), seed, progress);
  const Scanned scanned = scan(attention.layers, progress);
  if (scanned.largest->scores.largest == 0)
    throw Error(file + ": every q.k is zero" +
                (attention.not_finite.any() ? "; q and k hold " + attention.not_finite.text() : "") +
                "; there is nothing to tell");
  const double scale = parameters.real("scale");
  const Remedied remedied = try_remedies(worst_heads(scanned), scanned.seen->scores.seen, scale, progress);
  // The log is of the recorded model: it says nothing about other heads. NaN never wins.
  const TrainingLog* log = find_log(logs, "fp16");
  const double logged = log != nullptr && recorded ? std::max(0.0, log->score_amax.back()) : 0;
  const Told told = tell(scanned, attention.layers, remedied, model, logged);

  double worst_estimate = 0;
  for (const MaximumRow& r : rows) worst_estimate = std::max(worst_estimate, std::fabs(r.saddle / r.measured - 1));
  Plot plot{"scores", told.title, out.data.text + "; normal numbers beside them", {maximum_panel(rows)}, 2, 0, ""};
  if (!logs.empty()) plot.panels.push_back(training_panel(logs));
  plot.panels.push_back(remedied.nan);
  plot.panels.push_back(remedied.error);
  out.plots = {plot};
  out.tables = {head_table(scanned, attention.layers), remedied.table, maximum_table(rows)};
  if (recording) out.tables.push_back(training_table(*recording));
  out.finding = told.finding;
  if (attention.not_finite.any())
    out.finding = "q and k hold " + attention.not_finite.text() +
                  ", made before this product; with these positions as zeros: " + out.finding;
  out.notes.insert(out.notes.end(), attention.notes.begin(), attention.notes.end());
  out.notes.push_back("The closed form of the largest |q.k| of normal numbers holds within " +
                      percent_text(worst_estimate, 2) + " of the measured means; BF16 makes " +
                      (remedied.most_nan[2] > 0 ? percent_text(remedied.most_nan[2]) + " of" : "none of") + " " +
                      rows_text(scanned) + " NaN" +
                      (std::isnan(remedied.error_at_12[2])
                           ? "."
                           : ", and its probabilities are off by " + percent_text(remedied.error_at_12[2], 2) +
                                 " at scores 2^12 times larger."));
  if (const std::string large = file.empty() ? recorded_folder("bf16-amp-rate0.006") : ""; !large.empty())
    out.notes.push_back("A GPT of real size at ten times the usual learning rate (run=bf16-amp-rate0.006): " +
                        attention_of_run(large).finding);
  if (const TrainingLog* bad = find_log(logs, "fp16 without scaling"); bad != nullptr && log != nullptr)
    out.notes.push_back("Without a loss scale the recorded training drives the scores to " +
                        significant_text(largest_of(*bad), 3) + ", with one to " +
                        significant_text(largest_of(*log), 3) + ".");
  return out;
}

const Register entered([]() -> Experiment {
  return {
      "attention_overflow",
      "When do attention scores overflow FP16, and what does softmax return then?",
      3,
      {file_parameter("attention",
                      "tensor file with queries and keys (q and k, q_proj and k_proj, query and key, "
                      "qkv) instead of the recorded ones"),
       run_parameter(),
       integer_parameter("d", 64, 1, 65536,
                         "made queries and keys of this size (with n, sigma, heads, mask): entries each"),
       integer_parameter("n", 1024, 1, 1e9, "made: positions"),
       real_parameter("sigma", 1, 1e-6, 1e4, "made: standard deviation of the entries"),
       text_parameter("q", "", "name of the queries, or the end of it in every layer; with k="),
       text_parameter("k", "", "name of the keys, the same way"),
       integer_parameter("heads", 0, 0, 1e6, "attention heads, where the shapes do not tell"),
       integer_parameter("kv_heads", 0, 0, 1e6, "heads of the keys, where they are fewer and the shapes do not tell"),
       choice_parameter("layout", {"auto", "bhtd", "bthd", "btc"},
                        "order of batch, heads, time and d in the file (c: all heads in the last dimension)"),
       choice_parameter("mask", {"causal", "none"}, "which keys a query sees"),
       real_parameter("scale", 0, 0, 1e6, "factor of the scores before softmax; 0: 1/sqrt(d)"),
       integer_parameter("longest", {1024, 2048, 8192}, 64, 65536, "longest synthetic sequence"),
       integer_parameter("trials", {4, 8, 16}, 1, 1000,
                         "longest synthetic sequences drawn a point; shorter ones more often"),
       integer_parameter("seed", 1, 0, 1e15, "seed of the synthetic numbers")},
      run};
});

}  // namespace
}  // namespace analysis::of_attention_overflow
