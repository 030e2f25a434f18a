#include "narrow/dot/trials.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/base/random.hpp"
#include "narrow/dot/gemm_checks.hpp"
#include "narrow/dot/likelihood.hpp"
#include "narrow/dot/plan_ladder.hpp"
#include "narrow/dot/value_sample.hpp"
#include "narrow/format/neighbours.hpp"

namespace narrow::detail {

namespace {

bool takes(const DotType& type, const Format& format, int code_bytes) {
  return type.format == format || (type.format == "tf32"_fmt && format == "fp32"_fmt && code_bytes == 4);
}

bool model_fits(const ValidateRequest& r, const DotModel& m) {
  if (r.model != nullptr && r.model != &m) return false;
  if (!takes(m.a, r.a_format, r.a.code_bytes) || !takes(m.b, r.b_format, r.b.code_bytes)) return false;
  if (m.is_integer() && !r.d_format.is_integer() && r.d_format != "fp32"_fmt) return false;
  if (!m.is_integer() && r.d_format.is_integer()) return false;
  if (r.options.function.of != nullptr && m.accumulator.format == "fp64"_fmt) return false;
  const bool has_blocks = !r.options.block_a.empty() || !r.options.block_b.empty();
  if (!m.is_block_scaled()) return !has_blocks;
  const auto length = static_cast<std::size_t>(m.scale_block);
  const std::size_t blocks = (r.a.cols + length - 1) / length;
  const auto fits = [&](std::span<const std::uint8_t> scales, std::size_t lines) {
    return scales.empty() || scales.size() == lines * blocks;
  };
  return fits(r.options.block_a, r.a.rows) && fits(r.options.block_b, r.b.cols) && (has_blocks || r.model != nullptr);
}

std::vector<ModelClass> fitting_models(const ValidateRequest& r, bool of_gpu) {
  std::vector<const DotModel*> fitting;
  for (const DotModel& m : dot_models())
    if (model_fits(r, m)) fitting.push_back(&m);
  const auto foreign = [&](const DotModel* m) { return !is_of_gpu(*m, *r.gpu); };
  if (of_gpu && r.gpu && !std::all_of(fitting.begin(), fitting.end(), foreign)) std::erase_if(fitting, foreign);
  std::stable_sort(fitting.begin(), fitting.end(), [&](const DotModel* x, const DotModel* y) { return unlikelihood(*x, r.gpu) < unlikelihood(*y, r.gpu); });
  std::vector<ModelClass> classes;
  for (const DotModel* m : fitting) {
    const auto same = std::find_if(classes.begin(), classes.end(), [&](const ModelClass& c) { return same_arithmetic(*c.models[0], *m); });
    if (same != classes.end()) same->models.push_back(m);
    else classes.push_back({{m}});
  }
  return classes;
}

constexpr std::uint32_t first_look = 4;         // outputs on which every pair is tried
constexpr double first_look_budget = 2e9;       // nanoseconds of one core for them
constexpr double later_budget = 2e9;            // and for all other outputs
constexpr double slow_cost = 50;                // from where on a model is asked only about what others left open

// Two plans of one model with the same key have the same sums: where chains end, in which order and format they are
// joined, where C comes in.
struct SumKey {
  std::vector<std::size_t> cuts;
  Join join = Join::in_order;
  Partials partials = Partials::wide;
  int length = 0, run = 0;  // of slices and stream-K, which the cuts do not tell; the tile of a residue
  Operands operands = Operands::cut;
  PlaceOfC c = PlaceOfC::last;

