// Whether this process works alone, or with others over the same request: then one of them speaks and writes.
#pragma once

#include "narrow/cluster/crew.hpp"

namespace app {

narrow::cluster::Crew* crew() noexcept;  // nullptr: alone
void set_crew(narrow::cluster::Crew* crew) noexcept;
bool speaks() noexcept;

// While it lives, what this thread does is work that nobody else has: it writes files, whatever its rank.
class OwnWork {
 public:
  OwnWork();
  ~OwnWork();
  OwnWork(const OwnWork&) = delete;
  OwnWork& operator=(const OwnWork&) = delete;
};
bool writes() noexcept;

// What the first process finds, on all of them: what folders hold may look otherwise elsewhere, or a moment later.
template <class Find>
auto by_first(const Find& find) {
  if (crew() == nullptr) return find();
  decltype(find()) found{};
  crew()->together([&] {
    if (speaks()) found = find();
  });
  return narrow::from_bytes<decltype(find())>(crew()->from_first(narrow::to_bytes(found)));
}

// body(i, log) for tensors 0, 1, .. whose sizes are given; small neighbours are one piece of work.
void share_tensors(std::span<const std::uint64_t> bytes, const std::function<std::string(std::size_t)>& name,
                   const std::function<void(std::size_t, narrow::PieceLog*)>& body);

}  // namespace app
