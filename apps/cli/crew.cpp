#include "cli/crew.hpp"

namespace app {
namespace {

narrow::cluster::Crew* at_work = nullptr;
thread_local bool has_own_work = false;

// Handing out costs about as much as reading a thousandth of this.
constexpr std::uint64_t together = std::uint64_t{1} << 22;

}  // namespace

narrow::cluster::Crew* crew() noexcept { return at_work; }
void set_crew(narrow::cluster::Crew* crew) noexcept { at_work = crew; }
bool speaks() noexcept { return at_work == nullptr || at_work->rank() == 0; }

OwnWork::OwnWork() { has_own_work = true; }
OwnWork::~OwnWork() { has_own_work = false; }
bool writes() noexcept { return speaks() || has_own_work; }

void share_tensors(std::span<const std::uint64_t> bytes, const std::function<std::string(std::size_t)>& name,
                   const std::function<void(std::size_t, narrow::PieceLog*)>& body) {
  if (at_work == nullptr) {
    for (std::size_t i = 0; i < bytes.size(); ++i) body(i, nullptr);
    return;
  }
  std::vector<narrow::cluster::Item> items;
  std::vector<std::size_t> first;  // tensor of each item, and the end
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (items.empty() || items.back().weight + bytes[i] > together) {
      items.push_back({0, name(i)});
      first.push_back(i);
    }
    items.back().weight += bytes[i];
  }
  first.push_back(bytes.size());
  narrow::cluster::share_items(at_work, items, [&](std::size_t item, narrow::PieceLog* log) {
    for (std::size_t i = first[item]; i < first[item + 1]; ++i) body(i, log);
  });
}

}  // namespace app
