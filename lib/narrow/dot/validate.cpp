#include "narrow/dot/validate.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/dot/full_product.hpp"
#include "narrow/dot/gemm_checks.hpp"
#include "narrow/dot/likelihood.hpp"
#include "narrow/dot/misplaced.hpp"
#include "narrow/dot/operand.hpp"
#include "narrow/dot/relations.hpp"
#include "narrow/dot/telling_test.hpp"
#include "narrow/dot/trials.hpp"

namespace narrow {

namespace {

using namespace detail;

void check_request(const ValidateRequest& r) {
  const auto shape = [](const CodeMatrix& m) { return std::to_string(m.rows) + "x" + std::to_string(m.cols); };
  if (r.a.rows == 0 || r.a.cols == 0 || r.b.cols == 0 || r.batch.count == 0)
    throw Error("validate: empty matrices (A " + shape(r.a) + ", B " + shape(r.b) + ") tell nothing");
  if (r.a.cols != r.b.rows) throw Error("validate: A is " + shape(r.a) + " and B is " + shape(r.b) + ": A must have as many columns as B has rows");
  if (r.d.rows != r.a.rows || r.d.cols != r.b.cols)
    throw Error("validate: A B is " + std::to_string(r.a.rows) + "x" + std::to_string(r.b.cols) + " and D is " + shape(r.d));
  if (r.c.data != nullptr && (r.c.rows != r.d.rows || r.c.cols != r.d.cols))
    throw Error("validate: D is " + shape(r.d) + " and C is " + shape(r.c));
  for (const auto& [name, matrix, format] :
       {std::tuple{"A", &r.a, &r.a_format}, {"B", &r.b, &r.b_format}, {"D", &r.d, &r.d_format}})
    detail::check_codes(name, *matrix, *format, *format == "tf32"_fmt && matrix != &r.d);
  detail::check_scales(r.options, r.d.rows, r.d.cols, r.a.cols);
  if (r.model != nullptr) detail::check_blocks(*r.model, r.options, r.d.rows, r.d.cols, r.a.cols);
  for (std::size_t item = 0; item < r.batch.count; ++item)
    for (std::size_t i = 0; i < r.d.rows; ++i)
      for (std::size_t j = 0; j < r.d.cols; ++j)
        if (!is_nan(item_of(r, item).d(i, j), r.d_format)) return;
  throw Error("validate: every element of D is NaN: nothing can be told from it");
}

// A search with what it found on all of D.
struct Explained {
  Search search;
  bool any = false;           // something explains half of the sampled outputs
  std::vector<Trial> exact;   // give all bits
  std::vector<Trial> likely;  // give all bits of the most telling outputs; all of them were too many to compute
  Trial closest;              // where nothing is exact
  FullComparison full;        // of the closest, where it was held against all of D
  double equal_share = 0;     // of the outputs that the closest gives
};

// What may be spent to confirm what comes after the first, in nanoseconds of one core.
constexpr double confirm_budget = 2.5e9;
constexpr std::size_t most_failures = 4;
constexpr double mostly = 0.9;  // equal outputs from which on the arithmetic is right and the others are wrong
constexpr std::size_t kept_differences = std::size_t{1} << 20;

// Where several gave all bits of the telling outputs: the first rows of D, which cost a small part of it, leave few.
void look_again(const ValidateRequest& r, Search& search, Finish finish) {
  constexpr std::size_t rows = 128, most = 48;
  if (search.trials.size() < 2 || r.d.rows < 4 * rows) return;
  std::vector<Trial> right, others;
  std::size_t asked = 0;
  for (const Trial& t : search.trials) {
    const Pair& first = t.members.front();
    if (!is_fast(search.model(first)) || (t.misses == 0 && asked++ >= most)) others.push_back(t);
    else if (t.misses == 0 &&
             compare_all(r, search.model(first), first.plan, {.finish = finish, .rows = rows}).wrong == 0)
      right.push_back(t);
  }
  if (right.empty()) return;
  right.insert(right.end(), others.begin(), others.end());
  search.trials = std::move(right);
}

// One that was right on the telling outputs is wrong elsewhere: there the others are asked next, and those that are
// wrong too need no comparison with all of D.
void drop_wrong(const ValidateRequest& r, Search& search, std::size_t first,
                const std::vector<OutputDifference>& differences, Finish finish) {
  constexpr std::size_t asked = 8;
  std::vector<OutputPlace> places;
  for (const OutputDifference& d : differences)
    if (places.size() < asked) places.push_back({d.item, d.row, d.col});
  Search others = search;
  others.trials.erase(others.trials.begin(), others.trials.begin() + static_cast<std::ptrdiff_t>(first));
  for (Trial& t : others.trials) t.hits = t.misses = 0;
  ask(r, others, places, finish);
  std::size_t n = first;
  for (const Trial& t : others.trials) {
    if (t.misses == 0) search.trials[n++] = search.trials[static_cast<std::size_t>(&t - others.trials.data()) + first];
  }
  search.trials.resize(n);
}

Explained explain(const ValidateRequest& r, Search search, Finish finish, double from, double to) {
  Explained e{std::move(search), false, {}, {}, {}, {}, 0};
  constexpr std::size_t outputs = 96;
  e.search.outputs = telling_outputs(r, outputs);
  const double middle = from + (to - from) / 2;
  e.any = !e.search.trials.empty() && sift(r, e.search, finish, from, middle);
  if (e.search.trials.empty()) return e;
  e.closest = e.search.trials.front();
  if (!e.any) return e;
  const double products = static_cast<double>(r.batch.count) * static_cast<double>(r.d.rows) *
                          static_cast<double>(r.d.cols) * static_cast<double>(r.a.cols);
  const auto cost_of_trial = [&](const Trial& t) { return cost_of(e.search.model(t.members.front())) * products; };
  std::stable_partition(e.search.trials.begin(), e.search.trials.end(), [&](const Trial& t) { return is_fast(e.search.model(t.members.front())); });
  look_again(r, e.search, finish);
  double spent = 0;
  std::size_t failed = 0;
  for (std::size_t n = 0; n < e.search.trials.size(); ++n) {
    const Trial t = e.search.trials[n];
    // The first is always held against all of D, and those after it that missed nothing until one of them is right.
    const double cost = cost_of_trial(t);
    const bool open = e.exact.empty() && (spent == 0 || (t.misses == 0 && failed < most_failures));
    if (!open && spent + cost > confirm_budget) {
      if (!e.exact.empty()) e.likely.push_back(t);
      continue;
    }
    spent += cost;
    const auto progress = [&](double share) {
      if (r.progress && e.exact.empty()) r.progress(middle + (to - middle) * share);
    };
    const Pair& first = t.members.front();
    // What is wrong in the first is kept for the report. Those after it end where they differ: the share tells.
    const bool report = finish == Finish::as_asked && failed == 0 && e.exact.empty();
    FullComparison full = compare_all(r, e.search.model(first), first.plan,
                                      {.finish = finish,
                                       .differences = report ? kept_differences : 1,
                                       .stop_when_wrong = failed != 0 || !e.exact.empty(),
                                       .keep_expected = report},
                                      progress);
    if (full.wrong == 0) e.exact.push_back(t);
    else if (e.exact.empty() && t.misses == 0 && n + 1 < e.search.trials.size())
      drop_wrong(r, e.search, n + 1, full.differences, finish);
    if (full.wrong != 0) ++failed;
    const double share = static_cast<double>(full.equal) / static_cast<double>(full.equal + full.wrong);
    if (share > e.equal_share) e.equal_share = share, e.closest = t, e.full = std::move(full);
  }
  return e;
}

// What most kernels do: one chain, or long parts in their order.
bool is_usual(const Plan& p) {
  constexpr int shortest = 64;
  return p.join == Join::in_order && (p.order == SumOrder::chain || ((p.order == SumOrder::promote || p.order == SumOrder::split) && p.length >= shortest));
}

// Every model of every class with its plans, the likeliest first: usual plans of the newest generation.
std::vector<Candidate> named(const ValidateRequest& r, const Search& search, const std::vector<Trial>& trials, std::uint64_t compared) {
  struct Entry {
    Candidate candidate;
    int unlikely;
    bool usual;
  };
  std::vector<Entry> entries;
  for (const Trial& t : trials)
    for (std::size_t n = 0; n < t.members.size(); ++n)
      for (const DotModel* m : search.classes[t.members[n].models].models)
        entries.push_back({{m, t.members[n].plan, compared != 0 ? compared : t.compared()}, unlikelihood(*m, r.gpu), is_usual(t.members[n].plan)});
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& x, const Entry& y) { return std::pair(!x.usual, x.unlikely) < std::pair(!y.usual, y.unlikely); });
  std::vector<Candidate> out;
  for (const Entry& e : entries) out.push_back(e.candidate);
  return out;
}

