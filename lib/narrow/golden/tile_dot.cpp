#include "narrow/golden/tile_dot.hpp"

namespace narrow {

TileDot tile_dot(const Instruction& i, std::uint64_t seed, std::uint64_t tile, int row, int column) {
  const TileFormats f = i.formats();
  const TilePlan plan = plan_tile(f, seed, i.number(), tile);
  const TileSigns minus = tile_negates(i, tile);
  TileDot dot;
  for (int k = 0; k < i.products(); ++k) {
    dot.a.push_back(tile_operand(plan, f.a, false, row, k, i.products()) ^ (minus.a ? f.a.sign_mask() : 0));
    dot.b.push_back(tile_operand(plan, f.b, true, column, k, i.products()) ^ (minus.b ? f.b.sign_mask() : 0));
  }
  dot.c = i.drops_addend(tile) ? 0 : tile_addend(plan, f.c, row, column);
  return dot;
}

}  // namespace narrow
