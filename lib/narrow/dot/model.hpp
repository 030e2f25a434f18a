// What a tensor core does, as a row of numbers: formats, products per step, bits kept, how the result is rounded.
//
//   for (const DotModel& m : dot_models())
//     if (m.generation == Generation::hopper) std::printf("%.*s\n", int(m.name.size), m.name.letters);
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/cast.hpp"

namespace narrow {

// GPUs, and sums in software.
enum class Generation : std::uint8_t {
  volta, turing, ampere, ada, hopper, blackwell, rtx_blackwell, cdna1, cdna2, cdna3, software
};
// What executes the instruction; for software the order of a sum.
enum class Unit : std::uint8_t { mma, wgmma, tcgen05, mfma, fma, muladd, pairwise, kahan };

// How the products of a step and the addend c become the result. Names of numbers below: L = products_per_step,
// F = fraction_bits.
enum class DotRule : std::uint8_t {
  fused,               // L products and c, aligned to the largest exponent, cut to F bits, added, rounded once
  fused_pair_then_add, // k mod 4 in {0, 1} fused with 0, then {2, 3} fused with that; then an IEEE addition of c
  block_fused,         // as fused; a product's exponent counts the two scales of its block
  block_groups,        // groups of 16 products summed exactly, times their scales; groups and c fused
  integer,             // exact, modulo 2^32
  integer_saturating,  // exact, clamped to 32 bits after each instruction
  exact,               // the exact sum of L products and c, rounded once
  flushed_pairs,       // products and sums rounded one by one, pairwise within L, subnormals flushed
  two_stage,           // L products fused and cut at F; their sum and c aligned again and floored; rounded
  two_stage_halves,    // the same, even and odd k summed apart first
  fma_chain,           // acc = fma(a, b, acc)
  multiply_add,        // acc = acc + a * b, two roundings
  pairwise,            // products rounded, then added as a balanced tree; c last
  kahan                // acc + a * b with a running compensation
};

// What a row rests on, strongest first.
enum class Evidence : std::uint8_t {
  measured,   // compared on the silicon with this library; the recording is in data/golden
  replayed,   // equal to recordings that others published
  published,  // described by others, not compared with data here
  assumed,    // by analogy
  by_definition  // no claim about a machine: IEEE operations in a stated order
};
// How many classes there are.
inline constexpr int evidence_count = 5;

// A short text inside a row, so that rows can be made at compile time.
struct ModelName {
  char letters[56] = {};
  std::size_t size = 0;

  constexpr ModelName() = default;
  constexpr ModelName(std::string_view text) { append(text); }
  constexpr ModelName& append(std::string_view text) {
    if (text.size() > sizeof letters - size)
      throw Error("the name of a model: at most " + std::to_string(sizeof letters) + " letters, the names of its types included");
    for (const char c : text) letters[size++] = c;
    return *this;
  }
  constexpr std::string_view view() const noexcept { return {letters, size}; }
  constexpr operator std::string_view() const noexcept { return view(); }
};

// An operand or accumulator type: PTX's word for it and what its codes mean.
struct DotType {
  std::string_view name;
  Format format;
};

// One arithmetic: a row of the table with its name.
struct DotModel {
  ModelName name;
  Generation generation = Generation::software;
  Unit unit = Unit::mma;
  DotType a, b, accumulator;
  DotRule rule = DotRule::fused;
  int instruction_k = 0;      // products of one instruction; chained steps where it is more than products_per_step
  int products_per_step = 1;  // L
  int fraction_bits = 0;      // F: what lies below 2^(largest exponent - F) is cut from every term
  int exponent_floor = 0;     // the largest exponent counts as at least this
  Format result = {};         // what the sum is rounded to; the accumulator, or fewer bits of it
  Rounding rounding = Rounding::toward_zero;
  Format scale = {};          // block rules: format of the scales, one for each scale_block products
  int scale_block = 0;
  Evidence evidence = Evidence::assumed;
  std::string_view proof;     // measured: the file in data/golden; replayed: the set of recordings
  std::string_view source;

  constexpr bool is_integer() const noexcept {
    return rule == DotRule::integer || rule == DotRule::integer_saturating;
  }
  constexpr bool is_block_scaled() const noexcept {
    return rule == DotRule::block_fused || rule == DotRule::block_groups;
  }
};

// Whether two rows compute the same bits for every input: names, evidence and how K is cut into instructions aside.
constexpr bool same_arithmetic(const DotModel& x, const DotModel& y) noexcept {
  const bool by_instruction = x.rule == DotRule::fused_pair_then_add || x.rule == DotRule::integer_saturating;
  return x.rule == y.rule && x.a.format == y.a.format && x.b.format == y.b.format &&
         x.accumulator.format == y.accumulator.format && x.products_per_step == y.products_per_step &&
         x.fraction_bits == y.fraction_bits && x.exponent_floor == y.exponent_floor && x.result == y.result &&
         x.rounding == y.rounding && x.scale == y.scale && x.scale_block == y.scale_block &&
         (!by_instruction || x.instruction_k == y.instruction_k);
}

// The words of names: "hopper", "wgmma", "measured".
constexpr std::string_view generation_name(Generation g) noexcept {
  constexpr std::string_view names[] = {"volta",         "turing", "ampere", "ada",   "hopper",  "blackwell",
                                        "rtx-blackwell", "cdna1",  "cdna2",  "cdna3", "software"};
  return names[static_cast<std::size_t>(g)];
}
constexpr std::string_view unit_name(Unit u) noexcept {
  constexpr std::string_view names[] = {"mma", "wgmma", "tcgen05", "mfma", "fma", "muladd", "pairwise", "kahan"};
  return names[static_cast<std::size_t>(u)];
}
constexpr std::string_view evidence_name(Evidence e) noexcept {
  constexpr std::string_view names[] = {"measured", "replayed", "published", "assumed", "by definition"};
  return names[static_cast<std::size_t>(e)];
}
// The class of a row with what it stands on: "measured on the GPU (data/golden)", "published, not compared with data here".
std::string evidence_text(const DotModel& model);

// Hardware and software models in the order of the table; the rows live as long as the program.
std::span<const DotModel> dot_models();
const DotModel* find_dot_model(std::string_view name);  // nullptr when there is none

// Sums in software with any formats: fma (one rounding), muladd ("round after every operation"), pairwise, kahan.
// Every operation rounds to nearest even in the accumulator's format.
DotModel software_model(Unit order, const DotType& accumulator, const DotType& a, const DotType& b);

}  // namespace narrow