std::string name_of(const Candidate& c) { return std::string(c.model->name.view()) + ", " + plan_text(c.plan); }

// One candidate for each arithmetic among them.
std::vector<Candidate> unlike(const Search& search, const std::vector<Trial>& exact, const std::vector<Trial>& likely) {
  std::vector<Candidate> out;
  for (const auto* trials : {&exact, &likely})
    for (const Trial& t : *trials)
      for (const Pair& p : t.members) {
        const DotModel& m = search.model(p);
        // Of one proved group a pair of each model, and of each plan of the first model.
        const bool known = std::any_of(out.begin(), out.end(), [&](const Candidate& c) { return c.model == &m; });
        if (!known || &m == out.front().model || &p == &t.members.front()) out.push_back({&m, p.plan, 0});
      }
  return out;
}

void set_exact(ValidateResult& result, const ValidateRequest& r, const Explained& e) {
  result.exact = true;
  result.equal_count = result.total;
  result.ulp_counts[0] = result.total;
  result.candidates = named(r, e.search, e.exact, result.total);
  const std::vector<Candidate> likely = named(r, e.search, e.likely, 0);
  result.candidates.insert(result.candidates.end(), likely.begin(), likely.end());
  const std::vector<Candidate> kinds = unlike(e.search, e.exact, e.likely);
  result.differences = differences_of(kinds);
  result.telling = telling_test(r, kinds);
}

