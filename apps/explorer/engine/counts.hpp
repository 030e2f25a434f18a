// How often each magnitude occurs in a tensor, to 1/128 of a binade: counted once, then asked for any format and any
// power-of-two scale while somebody drags a slider.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "narrow/array/statistics.hpp"
#include "narrow/tensor/tensor.hpp"

namespace app {

// A bin is the upper half of a float: sign, exponent, seven bits of the significand.
struct Bin {
  std::uint16_t upper;
  std::uint64_t count;
};

inline constexpr std::size_t upper_halves = 1 << 16;

struct FineCounts {
  std::vector<Bin> bins;  // of finite values that are not zero, ascending
  std::uint64_t values = 0, zeros = 0, inf = 0, nan = 0;
  std::uint32_t largest = 0, smallest = 0;  // magnitude words of the finite ones that are not zero; 0: there are none
  int grid = 0;  // so many of the last bits of every float are zero, at most 16: what the file holds is not finer
};

// A count that goes on piece by piece, also in several instances of the engine, whose states are added up.
class ValueCounter {
 public:
  void add(std::span<const float> values);
  // Words that add() of another counter takes: how often each upper half occurs, then the rest.
  std::vector<std::uint64_t> state() const;
  void add_state(std::span<const std::uint64_t> state);
  std::uint64_t values() const { return values_; }
  FineCounts counts() const;

 private:
  void count_halves(std::span<const float> values);
  void count_special(std::span<const float> values);

  std::vector<std::uint32_t> recent_ = std::vector<std::uint32_t>(upper_halves);  // of the last values, below 2^32
  std::vector<std::uint64_t> total_ = std::vector<std::uint64_t>(upper_halves);
  std::uint64_t in_recent_ = 0, zeros_ = 0, inf_ = 0, values_ = 0;
  std::uint32_t bits_used_ = 0, largest_ = 0, smallest_ = ~0u;  // smallest: magnitude less one
};

// Doubles are rounded to float first.
FineCounts count_values(const narrow::Tensor& tensor, const narrow::BytesDone& done);

struct Lost {
  std::uint64_t underflow = 0, subnormal = 0, overflow = 0;
  double signal = 0, squared_error = 0;
};

// What a format makes of the values times 2^scale_log2, a row for each of the counts. Counts are those of bins whose
// middle does so; the error takes a few values of each bin for all: exact where the bin holds one (grid 16).
std::vector<Lost> lost_at(std::span<const FineCounts> all, const narrow::FormatCast& to, int scale_log2);

// Commands that only the page has.
extern const Command count_command, at_command, piece_command, part_command, counted_command;

}  // namespace app