  friend auto operator<=>(const SumKey&, const SumKey&) = default;
};

SumKey key_of(const ValidateRequest& r, const DotModel& m, const Plan& p) {
  const std::size_t k = r.a.cols;
  SumKey key{.cuts = {}, .join = p.join, .partials = p.partials, .operands = p.operands};
  if (r.c.data != nullptr)
    key.c = p.c != PlaceOfC::usual                         ? p.c
            : p.order == SumOrder::chain && r.c.pitch != 0 ? PlaceOfC::usual
                                                           : PlaceOfC::last;
  if (m.rule == DotRule::integer) return {.cuts = {}, .operands = p.operands, .c = key.c};
  if (p.order == SumOrder::stream_k) {
    key.length = p.length, key.run = -1;
    return key;
  }
  Plan q = p;
  const std::size_t run = static_cast<std::size_t>(p.run != 0 ? p.run : std::max(m.instruction_k, 1));
  if (p.order == SumOrder::slice && (k + run - 1) / run <= static_cast<std::size_t>(p.length))  // one run a slice
    q.order = SumOrder::split, q.length = static_cast<int>(run), q.run = 0;
  if (q.order == SumOrder::slice || q.order == SumOrder::blocks) {
    key.length = q.order == SumOrder::blocks ? -p.length : p.length, key.run = static_cast<int>(run);
    return key;
  }
  key.cuts = plan_cuts(q, m, k, r.d.rows, r.d.cols);
  const std::size_t parts = key.cuts.size() - 1;
  // (p0 + p1) + p2 is the tree of three as well, and (p0 + p2) + p1 is none of them; two parts have one sum.
  if (key.partials != Partials::serial && (parts <= 2 || (parts == 3 && key.join == Join::pairwise)))
    key.join = Join::in_order;
  if (parts == 1) key.partials = Partials::wide;
  for (std::size_t n = 0; q.residue != 0 && n < parts; ++n)
    if ((key.cuts[n + 1] - key.cuts[n]) % static_cast<std::size_t>(q.residue) != 0) key.length = q.residue;
  return key;
}

bool plan_fits(const ValidateRequest& r, const DotModel& m, const Plan& p) {
  if (!plan_problem(m, p, r.options).empty()) return false;
  if (r.plan) return true;
  if (p.partials != Partials::wide && r.d_format == "fp32"_fmt) return false;  // the usual join under another name
  // No kernel cuts an instruction; one that takes what is left over first fills it up.
  return p.order != SumOrder::split || p.residue != 0 || static_cast<std::size_t>(p.length) % chain_unit(m) == 0;
}

// The span of the numbers of an operand, line by line: largest magnitude over the last place that any of them uses.
struct OperandSpan {
  int bits = 0;           // the largest of the lines
  int lowest = 1 << 20;   // of the last places used
  int highest = -(1 << 20);
  bool plain = true;      // finite, none subnormal
};

OperandSpan span_of(const ValidateRequest& r, bool is_b) {
  const Format& f = is_b ? r.b_format : r.a_format;
  OperandSpan all;
  for (std::size_t item = 0; item < r.batch.count; ++item) {
    const ProductItem m = item_of(r, item);
    const CodeMatrix& x = is_b ? m.b : m.a;
    const std::size_t lines = is_b ? x.cols : x.rows, k = is_b ? x.rows : x.cols;
    std::vector<OperandSpan> spans(lines);
    parallel_parts(lines, 16, 0, [&](std::size_t begin, std::size_t end) {
      for (std::size_t line = begin; line < end; ++line) {
        OperandSpan& s = spans[line];
        for (std::size_t n = 0; n < k && s.plain; ++n) {
          const Code code = (is_b ? x(n, line) : x(line, n)) & f.code_mask();
          const Unpacked u = unpack(code, f);
          if (!u.is_finite() || classify(code, f) == ValueClass::subnormal) s.plain = false;
          if (u.significand == 0 || !s.plain) continue;
          s.lowest = std::min(s.lowest, u.exponent + std::countr_zero(u.significand));
          s.highest = std::max(s.highest, u.exponent + bit_length(u.significand));
        }
        s.bits = s.highest > s.lowest ? s.highest - s.lowest : 0;
      }
    });
    for (const OperandSpan& s : spans) {
      all.plain = all.plain && s.plain, all.bits = std::max(all.bits, s.bits);
      all.lowest = std::min(all.lowest, s.lowest), all.highest = std::max(all.highest, s.highest);
    }
    if (!all.plain || (is_b ? r.batch.b : r.batch.a) == 0) break;
  }
  return all;
}

// How many bits the sums of this data need at most, counted from the last place of their products:
//   |sum| <= K * 2^(bits of a row) * 2^(bits of a column) units of that place.
// An accumulator that has them rounds nothing, whatever the order. Huge where nothing is known.
struct SumSpan {
  int bits = 1 << 20, lowest = 0, highest = 0;
};

SumSpan span_of_sums(const ValidateRequest& r) {
  const GemmOptions& o = r.options;
  if (r.c.data != nullptr || o.alpha != 1 || !o.scale_a.values.empty() || !o.scale_b.values.empty() || !o.block_a.empty() || !o.block_b.empty()) return {};
  const OperandSpan a = span_of(r, false);
  if (!a.plain) return {};
  const OperandSpan b = span_of(r, true);
  if (!b.plain) return {};
  const int terms = bit_length(static_cast<std::uint64_t>(r.a.cols));
  return {a.bits + b.bits + terms, a.lowest + b.lowest, a.highest + b.highest + terms};
}

// All orders of all these rules are exact then, and so all equal. Where terms are cut at F bits below the largest
// exponent: that is below 2^bits units, so the cut is at a unit or below while bits <= F + 1.
bool sums_exactly(const DotModel& m, const SumSpan& s) {
  switch (m.rule) {
    case DotRule::fused:
    case DotRule::fused_pair_then_add:
      if (s.bits > m.fraction_bits + 1) return false;
      break;
    case DotRule::fma_chain:
    case DotRule::multiply_add:
    case DotRule::pairwise:
    case DotRule::kahan:
    case DotRule::exact: break;
    default: return false;
  }
  const Format& f = m.result;
  return s.bits <= f.significand_bits() && s.lowest >= f.min_quantum_exponent() && s.highest <= f.max_exponent();
}

// How many plans of each class of models can be tried on the first outputs. Tensor cores with FP32 sums are what most
// kernels use: they get four shares of the time; what a class does not need goes to the others.
std::vector<std::size_t> plans_within_budget(const std::vector<ModelClass>& classes, std::size_t k, std::size_t plans) {
  constexpr std::size_t least = 8;
  std::vector<double> each, weight;
  for (const ModelClass& c : classes) {
    const DotModel& m = *c.models[0];
    each.push_back(first_look * static_cast<double>(std::max<std::size_t>(k, 1)) * cost_of(m));
    weight.push_back(m.fraction_bits > 0 && m.rounding == Rounding::toward_zero ? 4 : 1);
  }
  std::vector<std::size_t> out(classes.size(), 0);
  double left = first_look_budget;
  for (bool served = true; served;) {
    served = false;
    double shares = 0;
    for (std::size_t c = 0; c < out.size(); ++c) shares += out[c] == 0 ? weight[c] : 0;
    for (std::size_t c = 0; c < out.size(); ++c)
      if (const double need = each[c] * static_cast<double>(plans); out[c] == 0 && need <= left * weight[c] / shares)
        out[c] = plans, left -= need, shares -= weight[c], served = true;
  }
  double shares = 0;
  for (std::size_t c = 0; c < out.size(); ++c) shares += out[c] == 0 ? weight[c] : 0;
  for (std::size_t c = 0; c < out.size(); ++c)
    if (out[c] == 0) out[c] = std::max(least, static_cast<std::size_t>(left * weight[c] / shares / each[c]));
  return out;
}

}  // namespace

double cost_of(const DotModel& m) {
  const bool pair = m.rule == DotRule::fused_pair_then_add;
  switch (engine_of(m)) {
    case EngineKind::fused_bytes:
    case EngineKind::fused_words:
      return (1.3 + (m.rounding == Rounding::toward_zero ? 5.0 : 12.0) / m.products_per_step) * (pair ? 1.4 : 1);
    case EngineKind::native_float:
    case EngineKind::native_double: return m.rule == DotRule::multiply_add ? 0.7 : 3;
    case EngineKind::rounded: return 1.5;
    case EngineKind::integer: return 1;
    case EngineKind::none: break;
  }
  switch (m.rule) {
    case DotRule::kahan: return 850;
    case DotRule::flushed_pairs: return 500;
    case DotRule::exact:
    case DotRule::pairwise: return 300;
    default: return 180;
  }
}

bool is_fast(const DotModel& m) { return cost_of(m) < slow_cost; }

std::uint64_t distance_between(Code x, Code y, const Format& f) {
  if (x == y) return 0;
  if (is_nan(x, f) || is_nan(y, f)) return 65;
  // Zeros of unlike signs differ in bits alone.
  return static_cast<std::uint64_t>(std::max(bit_length(ulp_distance(x, y, f)), 1));
}

Search prepare_search(const ValidateRequest& r, const SearchLimits& limits) {
  const bool usual_only = limits.usual_only;
  Search search{fitting_models(r, limits.of_gpu), {}, {}, 0, 0};
  if (search.classes.empty() && r.options.function.of != nullptr && r.a_format == "fp64"_fmt)
    throw Error("validate: an epilogue computes in FP32, and the sums of these operands are FP64");
  if (search.classes.empty() && r.model != nullptr)
    throw Error("validate: " + std::string(r.model->name.view()) + " does not take operands of these types");
  if (search.classes.empty()) throw Error("validate: no model takes operands of these types and gives such a result");
  const SumSpan span = span_of_sums(r);
  const std::size_t k = r.a.cols;
  std::vector<std::vector<Plan>> ladders;
  std::size_t longest = 0;
  for (const ModelClass& c : search.classes) {
    const bool narrow_output = !r.d_format.is_integer() && r.d_format.width() < c.models[0]->accumulator.format.width();
    const bool has_c = r.c.data != nullptr && r.c.pitch != 0, has_bias = r.c.data != nullptr && r.c.pitch == 0;
    ladders.push_back(r.plan ? std::vector<Plan>{*r.plan}
                             : plan_ladder({k, *c.models[0], has_c, has_bias, narrow_output}));
    longest = std::max(longest, ladders.back().size());
  }
  const std::vector<std::size_t> most_plans = plans_within_budget(search.classes, k, longest);
  Trial exact;  // all pairs that round nothing
  for (std::size_t c = 0; c < search.classes.size(); ++c) {
    const DotModel& m = *search.classes[c].models[0];
    search.models += search.classes[c].models.size();
    if (usual_only && !is_fast(m)) continue;
    std::vector<Plan>& plans = ladders[c];
    std::erase_if(plans, [&](const Plan& p) { return !plan_fits(r, m, p); });
    const bool is_exact = m.a.format != "tf32"_fmt && sums_exactly(m, span);
    const std::size_t most = is_exact || r.plan ? plans.size() : usual_only ? std::min<std::size_t>(most_plans[c], 32) : most_plans[c];
    std::map<SumKey, std::size_t> by_key;
    const std::size_t first_trial = search.trials.size();
    for (const Plan& plan : plans) {
      if (is_exact && plan.partials == Partials::wide && plan.c != PlaceOfC::after) {
        exact.members.push_back({c, plan}), ++search.pairs;
        continue;
      }
      const auto [place, added] = by_key.try_emplace(key_of(r, m, plan), search.trials.size());
      if (added && search.trials.size() - first_trial >= most) {
        by_key.erase(place);
        continue;
      }
      if (added) search.trials.emplace_back();
      search.trials[place->second].members.push_back({c, plan}), ++search.pairs;
    }
  }
  if (!exact.members.empty()) search.trials.insert(search.trials.begin(), std::move(exact));
  if (search.trials.empty() && r.plan)
    throw Error("validate: plan " + plan_text(*r.plan) + " fits no model that takes operands of these types");
  return search;
}

std::vector<OutputPlace> telling_outputs(const ValidateRequest& r, std::size_t count) {
  struct Telling {
    OutputPlace place;
    double turn;  // how far the sum is from where its rounding turns, in quanta of the output; 2: nothing known
  };
  std::vector<Telling> all;
  // A pool whose sums cost little: at most so many products in all, and so many values in memory.
  constexpr double most_products = 3e8, most_values = 4e6;
  const auto k = static_cast<double>(std::max<std::size_t>(r.a.cols, 1));
  const std::size_t items = std::min<std::size_t>(r.batch.count, 4);
  const double each = std::min(most_products / k / static_cast<double>(items), 65536.0);
  const std::size_t side = std::max<std::size_t>(4, static_cast<std::size_t>(std::min(std::sqrt(each), most_values / k / 2)));
  const bool narrow_output = !r.d_format.is_integer() && r.d_format.mantissa_bits < 23;
  for (const std::size_t item : spread(r.batch.count, items)) {
    std::vector<std::size_t> rows = spread(r.d.rows, narrow_output ? side : 8), cols = spread(r.d.cols, narrow_output ? side * side / std::max<std::size_t>(rows.size(), 1) : 8);
    const ValueSample s = sample_values(r, item, rows, cols);
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t j = 0; j < cols.size(); ++j) {
        const std::size_t at = s.at(i, j);
        double turn = 2;
        const double value = output_of(r, s.sum[at], s.c[at]);
        if (std::isfinite(value) && std::isfinite(s.found[at]) && narrow_output) {
          const int e = std::max(value == 0 ? -(1 << 20) : std::ilogb(value), r.d_format.min_exponent()) - r.d_format.mantissa_bits;
          const double quanta = std::abs(std::ldexp(value, -e));
          turn = value == 0 ? 1 : std::abs(quanta - std::floor(quanta) - 0.5);
        } else if (!std::isfinite(value) || !std::isfinite(s.found[at])) {
          turn = 3;
        }
        if (s.found[at] == 0) turn = std::max(turn, 1.0);  // many sums become one
        all.push_back({{item, rows[i], cols[j]}, turn});
      }
  }
  // Places in an order that does not follow rows, then by how much they tell.
  std::stable_sort(all.begin(), all.end(), [](const Telling& x, const Telling& y) {
    return mix_bits(x.place.row * 0x9E3779B97F4A7C15ull + x.place.col) < mix_bits(y.place.row * 0x9E3779B97F4A7C15ull + y.place.col);
  });
  std::stable_sort(all.begin(), all.end(), [](const Telling& x, const Telling& y) { return x.turn < y.turn; });
  std::vector<OutputPlace> places;
  for (std::size_t n = 0; n < all.size() && n < count; ++n) places.push_back(all[n].place);
  return places;
}

