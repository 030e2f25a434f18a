// Arrays of several ranks become one: their sum or mean in a chosen format and order, as data parallel training does it
// with gradients. In one process, which computes what all ranks would (all_reduce of arrays, emulate), or as one rank
// among others (all_reduce by messages): the same bits.
#pragma once

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

// The elements of a rank's array from begin on, from any thread.
using ReadRank = std::function<void(std::size_t rank, std::size_t begin, std::span<float> out)>;
std::vector<float> emulate(std::size_t ranks, std::size_t size, const ReadRank& read, const ReduceRequest& request,
                           std::span<Feedback> feedback = {});
// The same of arrays, which are of one length.
std::vector<float> all_reduce(std::span<const std::vector<float>> ranks, const ReduceRequest& request,
                              std::span<Feedback> feedback = {});

// Called by every rank with its own array and the same request; own becomes the result, on all of them. What travels is
// as narrow as the format. feedback: empty, or as long as own.
void all_reduce(Messages& messages, std::span<float> own, const ReduceRequest& request, std::span<float> feedback = {});

}  // namespace narrow::cluster
