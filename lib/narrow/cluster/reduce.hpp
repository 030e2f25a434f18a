// Arrays of several ranks become one: their sum or mean in a chosen format and order, as data parallel training does it
// with gradients. In one process, which computes what all ranks would (all_reduce of arrays, emulate), or as one rank
// among others (all_reduce by messages): the same bits.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "narrow/cluster/algorithm.hpp"
#include "narrow/cluster/messages.hpp"
#include "narrow/cluster/wire.hpp"

namespace narrow::cluster {

// Each array is divided by the number of ranks (mean: as torch's DistributedDataParallel does before it sends) and
// rounded to the format; then the algorithm's sums are. One rank: as it is.
struct ReduceRequest {
  Algorithm algorithm = Algorithm::ring;
  Wire wire = {};
  bool mean = true;
  std::uint64_t seed = 0;  // of stochastic rounding
  int threads = 0;         // the bits do not depend on it
};

// Error feedback: what a rank's own first rounding lost, to be added to its next array; zeros at first. What is lost to
// Inf or NaN cannot be sent later.
using Feedback = std::vector<float>;

// Elements [begin, begin + length) of a rank's array.
struct Stretch {
  std::size_t rank, begin, length;
};
// Where arrays come from: stretches of them, one after the other into out; called from any thread. In a ring of more
// ranks than elements each stretch is one element, so that a call takes many.
using ReadRanks = std::function<void(std::span<const Stretch> stretches, std::span<float> out)>;
// The same for arrays that lie in memory: row(rank) points to one.
template <class Row>
ReadRanks read_rows(Row row) {
  return [row](std::span<const Stretch> stretches, std::span<float> out) {
    float* to = out.data();
    for (const Stretch& s : stretches) {
      const float* const from = row(s.rank) + s.begin;
      if (s.length == 1) *to++ = *from;
      else to = std::copy_n(from, s.length, to);
    }
  };
}

std::vector<float> emulate(std::size_t ranks, std::size_t size, const ReadRanks& read, const ReduceRequest& request,
                           std::span<Feedback> feedback = {});
// The same of arrays, which are of one length.
std::vector<float> all_reduce(std::span<const std::vector<float>> ranks, const ReduceRequest& request,
                              std::span<Feedback> feedback = {});

// Called by every rank with its own array and the same request; own becomes the result, on all of them. What travels is
// as narrow as the format. feedback: empty, or as long as own.
void all_reduce(Messages& messages, std::span<float> own, const ReduceRequest& request, std::span<float> feedback = {});

}  // namespace narrow::cluster
