#include "narrow/cluster/crew.hpp"

#include <algorithm>
#include <iterator>

namespace narrow::cluster {
namespace {

// A tensor is cut where it is more than a fourth of a rank's part of the whole, and a piece of it is about a sixteenth:
// the last to finish is late by no more than that. Below this many bytes nothing is cut.
constexpr std::uint64_t least_cut = std::uint64_t{1} << 24;

// Bytes whose logs are held at a time, by every rank: of four formats a log is 1/300 of the BF16 data that it stands
// for.
constexpr std::uint64_t most_at_once = std::uint64_t{1} << 35;

struct Task {
  std::size_t item;
  std::uint64_t weight;
  bool whole;
  std::size_t begin = 0, end = 0;  // pieces of the next pass, where it is cut
};

using Work = std::function<void(std::size_t, PieceLog*)>;

// How many pieces the next pass of an item has; 0 where it is complete, and work() has had its last run.
std::size_t pieces_missing(std::size_t item, std::vector<PieceLog::Pass>& known, const Work& work) {
  PieceLog log(std::move(known));
  std::size_t pieces = 0;
  try {
    work(item, &log);
  } catch (const PieceLog::Missing& missing) {
    pieces = missing.pieces;
  }
  known = log.take_known();
  return pieces;
}

void share_batch(Crew& crew, std::span<const Item> items, std::size_t first, std::size_t end, std::uint64_t total,
                 const Work& work) {
  const std::uint64_t part = std::max<std::uint64_t>(total / crew.size(), 1);
  std::vector<std::vector<PieceLog::Pass>> known(end - first);
  std::vector<std::size_t> cut;
  std::vector<Task> tasks;
  for (std::size_t i = first; i < end; ++i)
    if (crew.size() > 1 && items[i].weight > std::max(part / 4, least_cut)) cut.push_back(i);
    else tasks.push_back({i, items[i].weight, true});

  const auto plan_cuts = [&] {
    std::vector<std::size_t> left;
    for (const std::size_t i : cut) {
      const std::size_t pieces = pieces_missing(i, known[i - first], work);
      if (pieces == 0) continue;
      left.push_back(i);
      const std::uint64_t bytes = std::max<std::uint64_t>(items[i].weight / pieces, 1);
      const auto step = static_cast<std::size_t>(std::max<std::uint64_t>(part / 16 / bytes, 1));
      for (std::size_t begin = 0; begin < pieces; begin += step) {
        const std::size_t stop = std::min(begin + step, pieces);
        tasks.push_back({i, bytes * (stop - begin), false, begin, stop});
      }
    }
    cut = std::move(left);
  };
  plan_cuts();
  while (!tasks.empty()) {
    std::vector<Item> shared;
    for (const Task& t : tasks) shared.push_back({t.weight, items[t.item].name});
    const std::vector<Bytes> done = crew.share(shared, [&](std::size_t k) {
      const Task& t = tasks[k];
      PieceLog log(known[t.item - first]);
      if (t.whole) log.compute_all();
      else log.compute(t.begin, t.end);
      try {
        work(t.item, &log);
      } catch (const PieceLog::Missing&) {  // the pass is not complete here
      }
      return t.whole ? to_bytes(log.take_known()) : to_bytes(std::vector<PieceLog::Pass>{log.take_made()});
    });
    for (std::size_t k = 0; k < tasks.size(); ++k) {
      std::vector<PieceLog::Pass>& log = known[tasks[k].item - first];
      auto passes = from_bytes<std::vector<PieceLog::Pass>>(done[k]);
      if (tasks[k].whole) {
        log = std::move(passes);
        continue;
      }
      if (tasks[k].begin == 0) log.emplace_back();
      std::move(passes[0].begin(), passes[0].end(), std::back_inserter(log.back()));
    }
    tasks.clear();
    plan_cuts();
  }
  for (std::size_t i = first; i < end; ++i) {
    PieceLog log(std::move(known[i - first]));
    work(i, &log);
  }
}

}  // namespace

void share_items(Crew* crew, std::span<const Item> items, const Work& work) {
  if (crew == nullptr) {
    for (std::size_t i = 0; i < items.size(); ++i) work(i, nullptr);
    return;
  }
  std::uint64_t total = 0, batch = 0;
  for (const Item& item : items) total += item.weight;
  std::size_t first = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    batch += items[i].weight;
    if (batch < most_at_once && i + 1 < items.size()) continue;
    share_batch(*crew, items, first, i + 1, total, work);
    first = i + 1, batch = 0;
  }
}

}  // namespace narrow::cluster
