#include "narrow/dot/under_plans.hpp"

#include <algorithm>

#include "narrow/dot/chain_by_dot.hpp"
#include "narrow/dot/gemm_checks.hpp"
#include "narrow/dot/kernels.hpp"
#include "narrow/dot/packed.hpp"

namespace narrow::detail {

namespace {

using Plans = std::span<const ChainPlan* const>;
using Order = std::vector<std::int32_t>;

// The chains of up to sixteen plans in step: all lanes take the same products, and where a chain of one of them ends its
// sum is put aside and the lane begins again. False when the lanes cannot tell the sums.
template <class Sum, class Lanes>
bool run_lanes(Plans plans, const Sum* starts, std::vector<Sum>* parts, Lanes&& lanes) {
  Sum sums[lane_columns] = {};
  std::size_t next[lane_columns] = {}, at = 0;
  std::copy_n(starts, plans.size(), sums);
  while (true) {
    std::size_t end = ~std::size_t{0};
    for (std::size_t lane = 0; lane < plans.size(); ++lane)
      if (next[lane] < plans[lane]->ends.size()) end = std::min(end, plans[lane]->ends[next[lane]]);
    if (end == ~std::size_t{0}) return true;
    if (!lanes.advance(sums, at, end)) return false;
    at = end;
    for (std::size_t lane = 0; lane < plans.size(); ++lane)
      if (next[lane] < plans[lane]->ends.size() && plans[lane]->ends[next[lane]] == end) {
        parts[lane].push_back(sums[lane]);
        sums[lane] = 0, ++next[lane];
        lanes.begin_again(lane);
      }
  }
}

template <class Real>
struct FusedChains {
  const DotModel& model;
  LaneConstants constants;
  std::vector<Real> products;            // by position
  std::vector<std::int16_t> exponents;  // the largest of each step

  bool advance(float (&sums)[lane_columns], std::size_t begin, std::size_t end) const {
    const auto step = static_cast<std::size_t>(model.products_per_step);
    return shared_kernel(Real{})(model, constants, {products.data() + begin, exponents.data() + begin / step}, end - begin, sums);
  }
  void begin_again(std::size_t) const {}
};

// The machine's own arithmetic. Kahan's compensation begins anew with a chain.
template <class Real>
struct NativeLanes {
  const Real *a, *b;
  DotRule rule;  // an FMA of a product that is exact is the addition of it, and was made one
  Real lost[lane_columns] = {};

  bool advance(Real (&sums)[lane_columns], std::size_t begin, std::size_t end) {
    if (rule == DotRule::fma_chain) {
      shared_fma(Real{})(a + begin, b + begin, end - begin, sums);
      begin = end;
    }
    for (std::size_t k = begin; k < end; ++k) {
      const Real product = a[k] * b[k];
      if (rule == DotRule::multiply_add) {
        for (Real& sum : sums) sum += product;
      } else {
        for (std::size_t lane = 0; lane < lane_columns; ++lane) {
          const Real term = product - lost[lane], sum = sums[lane] + term;
          lost[lane] = (sum - sums[lane]) - term;
          sums[lane] = sum;
        }
      }
    }
    return std::all_of(sums, sums + lane_columns, [](Real x) { return std::isfinite(x); });
  }
  void begin_again(std::size_t lane) { lost[lane] = 0; }
};

struct RoundedChains {
  const float *a, *b;
  RoundedLanes lanes;