std::optional<FailingDot> smallest_failure(const ValidateRequest& r, const DotModel& m, const Plan& plan, const FullComparison& full) {
  std::optional<FailingDot> best;
  std::size_t best_products = ~std::size_t{0};
  for (const OutputDifference& d : full.differences) {
    const ProductItem item = item_of(r, d.item);
    const OperandCodes a(item.a, m.a.format, plan.operands), b(item.b, m.b.format, plan.operands);
    std::size_t products = 0;
    for (std::size_t k = 0; k < r.a.cols; ++k)
      products += magnitude_of(a(d.row, k), m.a.format) != 0 && magnitude_of(b(k, d.col), m.b.format) != 0 ? 1 : 0;
    if (products >= best_products) continue;
    best_products = products;
    best = FailingDot{d.row, d.col, d.item, {}, {}, item.c.data != nullptr ? item.c(d.row, d.col) : 0, d.expected, d.found};
  }
  if (!best) return best;
  const ProductItem item = item_of(r, best->item);
  const OperandCodes a(item.a, m.a.format, plan.operands), b(item.b, m.b.format, plan.operands);
  for (std::size_t k = 0; k < r.a.cols; ++k) best->a.push_back(a(best->row, k)), best->b.push_back(b(k, best->col));
  while (best->a.size() > 1 && magnitude_of(best->a.back(), m.a.format) == 0 && magnitude_of(best->b.back(), m.b.format) == 0)
    best->a.pop_back(), best->b.pop_back();
  return best;
}

// All of D against the candidate that is named, for the numbers of the report and for where it differs.
void set_closest(ValidateResult& result, const ValidateRequest& r, std::vector<Candidate> candidates, bool look_where,
                 FullComparison full = {}) {
  constexpr std::size_t products_looked_at = std::size_t{1} << 21;
  const std::size_t looked_at = std::max<std::size_t>(16, products_looked_at / r.a.cols);
  const Candidate& first = candidates.front();
  if (full.equal + full.wrong != result.total)
    full = compare_all(r, *first.model, first.plan, {.differences = kept_differences, .keep_expected = look_where});
  result.candidates = std::move(candidates);
  result.equal_count = full.equal, result.max_ulp = full.max_ulp, result.nan_mismatch = full.nan_mismatch;
  result.ulp_counts = full.ulp_counts;
  if (look_where)
    for (std::string& sentence : misplaced(r, full)) result.suspicions.push_back(std::move(sentence));
  if (full.differences.size() > looked_at) full.differences.resize(looked_at);  // enough to find a short one
  result.failing = smallest_failure(r, *result.candidates.front().model, result.candidates.front().plan, full);
}

// D is something else of the product. Where it can be said in bits, who made it?
void set_relation(ValidateResult& result, const ValidateRequest& r, const Relation& relation) {
  result.relation = relation.name;
  std::string sentence = relation.sentence;
  std::vector<Candidate> candidates;
  if (relation.under) {
    ValidateRequest under = *relation.under;
    under.progress = r.progress;
    const Explained e = explain(under, prepare_search(under), relation.finish, 0.1, 0.8);
    if (!e.exact.empty()) {
      candidates = named(r, e.search, e.exact, result.total);
      const std::string first = name_of(candidates.front());
      // What the request cannot ask of a plan (a function of FP64 sums) is no candidate for it.
      std::erase_if(candidates, [&](const Candidate& c) { return !plan_problem(*c.model, c.plan, r.options).empty(); });
      const std::uint64_t left = static_cast<std::uint64_t>(under.batch.count) * under.d.rows * under.d.cols;
      sentence += "; with that, " + first + " gives every bit" +
                  (left == result.total ? "" : " of the " + std::to_string(left) + " outputs that this leaves");
    }
    result.models_tried = e.search.models, result.plans_tried = e.search.pairs;
  }
  result.suspicions.push_back(std::move(sentence));
  if (candidates.empty()) {
    Explained e = explain(r, prepare_search(r), Finish::as_asked, 0.1, 0.5);
    candidates = named(r, e.search, {e.closest}, 0);
    result.models_tried = e.search.models, result.plans_tried = e.search.pairs;
    return set_closest(result, r, std::move(candidates), false, std::move(e.full));
  }
  set_closest(result, r, std::move(candidates), false);
}