namespace {

// Every trial that is left, on one output.
class Round {
 public:
  Round(const ValidateRequest& r, Search& search, const OutputPlace& at, Finish finish) : r_(r), search_(search), at_(at), finish_(finish), item_(item_of(r, at.item)) {
    // Trials of one model and preparation of operands share what is decoded.
    std::map<std::pair<std::size_t, int>, std::size_t> place;
    for (std::size_t t = 0; t < search.trials.size(); ++t) {
      const Pair& p = search.trials[t].members.front();
      const auto [found, added] = place.try_emplace({p.models, static_cast<int>(p.plan.operands)}, groups_.size());
      if (added) groups_.push_back({p.models, {}, {}});
      groups_[found->second].trials.push_back(t);
    }
  }

  void run() {
    const Code found = item_.d(at_.row, at_.col) & r_.d_format.code_mask();
    parallel_parts(groups_.size(), 1, 0, [&](std::size_t g, std::size_t) { prepare(groups_[g]); });
    struct Task {
      std::size_t group, first, count;
    };
    constexpr std::size_t batch = 64;
    std::vector<Task> tasks;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t first = 0; first < groups_[g].trials.size(); first += batch)
        tasks.push_back({g, first, std::min(batch, groups_[g].trials.size() - first)});
    parallel_parts(tasks.size(), 1, 0, [&](std::size_t n, std::size_t) {
      const Task& task = tasks[n];
      const Group& group = groups_[task.group];
      const DotModel& m = *search_.classes[group.models].models.front();
      std::vector<ChainPlan> plans;
      std::vector<const ChainPlan*> pointers;
      for (std::size_t t = 0; t < task.count; ++t)
        plans.push_back(chain_plan(search_.trials[group.trials[task.first + t]].members.front().plan, m, r_.a.cols, r_.d.rows, r_.d.cols, at_.row, at_.col));
      for (const ChainPlan& plan : plans) pointers.push_back(&plan);
      std::vector<Code> codes(task.count);
      group.output.front().codes(pointers, codes, finish_);
      for (std::size_t t = 0; t < task.count; ++t) {
        Trial& trial = search_.trials[group.trials[task.first + t]];
        ++(codes[t] == found ? trial.hits : trial.misses);
        trial.distance += distance_between(codes[t], found, r_.d_format);
      }
    });
  }

