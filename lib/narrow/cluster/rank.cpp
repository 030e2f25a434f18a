// One rank's share of an all-reduce: in each turn it sends at most one piece and takes at most one.
#include "narrow/base/float_environment.hpp"
#include "narrow/cluster/steps.hpp"

namespace narrow::cluster {

namespace {

constexpr std::size_t nobody = ~std::size_t{0};
struct Side {
  std::size_t rank = nobody, piece = 0;
};
// What is taken replaces what is there, or is added to it; the sum is rounded, or stays in FP32 for the next.
enum class Then : std::uint8_t { replace, add, add_and_round };
struct Turn {
  Side send, take;
  Then then = Then::replace;
  std::uint64_t stream = 0;  // of the rounding
};

std::vector<Turn> ring_turns(std::size_t n, std::size_t r) {
  std::vector<Turn> turns;
  const std::size_t next = (r + 1) % n, before = (r + n - 1) % n;
  for (std::size_t hop = 1; hop < n; ++hop)
    turns.push_back(
        {Side{next, (r + n - hop) % n}, Side{before, (r + 2 * n - hop - 1) % n}, Then::add_and_round, hop + 1});
  for (std::size_t hop = 1; hop < n; ++hop)
    turns.push_back({Side{next, (r + n + 1 - hop) % n}, Side{before, (r + n - hop) % n}});
  return turns;
}

// Up to rank 0 and down again.
std::vector<Turn> tree_turns(std::size_t n, std::size_t r) {
  std::vector<Turn> turns;
  for (std::size_t d = 1; d < n; d *= 2) {
    if (r % (2 * d) == d) turns.push_back({Side{r - d}, {}});
    if (r % (2 * d) == 0 && r + d < n) turns.push_back({{}, Side{r + d}, Then::add_and_round, n * d + r});
  }
  for (std::size_t d = std::bit_ceil(n) / 2; d > 0; d /= 2) {
    if (r % (2 * d) == d) turns.push_back({{}, Side{r - d}});
    if (r % (2 * d) == 0 && r + d < n) turns.push_back({Side{r + d}, {}});
  }
  return turns;
}

std::vector<Turn> doubling_turns(std::size_t n, std::size_t r) {
  const Places places(n);
  const bool is_folded = r < 2 * places.folded;
  if (is_folded && r % 2 == 0) return {{Side{r + 1}, {}}, {{}, Side{r + 1}}};
  std::vector<Turn> turns;
  const std::size_t place = is_folded ? r / 2 : r - places.folded;
  if (is_folded) turns.push_back({{}, Side{r - 1}, Then::add_and_round, place});
  for (std::size_t d = 1; d < places.count; d *= 2) {
    const Side partner{places.holder(place ^ d)};
    turns.push_back({partner, partner, Then::add_and_round, n * d + (place & ~(2 * d - 1))});
  }
  if (is_folded) turns.push_back({Side{r - 1}, {}});
  return turns;
}

std::vector<Turn> once_turns(std::size_t n, std::size_t r) {
  std::vector<Turn> turns;
  for (std::size_t k = 1; k < n; ++k) {
    const Then then = k + 1 == n ? Then::add_and_round : Then::add;
    turns.push_back({Side{(r + n - k) % n, (r + n - k) % n}, Side{(r + k) % n, r}, then, n});
  }
  for (std::size_t k = 1; k < n; ++k) turns.push_back({Side{(r + k) % n, r}, Side{(r + n - k) % n, (r + n - k) % n}});
  return turns;
}

// Up to the last rank and back.
std::vector<Turn> linear_turns(std::size_t n, std::size_t r) {
  std::vector<Turn> turns;
  if (r > 0) turns.push_back({{}, Side{r - 1}, Then::add_and_round, r + 1});
  if (r + 1 < n) turns.push_back({Side{r + 1}, Side{r + 1}});  // its sum goes on, the result comes back
  if (r > 0) turns.push_back({Side{r - 1}, {}});
  return turns;
}

std::vector<Turn> turns_of(Algorithm a, std::size_t n, std::size_t r) {
  switch (a) {
    case Algorithm::ring: return ring_turns(n, r);
    case Algorithm::tree: return tree_turns(n, r);
    case Algorithm::recursive_doubling: return doubling_turns(n, r);
    case Algorithm::fp32_once: return once_turns(n, r);
    default: return linear_turns(n, r);
  }
}

// The transport's own order: every sum is rounded, by the stream 0.
void reduce_freely(Messages& messages, std::span<float> own, const ReduceRequest& r, std::vector<std::byte> packed) {
  const std::size_t unit = value_bytes(r.wire) == 0 ? packed.size() : value_bytes(r.wire);
  const std::size_t values_per_unit = value_bytes(r.wire) == 0 ? own.size() : 1;
  messages.reduce_as_it_likes(packed, unit, [&](std::span<const std::byte> in, std::span<std::byte> to) {
    std::vector<float> a(to.size() / unit * values_per_unit), b(a.size());
    unpack(in, r.wire, a);
    unpack(to, r.wire, b);
    add(a, b);
    const std::vector<std::byte> sum = pack(a, r.wire, sum_stream(r, 0, 0));
    std::copy(sum.begin(), sum.end(), to.begin());
  });
  unpack(packed, r.wire, own, r.threads);
}

}  // namespace

void all_reduce(Messages& messages, std::span<float> own, const ReduceRequest& r, std::span<float> feedback) {
  check(r.wire);
  if (!feedback.empty() && feedback.size() != own.size())
    throw Error("error feedback of another length than the array");
  const std::size_t n = messages.size(), rank = messages.rank(), pieces = pieces_of(r.algorithm, n);
  if (n == 1) return;
  const DefaultFloats guard;
  const auto begin = [&](std::size_t piece) { return piece * own.size() / pieces; };
  const auto values = [&](std::size_t piece) { return own.subspan(begin(piece), begin(piece + 1) - begin(piece)); };

  divide(own, n, r);
  if (!feedback.empty()) add(own, feedback);
  const std::vector<float> before(feedback.empty() ? own.end() : own.begin(), own.end());
  std::vector<std::vector<std::byte>> packed(pieces);  // what was last made of each piece
  for (std::size_t c = 0; c < pieces; ++c)
    packed[c] = pack(values(c), r.wire, own_stream(r, rank, begin(c)), r.threads);
  keep_lost(feedback, before, own);
  if (r.algorithm == Algorithm::mpi)
    return own.empty() ? void() : reduce_freely(messages, own, r, std::move(packed[0]));

  std::vector<float> taken;
  for (const Turn& turn : turns_of(r.algorithm, n, rank)) {
    const bool sends = turn.send.rank != nobody, takes = turn.take.rank != nobody;
    const std::size_t piece = turn.take.piece;
    std::vector<std::byte> in(takes ? packed_bytes(values(piece).size(), r.wire) : 0);
    const std::span<const std::byte> out(packed[turn.send.piece]);
    messages.exchange(sends ? turn.send.rank : rank, sends ? out : out.first(0), takes ? turn.take.rank : rank, in);
    if (!takes) continue;
    if (turn.then == Then::replace) {
      unpack(in, r.wire, values(piece), r.threads);
      packed[piece] = std::move(in);
      continue;
    }
    taken.resize(values(piece).size());
    unpack(in, r.wire, taken, r.threads);
    add(values(piece), taken);
    if (turn.then == Then::add_and_round)
      packed[piece] = pack(values(piece), r.wire, sum_stream(r, turn.stream, begin(piece)), r.threads);
  }
}

}  // namespace narrow::cluster