// The function as asked, by value, of sums that were rounded before it, or were not.
bool set_other_place(ValidateResult& result, const ValidateRequest& r) {
  if (r.options.function.of == nullptr) return false;
  ValidateRequest other = r;
  other.progress = {};
  other.options.rounds_before = !r.options.rounds_before;
  const Explained e = explain(other, prepare_search(other), Finish::as_asked, 0.5, 0.8);
  if (e.exact.empty()) return false;
  std::vector<Candidate> candidates = named(other, e.search, e.exact, result.total);
  const std::string name(r.options.function.name);
  result.relation = r.options.rounds_before ? name + " of the sum" : name + " of the rounded sum";
  result.suspicions.push_back((r.options.rounds_before ? name + " was applied to the sum before it was rounded, in one kernel"
                                                       : name + " was applied to the sum after it was rounded, as by a kernel of its own") +
                              "; with that, " + name_of(candidates.front()) + " gives every bit");
  set_closest(result, r, std::move(candidates), false);
  return true;
}

// The product as asked, by value, whose outputs were rounded in another way.
bool set_otherwise_rounded(ValidateResult& result, const ValidateRequest& r) {
  struct Way {
    Finish finish;
    const char* sentence;
    bool possible;
  };
  if (r.options.rounds_before) return false;  // the sum was rounded, and what follows in FP32 is not asked again
  const bool narrow_output = !r.d_format.is_integer() && r.d_format.width() < 32;
  const auto holds = [&](const Format& f) {  // every output, and FP32 holds more
    if (r.d_format != "fp32"_fmt) return false;
    for (std::size_t item = 0; item < r.batch.count; ++item) {
      const CodeMatrix d = item_of(r, item).d;
      for (std::size_t i = 0; i < d.rows; ++i)
        for (std::size_t j = 0; j < d.cols; ++j)
          if (const Code code = d(i, j); convert(convert(code, "fp32"_fmt, f), f, "fp32"_fmt) != code) return false;
    }
    return true;
  };
  const Way ways[] = {
      {Finish::through_fp16, "the output was rounded twice: to fp16 first", narrow_output && r.d_format != "fp16"_fmt},
      {Finish::through_bf16, "the output was rounded twice: to bf16 first", narrow_output && r.d_format != "bf16"_fmt},
      {Finish::through_tf32, "the output was rounded twice: to tf32 first", narrow_output},
      {Finish::through_fp16, "every output is an fp16 number: it was rounded to fp16 and stored as fp32",
       holds("fp16"_fmt)},
      {Finish::through_bf16, "every output is a bf16 number: it was rounded to bf16 and stored as fp32",
       holds("bf16"_fmt)},
      {Finish::through_tf32, "every output is a tf32 number: it was rounded to tf32 and stored as fp32",
       holds("tf32"_fmt)}};
  for (const Way& way : ways) {
    if (!way.possible) continue;
    const Explained e = explain(r, prepare_search(r, {.usual_only = true}), way.finish, 0.5, 0.8);
    if (e.exact.empty()) continue;
    std::vector<Candidate> candidates = named(r, e.search, e.exact, result.total);
    result.relation = narrow_output ? "rounded twice" : "rounded to less";
    result.suspicions.push_back(std::string(way.sentence) + "; with that, " + name_of(candidates.front()) + " gives every bit");
    set_closest(result, r, std::move(candidates), false);
    return true;
  }
  return false;
}

}  // namespace

ValidateResult validate(const ValidateRequest& r) {
  check_request(r);
  ValidateResult result;
  result.total = static_cast<std::uint64_t>(r.batch.count) * r.d.rows * r.d.cols;
  Search search = prepare_search(r, {.of_gpu = true});  // what fits no model is said before the work
  const ValueVerdict values = look_at_values(r);
  if (values.relation) {
    set_relation(result, r, *values.relation);
  } else {
    Explained e = explain(r, std::move(search), Finish::as_asked, 0.05, r.gpu ? 0.5 : 0.9);
    if (r.gpu && e.exact.empty()) e = explain(r, prepare_search(r), Finish::as_asked, 0.5, 0.9);  // some other GPU?
    result.models_tried = e.search.models, result.plans_tried = e.search.pairs;
    const auto is_told = [&] {
      return values.is_product && (set_other_place(result, r) || (e.equal_share <= mostly && set_otherwise_rounded(result, r)));
    };
    if (!e.exact.empty()) set_exact(result, r, e);
    else if (!is_told())
      set_closest(result, r, named(r, e.search, {e.closest}, 0), true, std::move(e.full));
  }
  if (r.progress) r.progress(1);
  return result;
}

}  // namespace narrow
