#include "narrow/golden/tile_inputs.hpp"

#include <doctest/doctest.h>

#include "narrow/golden/instruction.hpp"

// The generator is part of every recording: if it changed, no hash would hold. A few of its codes, pinned.
TEST_CASE("tile inputs: the same codes as when the recordings were made") {
  std::uint64_t hash = 0;
  for (const narrow::Instruction& i : narrow::all_instructions())
    for (std::uint64_t tile = 0; tile < 2 * narrow::tile_families; ++tile) {
      const narrow::TilePlan p = narrow::plan_tile(i.formats(), 1, i.number(), tile);
      for (int k = 0; k < 4; ++k)
        hash += narrow::mix_bits(
            narrow::tile_operand(p, i.formats().a, false, 3, k, 4) +
            narrow::mix_bits(narrow::tile_operand(p, i.formats().b, true, 5, k, 4)) +
            narrow::mix_bits(tile * 4 + static_cast<std::uint64_t>(k) + narrow::tile_addend(p, i.formats().c, 2, k)));
    }
  CHECK(hash == 0x6F285F80141660C0ull);
}

TEST_CASE("tile inputs: finite families have no special and special ones do") {
  const narrow::TileFormats f{narrow::ieee(5, 10), narrow::ieee(5, 10), narrow::ieee(8, 23)};
  for (int family = 0; family < narrow::tile_families; ++family) {
    int specials = 0, zeros = 0;
    const narrow::TilePlan p = narrow::plan_tile(f, 1, 2, static_cast<std::uint64_t>(family));
    for (int line = 0; line < 64; ++line)
      for (int k = 0; k < 16; ++k) {
        const narrow::Code code = narrow::tile_operand(p, f.a, false, line, k, 16);
        CHECK((code & ~f.a.code_mask()) == 0);
        specials += narrow::is_nan(code, f.a) || narrow::is_inf(code, f.a) ? 1 : 0;
        zeros += narrow::classify(code, f.a) == narrow::ValueClass::zero ? 1 : 0;
      }
    CAPTURE(family);
    const bool special = p.family == narrow::TileFamily::any_bits || p.family == narrow::TileFamily::specials ||
                         p.family == narrow::TileFamily::rare_specials;
    CHECK((specials > 0) == special);
    if (p.family == narrow::TileFamily::zeros) CHECK(zeros > 300);
  }
}
