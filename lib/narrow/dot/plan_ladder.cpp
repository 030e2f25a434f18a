#include "narrow/dot/plan_ladder.hpp"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>

namespace narrow::detail {

namespace {

// Parts of K as kernels cut it: a number of parts, each a whole number of tiles long; few parts first.
std::vector<int> usual_lengths(std::size_t k, std::size_t most_parts) {
  std::vector<int> lengths;
  std::set<std::size_t> seen;
  for (std::size_t parts = 2; parts <= most_parts; ++parts)
    for (const std::size_t tile : {64, 32, 128, 16, 256}) {
      const std::size_t length = ((k + parts - 1) / parts + tile - 1) / tile * tile;
      if (length < k && seen.insert(length).second) lengths.push_back(static_cast<int>(length));
    }
  return lengths;
}

// Parts for as many blocks as fill a GPU where there are few outputs and much of K: whole lines of 128 bytes.
void add_parts_of_lines(std::vector<Plan>& plans, const LadderRequest& r, std::size_t line) {
  for (std::size_t parts = 17; parts <= 66; ++parts) {
    const std::size_t even = (r.k + parts - 1) / parts, length = (even + line - 1) / line * line;
    if (length < r.k) plans.push_back({.order = SumOrder::split, .length = static_cast<int>(length)});
  }
}

// K in parts whose length is a multiple of `unit`: a line of 128 bytes, where lines divide K and an operand has K along
// its rows, else what one load takes (16 bytes). What that leaves over from the kernel's tile comes first in every
// part. Partial results are added by a second kernel, in FP32 or in the output's format, or one block after the other
// adds its own to what it finds in D; a bias comes in after the first two and with the first block.
void add_cutlass_splits(std::vector<Plan>& plans, const LadderRequest& r, std::size_t unit) {
  const bool narrow_operands = r.model.a.format != "tf32"_fmt;
  // Two for each multiprocessor of a large GPU; fewer where the usual plans, tried with operands rounded in three ways,
  // leave less time.
  const std::size_t most_parts = narrow_operands ? 264 : 160;
  const bool adds = r.has_c || r.has_bias;
  std::set<std::size_t> seen;
  for (std::size_t parts = 1; parts <= most_parts && (parts - 1) * unit <= r.k; ++parts) {
    const std::size_t even = (r.k + parts - 1) / parts, length = (even + unit - 1) / unit * unit;
    if (!seen.insert(length).second || (parts > 1 && length >= r.k)) continue;
    const auto leaves = [&](std::size_t tile) { return length % tile != 0 || r.k % length % tile != 0; };
    bool whole = false;
    for (const int tile : {64, 128, 32, 16}) {
      if (narrow_operands ? tile == 16 : tile > 32) continue;
      const bool rest = parts == 1 ? r.k % static_cast<std::size_t>(tile) != 0 : leaves(static_cast<std::size_t>(tile));
      Plan plan{.order = parts == 1 ? SumOrder::chain : SumOrder::split,
                .length = parts == 1 ? 0 : static_cast<int>(length)};
      if (rest) plan.residue = tile;
      else if (std::exchange(whole, true)) continue;  // no rest: the tile does not matter
      if (!narrow_operands) plan.operands = Operands::nearest_even;
      plans.push_back(plan);
      if (parts > 1 && r.has_bias) plans.push_back(plan), plans.back().c = PlaceOfC::first;
      if (!r.narrow_output) continue;
      if (adds) plans.push_back(plan), plans.back().c = PlaceOfC::after;
      if (parts == 1) continue;
      plan.partials = Partials::stored;
      plans.push_back(plan);
      if (adds) plans.push_back(plan), plans.back().c = PlaceOfC::after;
      // Shorter parts would be the sums of an accumulator of D's format under another name.
      if (length < 64) continue;
      plan.partials = Partials::serial;
      plans.push_back(plan);
      if (r.has_bias) plans.push_back(plan), plans.back().c = PlaceOfC::first;
    }
  }
}

// Blocks that take tiles of K in turn, as many as fill the GPU; a second kernel adds their sums.
void add_slices(std::vector<Plan>& plans, const LadderRequest& r, std::initializer_list<int> tiles) {
  constexpr int most_slices = 40;
  for (const int run : tiles)
    for (int slices = 2; slices <= most_slices; ++slices)
      if (static_cast<std::size_t>(run * slices) < r.k)
        plans.push_back({.order = SumOrder::slice, .length = slices, .run = run});
}

// Threads that share a dot product: each has a chain of its own, over a part of K or over every so many runs of it, and
// their sums are exchanged (halving) or added by one of them.
void add_thread_sums(std::vector<Plan>& plans, const LadderRequest& r) {
  std::vector<Plan> found;
  const auto add_split = [&](std::size_t length) {
    for (const Join join : {Join::halving, Join::in_order})
      if (length < r.k) found.push_back({.order = SumOrder::split, .length = static_cast<int>(length), .join = join});
  };
  for (const int threads : {32, 2, 16, 4, 8, 64, 128})
    for (const std::size_t load : {1, 4, 8, 2, 16}) {
      const auto n = static_cast<std::size_t>(threads), even = (r.k + n - 1) / n;
      add_split((even + load - 1) / load * load);
    }
  for (const std::size_t length : {2, 4, 8, 16, 32}) add_split(length);
  for (const int run : {1, 64, 2, 4, 8, 16, 32})
    for (const int threads : {32, 16, 2, 4, 8, 64, 128})
      for (const Join join : {Join::halving, Join::in_order})
        if (static_cast<std::size_t>(run * threads) < r.k)
          found.push_back({.order = SumOrder::slice, .length = threads, .join = join, .run = run});
  add_slices(found, r, {8});
  for (const Plan& plan : found) {
    plans.push_back(plan);
    if (r.narrow_output && (r.has_bias || r.has_c)) plans.push_back(plan), plans.back().c = PlaceOfC::after;
  }
}

}  // namespace

std::vector<Plan> plan_ladder(const LadderRequest& r) {
  const std::size_t k = r.k;
  const bool by_fma = r.model.rule == DotRule::fma_chain, rounds_operands = r.model.a.format == "tf32"_fmt;
  // What one load (16 bytes) and one line (128 bytes) have of K.
  const std::size_t load = 128 / std::bit_ceil(static_cast<unsigned>(r.model.a.format.width())), line = 8 * load;
  std::vector<Plan> plans{Plan{}};
  if (r.has_c) plans.push_back({.c = PlaceOfC::last});
  if ((r.has_c || r.has_bias) && r.narrow_output) plans.push_back({.c = PlaceOfC::after});
  for (const int length : {128, 32, 64, 256, 512})
    if (static_cast<std::size_t>(length) < k || length == 128) plans.push_back({.order = SumOrder::promote, .length = length});
  const std::vector<int> usual = usual_lengths(k, 16);
  for (const int length : usual) {
    plans.push_back({.order = SumOrder::split, .length = length});
    if (r.has_bias) plans.push_back({.order = SumOrder::split, .length = length, .c = PlaceOfC::first});
  }
  if (!by_fma && !rounds_operands) add_parts_of_lines(plans, r, line);
  if (!by_fma)
    for (const int residue : {16, 32, 64, 128})
      if (k % static_cast<std::size_t>(residue) != 0) plans.push_back({.residue = residue});
  for (const int length : usual) {
    for (const Join join : {Join::pairwise, Join::reversed})
      plans.push_back({.order = SumOrder::split, .length = length, .join = join});
    plans.push_back({.order = SumOrder::split, .length = length, .partials = Partials::output});
  }
  for (const int slices : {2, 4, 8})
    for (const int run : {8, 16, 32, 64, 128})
      if (static_cast<std::size_t>(run) < k) plans.push_back({.order = SumOrder::slice, .length = slices, .run = run});
  for (int parts = 2; parts <= 8; ++parts)
    for (const int run : {32, 64, 0}) {  // where the runs divide it is a split
      const std::size_t length = run == 0 ? 16 : static_cast<std::size_t>(run), runs = (k + length - 1) / length;
      if (runs % static_cast<std::size_t>(parts) == 0 || runs < static_cast<std::size_t>(parts)) continue;
      for (const Join join : {Join::in_order, Join::reversed})
        plans.push_back({.order = SumOrder::even, .length = parts, .join = join, .run = run});
    }
  if (by_fma) add_thread_sums(plans, r);
  if (r.model.unit == Unit::mma && r.model.a.format.width() >= 16 && !rounds_operands) add_slices(plans, r, {64, 32});
  if (r.model.rule == DotRule::multiply_add)  // what cuBLAS's dot product does
    for (const int run : {2, 1}) plans.push_back({.order = SumOrder::blocks, .length = 128, .run = run});
  std::vector<Plan> others;
  const auto add_length = [&](int length) {
    if (static_cast<std::size_t>(length) < k) others.push_back({.order = SumOrder::split, .length = length});
  };
  for (const int length : usual_lengths(k, k / 16 + 1)) add_length(length);
  for (int length = 16; static_cast<std::size_t>(length) < k; length += 16) add_length(length);
  if (by_fma) {
    constexpr std::size_t step = 4, most_parts = 160;
    for (std::size_t parts = 2; parts <= most_parts; ++parts)
      add_length(static_cast<int>(((k + parts - 1) / parts + step - 1) / step * step));
  }
  std::vector<Plan> all;
  for (Plan plan : plans)
    for (const Operands operands : {Operands::nearest_even, Operands::cut, Operands::nearest_away}) {
      plan.operands = rounds_operands ? operands : Operands::cut;
      all.push_back(plan);
      if (!rounds_operands) break;
    }
  const bool is_cut = r.model.generation <= Generation::rtx_blackwell && r.model.fraction_bits > 0 &&
                      !r.model.is_block_scaled() && r.model.a.format.width() >= 16;
  if (is_cut) add_cutlass_splits(all, r, k % line == 0 ? line : load);
  if (rounds_operands) {
    std::vector<Plan> slices;
    add_slices(slices, r, {64, 32});
    for (Plan plan : slices) plan.operands = Operands::nearest_even, all.push_back(plan);
  }
  for (Plan plan : others) {
    if (rounds_operands) plan.operands = Operands::nearest_even;
    all.push_back(plan);
  }
  if (is_cut && k % line == 0) add_cutlass_splits(all, r, load);
  std::set<std::string> seen;  // several families have a plan
  std::erase_if(all, [&](const Plan& plan) { return !seen.insert(plan_text(plan)).second; });
  return all;
}

}  // namespace narrow::detail
