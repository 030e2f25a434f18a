// How a rank talks to the others. What carries the bytes (MPI, threads of a test) implements it.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "narrow/base/error.hpp"

namespace narrow::cluster {

class Messages {
 public:
  virtual ~Messages() = default;
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;
  // Sends and receives at once, so that ranks that exchange do not wait for each other's end. A side whose span is
  // empty does nothing. Between two ranks messages arrive in the order in which they were sent.
  virtual void exchange(std::size_t to, std::span<const std::byte> out, std::size_t from, std::span<std::byte> in) = 0;

  // values = all of them added, in the transport's own order, the same bits on all ranks; add: second = first + second,
  // both of one length, a multiple of unit bytes. For Algorithm::mpi alone.
  using Add = std::function<void(std::span<const std::byte>, std::span<std::byte>)>;
  virtual void reduce_as_it_likes(std::span<std::byte>, std::size_t /*unit*/, const Add&) {
    throw Error("these ranks have no all-reduce of their own; mpi is for ranks that MPI started");
  }
};

// all holds a piece of equal length for each rank; each brings its own, and leaves with those of all.
inline void share(Messages& messages, std::span<std::byte> all) {
  const std::size_t n = messages.size(), r = messages.rank(), length = all.size() / n;
  const auto piece = [&](std::size_t k) { return all.subspan(k % n * length, length); };
  for (std::size_t hop = 1; hop < n; ++hop)
    messages.exchange((r + 1) % n, piece(r + n + 1 - hop), (r + n - 1) % n, piece(r + n - hop));
}

}  // namespace narrow::cluster