  bool advance(float (&sums)[lane_columns], std::size_t begin, std::size_t end) const {
    return dot_kernels().rounded_shared(lanes, a + begin, b + begin, end - begin, sums);
  }
  void begin_again(std::size_t) const {}
};

// The balanced tree of software_sum.hpp.
template <class Real>
Real tree_sum(const Real* a, const Real* b, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return a[begin] * b[begin];
  constexpr std::size_t leaf = 16;  // neighbours in pairs, four times
  if (end - begin == leaf) {
    Real sums[leaf];
    for (std::size_t n = 0; n < leaf; ++n) sums[n] = a[begin + n] * b[begin + n];
    for (std::size_t width = leaf / 2; width > 0; width /= 2)
      for (std::size_t n = 0; n < width; ++n) sums[n] = sums[2 * n] + sums[2 * n + 1];
    return sums[0];
  }
  const std::size_t middle = begin + std::bit_ceil(end - begin) / 2;
  return tree_sum(a, b, begin, middle) + tree_sum(a, b, middle, end);
}

// A sum that is rounded on the way to its output in a way that nobody asked for.
template <class Sum>
Code finish_otherwise(const Product& p, Sum sum, std::size_t i, std::size_t j, Finish how) {
  if (how == Finish::relu) return relu_of(finish(p, sum, i, j), p.output);
  const Format fp32 = "fp32"_fmt, between = how == Finish::through_fp16   ? "fp16"_fmt
                                            : how == Finish::through_bf16 ? "bf16"_fmt
                                                                          : "tf32"_fmt;
  const Product wide{p.model, p.plan, p.a, p.b, p.c, p.options, fp32, p.c_format, p.rows, p.cols, p.k};
  return convert(convert(finish(wide, sum, i, j), fp32, between), between, p.output);
}

}  // namespace

ChainPlan chain_plan(const Plan& plan, const DotModel& model, std::size_t k, std::size_t rows, std::size_t cols,
                     std::size_t row, std::size_t col) {
  ChainPlan out{plan, {}, {}};
  if (plan.residue == 0 && plan.order != SumOrder::slice && plan.order != SumOrder::blocks) {
    const std::size_t unit = chain_unit(model);
    out.ends = plan_cuts(plan, model, k, rows, cols, row, col);
    out.ends.erase(out.ends.begin());
    out.ends.back() = (k + unit - 1) / unit * unit;
    if (std::all_of(out.ends.begin(), out.ends.end(), [&](std::size_t end) { return end % unit == 0; })) return out;
  }
  Schedule schedule = make_schedule(plan, model, k, rows, cols, row, col);
  out.order = std::move(schedule.order);
  out.ends.clear();
  for (const Segment& s : schedule.segments) out.ends.push_back(s.end);
  return out;
}

struct OutputUnderPlans::Operands {
  const Product request;
  std::size_t row, col;
  EngineKind engine;
  std::vector<Code> a, b;          // by k
  std::vector<float> fa, fb;       // where a float holds them
  std::vector<double> da, db;      // for sums in double
  std::vector<int> exponent;       // of each product, where products are fused
  int lowest = 1 << 20, highest = -(1 << 20);
  bool special = false;

  Operands(const Product& r, std::size_t i, std::size_t j) : request(r), row(i), col(j), engine(engine_of(r.model)) {
    const DotModel& m = request.model;
    const OperandCodes x(r.a, m.a.format, r.plan.operands), y(r.b, m.b.format, r.plan.operands);
    a.resize(r.k), b.resize(r.k);
    for (std::size_t k = 0; k < r.k; ++k) a[k] = x(i, k), b[k] = y(k, j);
    if (engine == EngineKind::none || engine == EngineKind::integer) return;
    if (engine == EngineKind::native_double) {
      for (std::size_t k = 0; k < r.k; ++k) da.push_back(decode(a[k], m.a.format)), db.push_back(decode(b[k], m.b.format));
      return;
    }
    const bool widens = m.rule == DotRule::fused_pair_then_add;
    const auto factor = [&](Code code, const Format& f) {
      return lane_factor<float, std::int16_t>(widens ? convert(code, f, "fp16"_fmt) : code, widens ? "fp16"_fmt : f);
    };
    for (std::size_t k = 0; k < r.k; ++k) {
      const auto u = factor(a[k], m.a.format), v = factor(b[k], m.b.format);
      special = special || u.special || v.special;
      fa.push_back(u.value), fb.push_back(v.value);
      const bool zero = u.value == 0 || v.value == 0;
      exponent.push_back(zero ? 2 * zero_exponent<std::int16_t> : u.exponent + v.exponent);
      if (!zero) lowest = std::min(lowest, exponent.back()), highest = std::max(highest, exponent.back());
    }
  }

