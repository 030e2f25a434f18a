// Processes that run the same program over the same request and share its work. What they compute does not depend on
// how many they are: results come back in the order of the items.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "narrow/cluster/messages.hpp"
#include "narrow/tensor/piece_log.hpp"

namespace narrow::cluster {

struct Item {
  std::uint64_t weight;  // bytes to read, or any measure of the work
  std::string name;      // for messages
};

class Crew {
 public:
  virtual ~Crew() = default;
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;

  // Every rank calls it alike. Each item is done by one rank, the heaviest first, by whoever is free; all ranks get
  // what work() returned for all items. Where it throws, all ranks throw an Error with the rank and the name of the
  // item, of several that of the first item, and items that nobody has begun are left.
  virtual std::vector<Bytes> share(std::span<const Item> items, const std::function<Bytes(std::size_t)>& work) = 0;

  // Whether any rank says so.
  virtual bool any(bool own) = 0;
  // What this rank is at until it says otherwise, for messages about its death.
  virtual void at(const std::string& what) = 0;

  // How the ranks talk to each other.
  virtual Messages& messages() = 0;

  // What the first rank gives, on all ranks.
  virtual Bytes from_first(Bytes bytes) = 0;

  // Each rank does its own, and waits for all; what one throws all throw, of several the first rank's.
  virtual void together(const std::function<void()>& own) = 0;
};

// work(i, log) for every item, alone (crew is nullptr, and so is the log) or by a crew: light items as a whole, heavy
// ones in pieces of their passes over tensors. A rank runs work() several times: to compute, which may end by an
// exception of the log that is not work's business, and last, in the order of the items, with a log that has
// everything, when it costs next to nothing and finds what it would have found alone.
void share_items(Crew* crew, std::span<const Item> items, const std::function<void(std::size_t, PieceLog*)>& work);

}  // namespace narrow::cluster
