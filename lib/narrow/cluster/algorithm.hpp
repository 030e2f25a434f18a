// In which order the arrays of several ranks become one sum: the algorithms of an all-reduce as rows of a table.
//
//   static_assert(cluster::row_of(cluster::Algorithm::tree).name == "tree");
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace narrow::cluster {

// A row of the table below for each.
enum class Algorithm : std::uint8_t { ring, tree, recursive_doubling, fp32_once, linear, mpi };

// A name, what it is, and its order in words: what is added to what, and when that is rounded.
struct AlgorithmRow {
  std::string_view name, summary, order;
  bool is_fixed = true;  // whether the order is known, so that one process can compute what many would
};
// All algorithms, in the order of the enumerators.
inline constexpr AlgorithmRow algorithm_table[] = {
    {"ring", "NCCL's ring",
     "the array is cut into as many pieces as there are ranks; piece c starts at rank c + 1 and travels once around, "
     "rounded at every hop"},
    {"tree", "pairs of ranks, then pairs of pairs",
     "((0 + 1) + (2 + 3)) + ...; a rank without a partner waits for the next round; every sum is rounded"},
    {"recursive-doubling", "MPI's usual order for short messages",
     "in round k rank r and rank r xor 2^k add what they have; ranks beyond a power of two are added in pairs first "
     "(0 + 1, 2 + 3, ...); every sum is rounded"},
    {"fp32-once", "the order of NCCL's symmetric memory",
     "piece c of as many as there are ranks starts at its owner, rank c, then c + 1, c + 2, ... are added in FP32; one "
     "rounding at the end"},
    {"linear", "one rank after the other", "((0 + 1) + 2) + 3 ...; every sum is rounded"},
    {"mpi", "MPI_Allreduce itself", "the order that the MPI library picks", false}};

// How many there are, and their names.
inline constexpr std::size_t algorithm_count = std::size(algorithm_table);
// The names of the algorithms.
inline constexpr auto algorithm_names = [] {
  std::array<std::string_view, algorithm_count> names;
  for (std::size_t i = 0; i < algorithm_count; ++i) names[i] = algorithm_table[i].name;
  return names;
}();

// Rows and words by enumerator.
constexpr const AlgorithmRow& row_of(Algorithm a) noexcept { return algorithm_table[static_cast<std::size_t>(a)]; }
constexpr std::string_view name_of(Algorithm a) noexcept { return row_of(a).name; }

// Throws Error for an algorithm whose order is not known.
void check_order(Algorithm algorithm);

}  // namespace narrow::cluster