  Product with(const Plan& plan) const {
    return {request.model, plan, request.a, request.b, request.c, request.options, request.output, request.c_format,
            request.rows, request.cols, request.k};
  }
  Code start_of(const Plan& plan) const {
    const Format& f = request.model.accumulator.format;
    return with(plan).c_starts() ? convert(request.c(row, col), request.c_format, f) : f.zero_code();
  }
  // Which k stands at a position; -1: a zero product.
  std::int32_t k_at(const ChainPlan& chains, std::size_t at) const {
    return !chains.order.empty() ? chains.order[at] : at < request.k ? static_cast<std::int32_t>(at) : -1;
  }

  // In the lanes the products of one fused step stand side by side: k mod 4 in {0, 1} of an instruction first, then {2, 3}.
  template <class Real>
  FusedChains<Real> fused(const ChainPlan& chains) const {
    const DotModel& m = request.model;
    const auto step = static_cast<std::size_t>(m.products_per_step), pair = static_cast<std::size_t>(m.instruction_k);
    const std::size_t positions = chains.ends.back();
    FusedChains<Real> lanes{m, lane_constants(m), std::vector<Real>(positions), {}};
    lanes.exponents.assign(positions / step, 2 * zero_exponent<std::int16_t>);
    for (std::size_t at = 0; at < positions; ++at) {
      const std::int32_t k = k_at(chains, at);
      if (k < 0) continue;
      std::size_t to = at;
      if (m.rule == DotRule::fused_pair_then_add) {
        const std::size_t in = at % pair;
        to = at - in + (in & 2) / 2 * (pair / 2) + in / 4 * 2 + (in & 1);
      }
      const auto n = static_cast<std::size_t>(k);
      lanes.products[to] = static_cast<Real>(fa[n]) * static_cast<Real>(fb[n]);
      std::int16_t& largest = lanes.exponents[to / step];
      largest = std::max(largest, static_cast<std::int16_t>(exponent[n]));
    }
    return lanes;
  }

  template <class Real>
  bool native(Plans plans, const Real* starts, std::vector<Real>* parts, const std::vector<Real>& x, const std::vector<Real>& y) const {
    std::vector<Real> ordered_x, ordered_y;
    const Real *u = x.data(), *v = y.data();
    if (!plans[0]->order.empty()) {
      const auto at = [](const std::vector<Real>& values, std::int32_t k) {
        return k < 0 ? Real{} : values[static_cast<std::size_t>(k)];  // -1: a zero product
      };
      for (const std::int32_t k : plans[0]->order) ordered_x.push_back(at(x, k)), ordered_y.push_back(at(y, k));
      u = ordered_x.data(), v = ordered_y.data();
    }
    if (request.model.rule != DotRule::pairwise) {
      const bool adds = std::is_same_v<Real, float> && request.model.rule == DotRule::fma_chain && holds_products(request.model, lowest, highest);
      return run_lanes(plans, starts, parts, NativeLanes<Real>{u, v, adds ? DotRule::multiply_add : request.model.rule, {}});
    }
    for (std::size_t lane = 0; lane < plans.size(); ++lane) {
      std::size_t begin = 0;
      Real sum = starts[lane];
      for (const std::size_t end : plans[lane]->ends) {
        if (end > begin) sum = tree_sum(u, v, begin, end) + sum;
        if (!std::isfinite(sum)) return false;
        parts[lane].push_back(sum);
        sum = 0, begin = end;
      }
    }
    return true;
  }

