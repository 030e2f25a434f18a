// In which order the products of a matrix product are added: how K is cut into chains and how their results are joined.
//
//   const Plan plan = parse_plan("split:1408,pairwise");
//   const std::string text = plan_text(plan);  // what parse_plan reads
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/dot/model.hpp"

namespace narrow {

// How K becomes chains.
enum class SumOrder : std::uint8_t {
  chain,    // one accumulator, ascending k
  promote,  // a new chain every `length` of K, its result added to a running sum in FP32
  split,    // contiguous parts of `length`, the last one shorter, each a chain from 0; results joined
  slice,    // `length` chains; runs of K go to them in turn; results joined
  even,     // `length` contiguous parts as even as whole runs allow; those joined first are the longer ones
  blocks,   // `length` runs make a block, whose runs are joined by halving; blocks go to four sums in turn, joined in
            // order
  stream_k  // `length` workers share all tiles evenly: the cuts of K depend on the tile of the output
};
// In which order the results of chains are added.
enum class Join : std::uint8_t {
  in_order,
  pairwise,  // neighbours first: (p0 + p1) + (p2 + p3)
  reversed,
  halving  // as threads exchange them: (p0 + p2) + (p1 + p3); n is filled up to a power of two
};
// Where the sum of the parts lives while they are joined.
enum class Partials : std::uint8_t {
  wide,    // in FP32 (FP64 and integer accumulators in their own format)
  output,  // every part is rounded to the output's format, and so is every sum
  stored,  // every part is rounded to the output's format; their sum is wide (a kernel of its own adds them)
  serial   // the sum so far is rounded to the output's format whenever the next part, as it is, has been added
};
// Where C (or a bias) comes in.
enum class PlaceOfC : std::uint8_t {
  usual,  // chain: the first value of the accumulator; other orders and a bias: last
  last,   // added to the finished sum before its rounding
  first,  // added to the first part
  after   // added to the sum that was rounded to the output's format, and rounded again
};

// How operands reach the multiplier where they have more bits than it takes (FP32 words for TF32).
enum class Operands : std::uint8_t {
  cut,           // low bits ignored: what the hardware does with a word
  nearest_even,  // rounded before the product, as cuBLAS does
  nearest_away   // as cvt.rna does
};

// An order of summation as a value; parse_plan reads its text.
struct Plan {
  SumOrder order = SumOrder::chain;
  int length = 0;
  Join join = Join::in_order;
  Partials partials = Partials::wide;
  Operands operands = Operands::cut;
  int run = 0;  // slice, even, blocks: products that stay together; 0: one instruction
  int tile_rows = 128, tile_cols = 128, tile_k = 64;  // stream_k
  // chain, split: what a chain's length leaves over from tiles of this many products comes first, in a tile of its own
  // filled with zero products (kernels written as in CUTLASS 2); 0: it comes last.
  int residue = 0;
  PlaceOfC c = PlaceOfC::usual;

  friend bool operator==(const Plan&, const Plan&) = default;
};

// "chain", "promote:128", "split:1408", "slice:4", "even:3", "blocks:128", "streamk:132"; then options after commas:
// pairwise, reversed, halving, output, stored, serial, rne, rna, run=32 (slice, even, blocks), tile=128x128x64
// (streamk), residue=32 (chain, split), c=last (chain), c=first (split), c=after. Throws Error.
Plan parse_plan(std::string_view text);
std::string plan_text(const Plan& plan);  // what parse_plan reads

// One chain: positions [begin, end) of Schedule::order.
struct Segment {
  std::size_t begin = 0, end = 0;
};

// What a plan means for one K: which k stands at which position, padded with -1 (zero products) so that every chain ends
// with a whole instruction, and the chains in the order in which they are joined.
struct Schedule {
  std::vector<std::int32_t> order;
  std::vector<Segment> segments;
};

// Where a plan cuts K: from 0 to k, ascending, for the output tile that holds (row, col). Empty for slices and blocks.
std::vector<std::size_t> plan_cuts(const Plan& plan, const DotModel& model, std::size_t k, std::size_t rows,
                                   std::size_t cols, std::size_t row = 0, std::size_t col = 0);

// Every chain of a model is filled with zero products to a multiple of this.
std::size_t chain_unit(const DotModel& model);

// The schedule of the output tile that holds (row, col); only stream_k looks at the tile, and at the size of the output.
Schedule make_schedule(const Plan& plan, const DotModel& model, std::size_t k, std::size_t rows, std::size_t cols,
                       std::size_t row = 0, std::size_t col = 0);

}  // namespace narrow
