// From a plan to the chains of one K.
#include <algorithm>

#include "narrow/dot/plan.hpp"

namespace narrow {

// A zero product changes nothing where products are fused, so chains there are filled up to whole instructions, which
// fixes the place of every product in its instruction. In a chain of roundings 0 * 0 could turn -0 into +0: no filling.
std::size_t chain_unit(const DotModel& m) {
  switch (m.rule) {
    case DotRule::fused:
    case DotRule::block_fused:
    case DotRule::block_groups: return static_cast<std::size_t>(m.products_per_step);
    case DotRule::fused_pair_then_add: return static_cast<std::size_t>(m.instruction_k);
    default: return 1;
  }
}

namespace {

// Collects the runs of K that make up one chain.
class ChainWriter {
 public:
  ChainWriter(Schedule& schedule, const DotModel& model) : schedule_(schedule), fill_(chain_unit(model)) {
    begin_ = schedule_.order.size();
  }
  void take(std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) schedule_.order.push_back(static_cast<std::int32_t>(k));
  }
  void fill_to(std::size_t length) {
    while (schedule_.order.size() - begin_ < length) schedule_.order.push_back(-1);
  }
  void close() {
    while ((schedule_.order.size() - begin_) % fill_ != 0) schedule_.order.push_back(-1);
    schedule_.segments.push_back({begin_, schedule_.order.size()});
  }

 private:
  Schedule& schedule_;
  std::size_t fill_, begin_;
};

std::size_t pieces(std::size_t size, int piece) {
  const auto p = static_cast<std::size_t>(piece);
  return (size + p - 1) / p;
}

std::size_t run_of(const Plan& p, const DotModel& m) {
  return static_cast<std::size_t>(p.run != 0 ? p.run : std::max(m.instruction_k, 1));
}

// K in parts of whole runs that differ by one run at most. The longer ones are those that are joined first, so they stand
// at the end of K where the join is reversed: 512 runs in 3 parts are 170, 171, 171 there, else 171, 171, 170.
std::vector<std::size_t> even_cuts(const Plan& p, const DotModel& m, std::size_t k) {
  const std::size_t run = run_of(p, m), runs = std::max<std::size_t>((k + run - 1) / run, 1);
  const std::size_t parts = std::min(static_cast<std::size_t>(p.length), runs), longer = runs % parts;
  std::vector<std::size_t> cuts{0};
  for (std::size_t part = 0; part < parts; ++part) {
    const bool is_longer = p.join == Join::reversed ? part >= parts - longer : part < longer;
    cuts.push_back(std::min(k, cuts.back() + (runs / parts + (is_longer ? 1 : 0)) * run));
  }
  return cuts;
}

// Where the workers of stream-K cut the K of one tile. All tiles' steps of tile_k, tile after tile (row by row), are dealt
// out evenly, the first workers taking one more where they do not divide.
std::vector<std::size_t> stream_k_cuts(const Plan& p, std::size_t k, std::size_t rows, std::size_t cols, std::size_t row,
                                       std::size_t col) {
  const std::size_t steps = std::max<std::size_t>(pieces(k, p.tile_k), 1);
  const std::size_t tiles_across = pieces(cols, p.tile_cols), tiles = tiles_across * pieces(rows, p.tile_rows);
  const std::size_t tile = row / static_cast<std::size_t>(p.tile_rows) * tiles_across + col / static_cast<std::size_t>(p.tile_cols);
  const std::size_t total = tiles * steps, workers = static_cast<std::size_t>(p.length);
  const std::size_t share = total / workers, longer = total % workers;
  std::vector<std::size_t> cuts{0};
  for (std::size_t step = 1; step < steps; ++step) {
    const std::size_t at = tile * steps + step;  // a worker starts here?
    const std::size_t in_longer = longer * (share + 1);
    const bool starts = at < in_longer ? at % (share + 1) == 0 : share == 0 || (at - in_longer) % share == 0;
    if (starts) cuts.push_back(step * static_cast<std::size_t>(p.tile_k));
  }
  cuts.push_back(k);
  return cuts;
}

}  // namespace

std::vector<std::size_t> plan_cuts(const Plan& plan, const DotModel& model, std::size_t k, std::size_t rows,
                                   std::size_t cols, std::size_t row, std::size_t col) {
  switch (plan.order) {
    case SumOrder::chain: return {0, k};
    case SumOrder::slice:
    case SumOrder::blocks: return {};
    case SumOrder::even: return even_cuts(plan, model, k);
    case SumOrder::stream_k: return stream_k_cuts(plan, k, rows, cols, row, col);
    default: break;
  }
  const auto length = static_cast<std::size_t>(plan.length);
  std::vector<std::size_t> cuts{0};
  while (cuts.back() + length < k) cuts.push_back(cuts.back() + length);
  cuts.push_back(k);
  return cuts;
}

Schedule make_schedule(const Plan& plan, const DotModel& model, std::size_t k, std::size_t rows, std::size_t cols,
                       std::size_t row, std::size_t col) {
  Schedule schedule;
  if (plan.order == SumOrder::slice) {
    const std::size_t run = run_of(plan, model), length = static_cast<std::size_t>(plan.length);
    for (std::size_t slice = 0; slice < std::max<std::size_t>(std::min(length, (k + run - 1) / run), 1); ++slice) {
      ChainWriter writer(schedule, model);
      for (std::size_t begin = slice * run; begin < k; begin += length * run) writer.take(begin, std::min(k, begin + run));
      writer.close();
    }
    return schedule;
  }
  if (plan.order == SumOrder::blocks) {
    const std::size_t run = run_of(plan, model);
    for (std::size_t begin = 0; begin == 0 || begin < k; begin += run) {
      ChainWriter writer(schedule, model);
      writer.take(begin, std::min(k, begin + run));
      writer.close();
    }
    return schedule;
  }
  const std::vector<std::size_t> cuts = plan_cuts(plan, model, k, rows, cols, row, col);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::size_t begin = cuts[i], end = cuts[i + 1];
    ChainWriter writer(schedule, model);
    const auto tile = static_cast<std::size_t>(plan.residue);
    const std::size_t first = tile != 0 ? (end - begin) % tile : 0;
    if (first != 0) writer.take(begin, begin + first), writer.fill_to(tile);
    writer.take(begin + first, end);
    writer.close();
  }
  return schedule;
}

}  // namespace narrow
