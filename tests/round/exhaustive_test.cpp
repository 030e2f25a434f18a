// Do all 2^32 floats go where the oracle's intervals say? And has any of the results changed since the manifest was
// written?
#include <doctest/doctest.h>

#include <chrono>
#include <utility>

#include "narrow/base/parallel.hpp"
#include "narrow/round/round_to.hpp"
#include "support/inputs.hpp"
#include "support/manifest.hpp"
#include "support/mismatches.hpp"
#include "support/oracle/intervals.hpp"
#include "support/rows.hpp"

using narrow::Cast;
using narrow::Code;
using narrow::Format;
using narrow::Rounding;

namespace {

struct Part {
  std::uint64_t hash = 0;
  std::uint64_t wrong = 0;
};

// The floats first .. last (words with their sign), which should all give `expected`. Format and cast are template
// arguments and everything is inlined, so that the constants fold and a float costs a few nanoseconds.
template <Format F, Cast C>
[[gnu::flatten, gnu::noinline]] Part sweep_interval(std::uint32_t first, std::uint32_t last, Code expected) {
  Part part;
  for (std::uint64_t i = first; i <= last; ++i) {
    const Code code = narrow::encode(std::bit_cast<float>(static_cast<std::uint32_t>(i)), F, C);
    part.hash += test::mix(code << 32 | i);
    part.wrong += code != expected ? 1 : 0;
  }
  return part;
}

struct Sweep {
  std::string_view name;
  Format format;
  Cast cast;
  Part (*interval)(std::uint32_t, std::uint32_t, Code);
};

std::uint64_t run(const Sweep& sweep) {
  test::Mismatches wrong;
  std::atomic<std::uint64_t> hash{0};
  for (const bool negative : {false, true}) {
    const auto intervals = oracle::intervals(sweep.format, sweep.cast, negative);
    const std::uint32_t sign = negative ? 0x80000000u : 0;
    narrow::parallel_parts(std::size_t{1} << 31, std::size_t{1} << 22, 0, [&](std::size_t begin, std::size_t end) {
      // The first interval that ends at or after the part's beginning.
      auto it = std::partition_point(intervals.begin(), intervals.end(), [&](const auto& i) { return i.last < begin; });
      for (; it != intervals.end() && it->first < end; ++it) {
        const auto first = std::max(it->first, static_cast<std::uint32_t>(begin));
        const auto last = std::min(it->last, static_cast<std::uint32_t>(end - 1));
        const Part part = sweep.interval(first | sign, last | sign, it->code);
        hash += part.hash;
        if (part.wrong != 0)
          wrong.add([&] {
            return std::to_string(part.wrong) + " of " + test::hex(first | sign) + " .. " + test::hex(last | sign) +
                   " do not give " + test::hex(it->code);
          });
      }
    });
  }
  wrong.require_none(std::string(sweep.name) + " " + test::name(sweep.cast.rounding));
  return hash;
}

constexpr Rounding others[] = {Rounding::nearest_away, Rounding::nearest_to_zero, Rounding::toward_zero, Rounding::up,
                               Rounding::down,         Rounding::to_odd};

template <std::size_t row, Rounding rounding>
constexpr Sweep sweep_of() {
  constexpr Format f = narrow::format_table[row].format;
  constexpr Cast cast{.rounding = rounding};
  return {narrow::format_table[row].name, f, cast, &sweep_interval<f, cast>};
}

// Every row of up to 19 bits in nearest_even; four of them in the other modes that need no random numbers.
template <std::size_t row>
void add_sweeps(std::vector<Sweep>& list) {
  constexpr narrow::NamedFormat r = narrow::format_table[row];
  if constexpr (r.format.width() <= 19) list.push_back(sweep_of<row, Rounding::nearest_even>());
  if constexpr (r.name == "fp16" || r.name == "bf16" || r.name == "e4m3" || r.name == "e5m2")
    [&]<std::size_t... i>(std::index_sequence<i...>) { (list.push_back(sweep_of<row, others[i]>()), ...); }
  (std::make_index_sequence<std::size(others)>());
}

std::vector<Sweep> all_sweeps() {
  std::vector<Sweep> list;
  [&]<std::size_t... row>(std::index_sequence<row...>) { (add_sweeps<row>(list), ...); }
  (std::make_index_sequence<std::size(narrow::format_table)>());
  return list;
}

}  // namespace

TEST_CASE("round: all 2^32 floats go where the definition says and nothing has changed") {
  const auto sweeps = all_sweeps();
  test::Manifest manifest;
  for (std::size_t i = 0; i < sweeps.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t hash = run(sweeps[i]);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const char* rounding = test::name(sweeps[i].cast.rounding);
    std::printf("sweep %2zu/%zu  %-12s %-16s %5.1f s  %s\n", i + 1, sweeps.size(), sweeps[i].name.data(), rounding,
                seconds, test::hash_text(hash).c_str());
    std::fflush(stdout);
    manifest.compare(std::string(sweeps[i].name), rounding, hash);
  }
  manifest.write_if_asked();
}
