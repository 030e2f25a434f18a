// Are the recordings of eight GPUs reproduced, bit for bit?
#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "dot/recorded_sets.hpp"
#include "support/dot_oracle.hpp"
#include "support/mismatches.hpp"

using narrow::Code;

namespace {

std::size_t replay(const test::RecordedSet& set) {
  const narrow::DotModel* m = narrow::find_dot_model(set.model);
  REQUIRE_MESSAGE(m != nullptr, set.model);
  const auto a = test::codes_of(test::recorded_words(set.tensor("a")), m->a.format, true);
  const auto b = test::codes_of(test::recorded_words(set.tensor("b")), m->b.format, true);
  // The c of an FP16 result was rounded to FP16 before the product.
  auto c = test::codes_of(test::recorded_words(set.tensor("c")), m->accumulator.format, set.output == "fp32");
  const auto d = test::codes_of(test::recorded_words(set.tensor("d_" + set.output)), m->accumulator.format, true);
  REQUIRE(d.size() >= 1000);
  REQUIRE(c.size() == d.size());
  REQUIRE(a.size() == b.size());
  const std::size_t k = a.size() / d.size();
  REQUIRE(k * d.size() == a.size());
  if (!set.has_c) c.assign(c.size(), 0);
  test::Mismatches wrong, oracle_wrong;
  for (std::size_t i = 0; i < d.size(); ++i) {
    const auto row = std::span(a).subspan(i * k, k), col = std::span(b).subspan(i * k, k);
    const Code got = narrow::dot(*m, row, col, c[i]), theirs = oracle::dot(*m, row, col, c[i]);
    const auto words = [&](Code x) {
      return "number " + std::to_string(i) + ": recorded " + test::hex(d[i]) + ", here " + test::hex(x);
    };
    if (got != d[i]) wrong.add([&] { return words(got); });
    if (theirs != d[i]) oracle_wrong.add([&] { return words(theirs); });
  }
  wrong.require_none(set.gpu + " " + set.type + " " + set.output + " by " + set.model);
  oracle_wrong.require_none("the oracle, " + set.gpu + " " + set.type + " " + set.output + " by " + set.model);
  return d.size();
}

}  // namespace

TEST_CASE("dot: recordings of eight GPUs are reproduced bit for bit") {
  std::size_t count = 0;
  std::set<std::string> used;
  for (const test::RecordedSet& set : test::recorded_sets()) {
    count += replay(set);
    for (const std::string& part : {std::string("a"), std::string("b"), std::string("c"), "d_" + set.output})
      used.insert(set.tensor(part));
  }
  for (const auto& entry : std::filesystem::directory_iterator(test::recorded_folder())) {
    if (entry.path().extension() != ".npz") continue;
    const std::string file = entry.path().filename().string();
    for (const narrow::Tensor& t : narrow::open_tensor_file(entry.path().string()).tensors)
      CHECK_MESSAGE(used.contains(file + ":" + t.name), "a recording that no set names: " << file << ":" << t.name);
  }
  MESSAGE(test::recorded_sets().size() << " sets, " << count << " dot products");
}
