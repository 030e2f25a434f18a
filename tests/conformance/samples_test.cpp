// Four million doubles around the floats, and as many around their middles: the hash of all codes is the recorded one.
#include <atomic>

#include "conformance/recordings.hpp"
#include "narrow/base/parallel.hpp"

using namespace test;

namespace {

constexpr std::uint64_t sample_count = std::uint64_t{1} << 22;

// As the header of systems.tsv defines them.
double sample(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t r = mix(seed + i * 0x9E3779B97F4A7C15u);
  auto p = static_cast<std::uint32_t>(r);
  if (seed == 1) {
    if (i % 2 == 1) p = (p & 0xFFFFE000) | 0x1000;
  } else {
    const auto j = static_cast<int>(10 + (r >> 32) % 13);
    p = ((p >> (j + 1)) << (j + 1)) | 1u << j;
  }
  const double d = widened(p);
  const bool finite_and_not_zero = (p & 0x7F800000) != 0x7F800000 && (p & 0x7FFFFFFF) != 0;
  return finite_and_not_zero ? from_bits<double>(bits(d) + (r >> 40) % 5 - 2) : d;
}

std::vector<double> samples(std::uint64_t seed) {
  std::vector<double> list(sample_count);
  narrow::parallel_parts(sample_count, 1 << 16, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) list[i] = sample(seed, i);
  });
  return list;
}

std::uint64_t hash_of(const std::vector<double>& inputs, const narrow::Format& f, const narrow::Cast& cast) {
  std::atomic<std::uint64_t> total{0};
  narrow::parallel_parts(inputs.size(), 1 << 16, 0, [&](std::size_t begin, std::size_t end) {
    std::uint64_t sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += mix(narrow::encode(inputs[i], f, cast) << 32 | i);
    total += sum;
  });
  return total;
}

// A hash needs all of its inputs: a run that is scaled down takes a part of the recordings instead.
void check_samples(const std::string& source, std::uint64_t seed) {
  const std::vector<double> inputs = samples(seed);
  const std::vector<Recording> list = modelled(read_recordings("systems.tsv"), source);
  CHECK(list.size() >= 25);
  const std::size_t count = std::min<std::size_t>(list.size(), scaled(list.size(), 2));
  for (std::size_t i = 0; i < count; ++i) {
    const Recording& r = list[i * list.size() / count];
    INFO(r.about());
    CHECK(hex(hash_of(inputs, format_of(r), cast_of(r))) == hex(from_hex(r.fields[0])));
  }
}

}  // namespace

TEST_CASE("conformance: doubles around floats give the recorded hashes") { check_samples("f64-sample", 1); }
TEST_CASE("conformance: doubles around middles give the recorded hashes") { check_samples("f64-mid", 2); }