  bool lanes(Plans plans, const double* starts, std::vector<double>* parts) const {
    return engine == EngineKind::native_double && native(plans, starts, parts, da, db);
  }
  bool lanes(Plans, const std::int32_t*, std::vector<std::int32_t>*) const { return false; }
  bool lanes(Plans plans, const float* starts, std::vector<float>* parts) const {
    if (special || plans[0]->ends.back() == 0) return false;
    const auto finite = [](float x) { return std::isfinite(x); };
    if (!std::all_of(starts, starts + plans.size(), finite)) return false;
    switch (engine) {
      case EngineKind::fused_bytes:
      case EngineKind::fused_words:
        // Floats carry every product and its quanta when no exponent of a product is below -100 or above 124.
        if (lowest >= -100 && highest <= 124) return run_lanes(plans, starts, parts, fused<float>(*plans[0]));
        return run_lanes(plans, starts, parts, fused<double>(*plans[0]));
      case EngineKind::native_float: return native(plans, starts, parts, fa, fb);
      case EngineKind::rounded: {
        const bool odd_start = std::any_of(starts, starts + plans.size(), [](float x) { return x == 0 && std::signbit(x); });
        if (odd_start || !plans[0]->order.empty() || !holds_products(request.model, lowest, highest)) return false;
        const RoundedLanes rounded(request.model.accumulator.format, dot_kernels().has_half);
        return run_lanes(plans, starts, parts, RoundedChains{fa.data(), fb.data(), rounded});
      }
      default: return false;
    }
  }

  template <class Sum>
  void by_dot(const ChainPlan& chains, std::vector<Sum>& parts) const {
    const DotModel& m = request.model;
    const Format& f = m.accumulator.format;
    const auto x = [&](std::size_t, std::size_t k) { return a[k]; };
    const auto y = [&](std::size_t k, std::size_t) { return b[k]; };
    std::size_t begin = 0;
    Code start = start_of(chains.plan);
    for (const std::size_t end : chains.ends) {
      const Code code = chain_by_dot(request, x, y, row, col, [&](std::size_t at) { return k_at(chains, at); }, begin, end, start);
      parts.push_back(to_sum(code, f, Sum{}));
      start = f.zero_code(), begin = end;
    }
  }

  template <class Sum>
  void run(Plans plans, Code* out, Finish how) const {
    std::vector<Sum> parts[lane_columns];
    Sum starts[lane_columns] = {};
    for (std::size_t lane = 0; lane < plans.size(); ++lane)
      starts[lane] = to_sum(start_of(plans[lane]->plan), request.model.accumulator.format, Sum{});
    if (!lanes(plans, starts, parts))
      for (std::size_t lane = 0; lane < plans.size(); ++lane) {
        parts[lane].clear();
        by_dot(*plans[lane], parts[lane]);
      }
    for (std::size_t lane = 0; lane < plans.size(); ++lane) {
      const ChainPlan& chains = *plans[lane];
      const Product p = with(chains.plan);
      const auto first_k = [&](std::size_t s) {
        return static_cast<std::size_t>(std::max(k_at(chains, s == 0 ? 0 : chains.ends[s - 1]), 0));
      };
      const Sum sum = join_parts(p, parts[lane].size(), first_k, parts[lane].data(), 1, row, col);
      out[lane] = how == Finish::as_asked ? finish(p, sum, row, col) : finish_otherwise(p, sum, row, col, how);
    }
  }
};

OutputUnderPlans::OutputUnderPlans(const Product& request, std::size_t row, std::size_t col)
    : operands_(std::make_unique<const Operands>(request, row, col)) {}
OutputUnderPlans::~OutputUnderPlans() = default;
OutputUnderPlans::OutputUnderPlans(OutputUnderPlans&&) noexcept = default;

void OutputUnderPlans::codes(std::span<const ChainPlan* const> plans, std::span<Code> out, Finish how) const {
  const Format& f = operands_->request.model.accumulator.format;
  const bool fits_float = f.mantissa_bits <= 23 && f.exponent_bits <= 8;
  for (std::size_t first = 0; first < plans.size();) {
    std::size_t count = 1;  // plans with an order of their own go alone, but with those that only join otherwise
    const auto goes_with = [&](const ChainPlan& x, const ChainPlan& y) {
      return x.order.empty() ? y.order.empty() : x.order == y.order && x.ends == y.ends;
    };
    while (first + count < plans.size() && count < lane_columns && goes_with(*plans[first], *plans[first + count]))
      ++count;
    const Plans batch = plans.subspan(first, count);
    if (operands_->request.model.is_integer()) operands_->run<std::int32_t>(batch, out.data() + first, how);
    else if (fits_float) operands_->run<float>(batch, out.data() + first, how);
    else operands_->run<double>(batch, out.data() + first, how);
    first += count;
  }
}

}  // namespace narrow::detail