 private:
  struct Group {
    std::size_t models;
    std::vector<std::size_t> trials;
    std::vector<OutputUnderPlans> output;  // one
  };

  void prepare(Group& group) {
    const DotModel& m = *search_.classes[group.models].models.front();
    const Plan& plan = search_.trials[group.trials.front()].members.front().plan;
    const Format& accumulator = m.accumulator.format;
    const Product p{m, plan, item_.a, item_.b, item_.c, r_.options, r_.d_format, r_.options.c_format.value_or(accumulator), r_.d.rows, r_.d.cols, r_.a.cols};
    group.output.emplace_back(p, at_.row, at_.col);
  }

  const ValidateRequest& r_;
  Search& search_;
  const OutputPlace at_;
  const Finish finish_;
  const ProductItem item_;
  std::vector<Group> groups_;
};

double round_cost(const Search& search, std::size_t k) {
  double cost = 0;
  for (const Trial& t : search.trials) cost += cost_of(search.model(t.members.front())) * static_cast<double>(k);
  return cost;
}

}  // namespace

namespace {

// See sift(); of one kind of models.
bool sift_alike(const ValidateRequest& r, Search& search, Finish finish, double from, double to) {
  double spent = 0;
  std::uint32_t tried = 0;
  for (const OutputPlace& place : search.outputs) {
    const double cost = round_cost(search, r.a.cols);
    if (tried >= first_look && (spent += cost) > later_budget) break;
    Round(r, search, place, finish).run();
    ++tried;
    if (r.progress) r.progress(from + (to - from) * std::min(1.0, tried / 8.0));
    if (tried < std::min<std::size_t>(first_look, search.outputs.size())) continue;
    const auto best = std::max_element(search.trials.begin(), search.trials.end(), [](const Trial& x, const Trial& y) {
      return std::pair(x.hits, -static_cast<std::int64_t>(x.distance)) < std::pair(y.hits, -static_cast<std::int64_t>(y.distance));
    });
    if (best->hits * 2 < tried) {
      const Trial nearest = best->hits == 0 ? search.trials.front() : *best;
      search.trials.assign(1, nearest);
      return false;
    }
    const std::uint32_t most = best->hits;
    const bool strict = tried >= 2 * first_look;  // by then only the truth has most hits
    std::erase_if(search.trials, [&](const Trial& t) { return strict ? t.hits < most : t.hits * 2 < tried; });
    if (strict && search.trials.size() == 1) break;
  }
  std::uint32_t most = 0;
  for (const Trial& t : search.trials) most = std::max(most, t.hits);
  std::erase_if(search.trials, [&](const Trial& t) { return t.hits < most; });
  return true;
}

}  // namespace

