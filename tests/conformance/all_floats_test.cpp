// All 2^32 floats: the hash of the codes is the one that the real system gave. Minutes; only in exhaustive builds.
#include <atomic>
#include <chrono>
#include <utility>

#include "conformance/recordings.hpp"
#include "narrow/base/parallel.hpp"

using namespace test;

namespace {

using Hash = std::uint64_t (*)(std::uint64_t first, std::uint64_t last);

// Format and cast known to the compiler and everything inlined (flatten): several times faster than as arguments.
template <narrow::Format F, narrow::Cast C>
[[gnu::flatten]] std::uint64_t hash_part(std::uint64_t first, std::uint64_t last) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = first; i < last; ++i) sum += mix(narrow::encode(from_bits<float>(i), F, C) << 32 | i);
  return sum;
}

struct Entry {
  narrow::Format format;
  narrow::Cast cast;
  Hash hash;
};

constexpr std::size_t formats = std::size(narrow::format_table), modes = std::size(roundings);

// Entry number Index of named casts x formats x roundings, where the system has that combination.
template <std::size_t Index>
constexpr bool exists() {
  constexpr const narrow::NamedCast& row = narrow::named_cast_table[Index / (formats * modes)];
  return narrow::detail::has_word(row.formats, narrow::format_table[Index / modes % formats].name) &&
         narrow::detail::has_word(row.roundings, rounding_names[Index % modes]);
}
template <std::size_t Index>
void append(std::vector<Entry>& list) {
  if constexpr (exists<Index>()) {
    constexpr narrow::Format f = narrow::format_table[Index / modes % formats].format;
    constexpr narrow::Cast cast = [] {
      narrow::Cast c = narrow::named_cast_table[Index / (formats * modes)].cast;
      c.rounding = roundings[Index % modes];
      return c;
    }();
    list.push_back({f, cast, hash_part<f, cast>});
  }
}
template <std::size_t... Index>
std::vector<Entry> make_entries(std::index_sequence<Index...>) {
  std::vector<Entry> list;
  [[maybe_unused]] const int each[] = {(append<Index>(list), 0)...};  // a fold would nest too deep for clang
  return list;
}

// The function for what named_cast gave at run time.
Hash find_hash(const narrow::Format& f, const narrow::Cast& cast) {
  static const std::vector<Entry> entries =
      make_entries(std::make_index_sequence<std::size(narrow::named_cast_table) * formats * modes>{});
  for (const Entry& entry : entries)
    if (entry.format == f && entry.cast == cast) return entry.hash;
  return nullptr;
}

std::uint64_t hash_of_all_floats(Hash hash) {
  std::atomic<std::uint64_t> total{0};
  narrow::parallel_parts(std::size_t{1} << 32, std::size_t{1} << 22, 0,
                         [&](std::size_t begin, std::size_t end) { total += hash(begin, end); });
  return total;
}

}  // namespace

TEST_CASE("conformance: all floats give the recorded hashes") {
  const std::vector<Recording> list = modelled(read_recordings("systems.tsv"), "f32");
  CHECK(list.size() >= 40);
  const std::size_t count = std::min<std::size_t>(list.size(), scaled(list.size(), 1));
  for (std::size_t i = 0; i < count; ++i) {
    const Recording& r = list[i];
    INFO(r.about());
    const Hash hash = find_hash(format_of(r), cast_of(r));
    REQUIRE((hash != nullptr));
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t got = hash_of_all_floats(hash);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const bool same = got == from_hex(r.fields[0]);
    std::cout << "conformance: " << i + 1 << "/" << count << " " << r.about() << " " << hex(got)
              << (same ? " as recorded, " : " DIFFERS, ") << seconds.count() << " s" << std::endl;
    CHECK(same);
  }
}
