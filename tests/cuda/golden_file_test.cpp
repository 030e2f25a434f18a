#include <doctest/doctest.h>

#include "narrow/base/error.hpp"
#include "narrow/dot/model.hpp"
#include "narrow/golden/golden.hpp"

namespace {

narrow::GoldenTiles example() {
  narrow::GoldenTiles golden;
  golden.origin = {"a GPU", "1.2", "13.0", "2026-01-01", "narrow gpu record -o x"};
  golden.instruction = narrow::find_instruction("mma.m16n8k16.f32.f16.f16");
  golden.seed = 5;
  for (std::uint64_t t = 0; t < 9; ++t) golden.tiles.hashes.push_back(narrow::mix_bits(t));
  for (std::uint64_t o = 0; o < 128; ++o) golden.tiles.full.push_back(narrow::mix_bits(o) & 0xFFFFFFFF);
  return golden;
}

}  // namespace

TEST_CASE("golden: a file reads back as what was written") {
  const narrow::GoldenTiles golden = example(),
                            again = narrow::read_golden_tiles(narrow::write_golden_tiles(golden), "x");
  CHECK(again.origin.gpu == golden.origin.gpu);
  CHECK(again.origin.command == golden.origin.command);
  CHECK(again.instruction.name() == golden.instruction.name());
  CHECK(again.seed == golden.seed);
  CHECK(again.tiles.hashes == golden.tiles.hashes);
  CHECK(again.tiles.full == golden.tiles.full);
}

TEST_CASE("golden: a broken file is an error that names its line") {
  const std::string text = narrow::write_golden_tiles(example());
  const auto refused = [](const std::string& broken) {
    CHECK_THROWS_AS(narrow::read_golden_tiles(broken, "x"), narrow::Error);
  };
  refused("");
  refused(text.substr(text.find('\n') + 1));  // without the GPU's name it is no evidence
  for (std::size_t cut = 0; cut < text.size(); cut += 13) refused(text.substr(0, cut));
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string broken = text;
    return broken.replace(broken.find(what), what.size(), by);
  };
  refused(replaced("mma.m16n8k16.f32.f16.f16", "mma.m16n8k17.f32.f16.f16"));
  refused(replaced("# seed 5", "# seed five"));
  refused(replaced("# tiles 9", "# tiles 99999999999"));
  refused(replaced("# full 128", "# full 64000000000"));
  refused(text + "more\n");
}

TEST_CASE("golden: instructions have models and names that are theirs alone") {
  const auto all = narrow::all_instructions();
  CHECK(all.size() > 140);
  for (const narrow::Instruction& i : all) {
    CAPTURE(i.name());
    CHECK(narrow::find_instruction(i.name()).number() == i.number());
    CHECK(narrow::find_dot_model(i.model()) != nullptr);
  }
  CHECK_THROWS_AS(narrow::find_instruction("mma.m16n8k16.f32.f16"), narrow::Error);
}