void ask(const ValidateRequest& r, Search& search, const std::vector<OutputPlace>& places, Finish finish) {
  for (const OutputPlace& place : places) Round(r, search, place, finish).run();
}

bool sift(const ValidateRequest& r, Search& search, Finish finish, double from, double to) {
  Search slow = search;
  const auto is_slow = [&](const Trial& t) { return !is_fast(search.model(t.members.front())); };
  std::erase_if(slow.trials, [&](const Trial& t) { return !is_slow(t); });
  std::erase_if(search.trials, is_slow);
  const bool fast_found = !search.trials.empty() && sift_alike(r, search, finish, from, (from + to) / 2);
  const bool fast_exact = fast_found && search.trials.front().misses == 0;
  if (fast_exact)  // a slow model with these bits sums as one of those that were found, or in one chain
    std::erase_if(slow.trials, [&](const Trial& t) {
      return t.members.front().plan.order != SumOrder::chain &&
             std::none_of(search.trials.begin(), search.trials.end(), [&](const Trial& f) {
               return std::any_of(f.members.begin(), f.members.end(),
                                  [&](const Pair& p) { return p.plan == t.members.front().plan; });
             });
    });
  if (slow.trials.empty()) return fast_found;
  const bool slow_found = sift_alike(r, slow, finish, (from + to) / 2, to);
  // Those of the better kind, and both where they are alike: no misses, or half of the outputs hit.
  const bool slow_exact = slow_found && slow.trials.front().misses == 0;
  const auto rank = [](bool found, bool exact) { return exact ? 2 : found ? 1 : 0; };
  const int fast_rank = search.trials.empty() ? -1 : rank(fast_found, fast_exact), slow_rank = rank(slow_found, slow_exact);
  if (slow_rank > fast_rank)
    search.trials = std::move(slow.trials);
  else if (slow_rank == fast_rank && slow_rank > 0)
    search.trials.insert(search.trials.end(), slow.trials.begin(), slow.trials.end());
  return fast_found || slow_found;
}

}  // namespace narrow::detail
