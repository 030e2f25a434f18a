#include "cuda/golden_folder.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/dot/dot.hpp"
#include "narrow/golden/golden.hpp"
#include "narrow/golden/share.hpp"
#include "support/mismatches.hpp"
#include "support/scale.hpp"

namespace {

narrow::Code emulated(const narrow::GoldenTiles& golden, const narrow::DotModel& model, std::uint64_t tile,
                      std::size_t output) {
  const auto columns = static_cast<std::size_t>(golden.instruction.columns());
  const narrow::TileDot dot = narrow::tile_dot(golden.instruction, golden.seed, tile,
                                               static_cast<int>(output / columns), static_cast<int>(output % columns));
  return narrow::emulated_code(model, dot);
}

}  // namespace

TEST_CASE("golden: every recorded result of every instruction comes out of its model") {
  const auto files = test::golden_tiles();
  CHECK(files.size() == narrow::all_instructions().size());
  test::Mismatches wrong;
  std::size_t results = 0;
  for (const auto& path : files) {
    const narrow::GoldenTiles golden = narrow::read_golden_tiles(test::read_text(path), path.filename().string());
    const narrow::DotModel* model = narrow::find_dot_model(golden.instruction.model());
    REQUIRE(model != nullptr);
    const auto count = std::max<std::size_t>(
        1, static_cast<std::size_t>(static_cast<double>(golden.tiles.full.size()) * std::min(1.0, test::scale())));
    narrow::parallel_parts(count, 256, 0, [&](std::size_t begin, std::size_t end) {
      for (std::size_t o = begin; o < end; ++o) {
        const narrow::Code code = emulated(golden, *model, 0, o);
        if (code != golden.tiles.full[o])
          wrong.add([&] {
            return golden.instruction.name() + " output " + std::to_string(o) + ": recorded " +
                   test::hex(golden.tiles.full[o]) + ", model " + test::hex(code);
          });
      }
    });
    results += count;
  }
  wrong.require_none("data/golden");
  MESSAGE(results << " results of " << files.size() << " instructions");
}

// All families but the first are in the hashes only. A different tile of each instruction, so that all are visited.
TEST_CASE("golden: tiles of every family have their recorded hash") {
  const auto files = test::golden_tiles();
  test::Mismatches wrong;
  narrow::parallel_parts(files.size(), 1, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t f = begin; f < end; ++f) {
      const narrow::GoldenTiles golden =
          narrow::read_golden_tiles(test::read_text(files[f]), files[f].filename().string());
      const narrow::DotModel* model = narrow::find_dot_model(golden.instruction.model());
      const auto outputs = static_cast<std::size_t>(narrow::tile_rows * golden.instruction.columns());
      const auto tiles = static_cast<std::size_t>(
          std::clamp(2.0 * test::scale(), 1.0, static_cast<double>(golden.tiles.hashes.size())));
      for (std::size_t n = 0; n < (outputs > 4096 ? (tiles + 3) / 4 : tiles); ++n) {
        const std::size_t tile = (f * 7 + n * 37 + 1) % golden.tiles.hashes.size();
        std::vector<narrow::Code> results(outputs);
        for (std::size_t o = 0; o < outputs; ++o) results[o] = emulated(golden, *model, tile, o);
        if (narrow::hash_tile(results) != golden.tiles.hashes[tile])
          wrong.add([&] {
            return golden.instruction.name() + " tile " + std::to_string(tile) + " (family " +
                   std::to_string(tile % narrow::tile_families) + ")";
          });
      }
    }
  });
  wrong.require_none("data/golden");
}

// Recordings of random tiles fit every floor from -19 to -133 of an FP16 accumulator; the ladder fits one.
TEST_CASE("golden: the recorded ladders fit the floor of the model and no neighbour of it") {
  const test::GoldenTable table = test::golden_table("ladders.tsv");
  REQUIRE(table.origin.size() == 5);
  std::size_t reaching = 0, sharp = 0;
  for (const narrow::Instruction& i : narrow::all_instructions()) reaching += narrow::ladder_reaches(i.formats()) ? 1 : 0;
  REQUIRE(table.rows.size() == reaching);
  for (const auto& row : table.rows) {
    REQUIRE(row.size() == 3);
    const narrow::Instruction i = narrow::find_instruction(row[0]);
    const narrow::DotModel& model = *narrow::find_dot_model(i.model());
    CAPTURE(row[0]);
    const auto ladder = [&](int floor) {
      narrow::DotModel moved = model;
      moved.exponent_floor = floor;
      std::vector<narrow::Code> results;
      for (int r = 0; r < narrow::tile_rows; ++r)
        for (int c = 0; c < i.columns(); ++c) {
          const narrow::TileDot dot = narrow::tile_dot(i, 0, narrow::ladder_tile, r, c);
          results.push_back(narrow::dot(moved, dot.a, dot.b, dot.c));
        }
      return results;
    };
    const std::vector<narrow::Code> expected = ladder(model.exponent_floor);
    CHECK(narrow::hash_tile(expected) == std::stoull(row[1], nullptr, 16));
    std::istringstream codes(row[2]);
    for (std::size_t r = 0; r < static_cast<std::size_t>(narrow::tile_rows); ++r) {
      narrow::Code recorded = ~narrow::Code{0};
      codes >> std::hex >> recorded;
      CHECK(recorded == expected[r * static_cast<std::size_t>(i.columns())]);
    }
    // FP8 products end above the floor, FP64 has none.
    if (model.fraction_bits != 25 || i.formats().a.mantissa_bits < 7) continue;
    CHECK(ladder(model.exponent_floor - 1) != expected);
    CHECK(ladder(model.exponent_floor + 1) != expected);
    ++sharp;
  }
  CHECK(sharp == 35);
}
