// Does dot() give the oracle's bits for every arithmetic of the table, on inputs that hurt?
#include <doctest/doctest.h>

#include "dot/problems.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/dot/dot.hpp"
#include "support/dot_oracle.hpp"
#include "support/mismatches.hpp"
#include "support/scale.hpp"

using narrow::Code;
using narrow::DotModel;

namespace {

std::string list(std::span<const Code> codes) {
  std::string text;
  for (const Code code : codes) text += (text.empty() ? "" : ",") + test::hex(code);
  return text;
}

std::string words(const DotModel& m, test::Family family, const test::Problem& p, Code want, Code got) {
  std::string text = std::string(m.name.view()) + " [" + test::name(family) + "] a " + list(p.a) + " b " + list(p.b) +
                     " c " + test::hex(p.c[0]);
  if (m.is_block_scaled()) text += " scales " + list(p.scale_a) + " / " + list(p.scale_b);
  return text + ": oracle " + test::hex(want) + ", dot " + test::hex(got);
}

// One step, part of a step, two steps and a bit, a few instructions.
std::size_t length(const DotModel& m, test::Dice& dice) {
  const int step = std::max({m.products_per_step, 4});
  switch (dice.below(4)) {
    case 0: return static_cast<std::size_t>(m.products_per_step);
    case 1: return static_cast<std::size_t>(dice.between(1, step));
    case 2: return static_cast<std::size_t>(2 * step + 1);
    default: return static_cast<std::size_t>(std::max(m.instruction_k, 1) * dice.between(1, 2));
  }
}

void compare(const DotModel& m, test::Family family, std::uint64_t count, test::Mismatches& wrong) {
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::uint64_t seed = n * 31 + static_cast<std::uint64_t>(family);
    test::Dice dice(seed + 7);
    const test::Problem p = test::make_problem(m, family, 1, 1, length(m, dice), seed);
    const Code want = oracle::dot(m, p.a, p.b, p.c[0], p.scale_a, p.scale_b);
    const Code got = m.is_block_scaled() ? narrow::dot_scaled(m, p.a, p.b, p.scale_a, p.scale_b, p.c[0])
                                         : narrow::dot(m, p.a, p.b, p.c[0]);
    if (want != got) wrong.add([&] { return words(m, family, p, want, got); });
  }
}

}  // namespace

TEST_CASE("dot: every arithmetic of the table gives the oracle's bits") {
  const auto models = test::distinct_models();
  const std::uint64_t each = test::scaled(300, 8);
  MESSAGE(models.size() << " arithmetics, " << each << " dot products in each of " << std::size(test::families)
                        << " families");
  std::vector<test::Mismatches> wrong(models.size());
  narrow::parallel_parts(models.size(), 1, 0, [&](std::size_t begin, std::size_t) {
    for (const test::Family family : test::families) compare(*models[begin], family, each, wrong[begin]);
  });
  for (std::size_t i = 0; i < models.size(); ++i) wrong[i].require_none(std::string(models[i]->name.view()));
}
