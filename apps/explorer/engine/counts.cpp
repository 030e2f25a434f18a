#include "explorer/engine/counts.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "narrow/array/array.hpp"
#include "narrow/array/thresholds.hpp"

namespace app {

namespace {

constexpr std::uint32_t magnitude_mask = 0x7FFFFFFF, inf_word = 0x7F800000;
constexpr std::size_t upper_halves = 1 << 16;

struct Counter {
  std::vector<std::uint32_t> table = std::vector<std::uint32_t>(upper_halves);
  std::vector<std::uint64_t> total = std::vector<std::uint64_t>(upper_halves);
  std::uint32_t bits_used = 0, largest = 0, smallest = ~0u;
  std::uint64_t zeros = 0, inf = 0, values = 0;

  void add(std::span<const float> data) {
    std::uint32_t used = 0, most = 0, least = ~0u;
    std::uint64_t none = 0, infinite = 0;
    for (const float value : data) {
      const auto word = std::bit_cast<std::uint32_t>(value);
      const std::uint32_t magnitude = word & magnitude_mask;
      ++table[word >> 16];
      used |= word;
      none += magnitude == 0;
      infinite += magnitude == inf_word;
      most = std::max(most, magnitude < inf_word ? magnitude : 0);
      least = std::min(least, magnitude - 1);  // zero becomes the largest
    }
    bits_used |= used, largest = std::max(largest, most), smallest = std::min(smallest, least);
    zeros += none, inf += infinite, values += data.size();
    for (std::size_t k = 0; k < upper_halves; ++k) total[k] += table[k];
    std::fill(table.begin(), table.end(), 0);
  }

  FineCounts counts() const {
    FineCounts c;
    c.values = values, c.zeros = zeros, c.inf = inf;
    c.grid = std::min(16, std::countr_zero(bits_used));
    std::uint64_t left = zeros;  // of both signs, in bins 0 and 0x8000, which hold the smallest subnormals too
    for (std::size_t k = 0; k < upper_halves; ++k) {
      if (total[k] == 0) continue;
      if ((k << 16 & inf_word) == inf_word) {
        c.nan += total[k];
        continue;
      }
      std::uint64_t count = total[k];
      if ((k & 0x7FFF) == 0) {
        const std::uint64_t zero = std::min(left, count);
        left -= zero, count -= zero;
      }
      if (count > 0) c.bins.push_back({static_cast<std::uint16_t>(k), count});
    }
    c.nan -= inf;
    c.largest = largest;
    c.smallest = largest == 0 ? 0 : smallest + 1;
    return c;
  }
};

// Values that stand for a bin: spread by the golden ratio, so that they meet no grid of a format, on the file's own.
constexpr int stand_ins = 4;

float stand_in(std::uint16_t upper, int k, int grid) {
  const std::uint32_t spread = (static_cast<std::uint32_t>(upper) * stand_ins + static_cast<std::uint32_t>(k)) * 40503u;
  const std::uint32_t lower = ((spread & 0xFFFF) / stand_ins + static_cast<std::uint32_t>(k) * 0x10000u / stand_ins);
  const std::uint32_t word = static_cast<std::uint32_t>(upper) << 16 | (lower & 0xFFFF);
  return std::bit_cast<float>(word >> grid << grid);
}

// What becomes of one bin.
struct Answer {
  enum : std::uint8_t { normal, subnormal, zero, beyond } fate = normal;
  double squared_error = 0, signal = 0;
};

std::vector<Answer> answers(std::span<const std::uint16_t> bins, int grid, const narrow::FormatCast& to, int k) {
  const std::array thresholds = {narrow::detail::find_thresholds(to, false, k),
                                 narrow::detail::find_thresholds(to, true, k)};
  const int each = grid == 16 ? 1 : stand_ins;
  std::vector<float> scaled, rounded(bins.size() * static_cast<std::size_t>(each));
  const float scale = std::ldexp(1.0F, k);
  for (const std::uint16_t bin : bins)
    for (int i = 0; i < each; ++i) scaled.push_back(stand_in(bin, i, grid) * scale);
  narrow::round_array(scaled, rounded, to.format, to.cast);
  std::vector<Answer> found(bins.size());
  for (std::size_t b = 0; b < bins.size(); ++b) {
    const narrow::detail::Thresholds& t = thresholds[bins[b] >> 15];
    const std::uint32_t middle =
        (static_cast<std::uint32_t>(bins[b]) << 16 & magnitude_mask) | (grid == 16 ? 0 : 0x8000);
    found[b].fate = middle < t.zero_below       ? Answer::zero
                    : middle >= t.overflow_from ? Answer::beyond
                    : middle < t.normal_from    ? Answer::subnormal
                                                : Answer::normal;
    for (int i = 0; i < each; ++i) {
      const std::size_t at = b * static_cast<std::size_t>(each) + static_cast<std::size_t>(i);
      const double value = stand_in(bins[b], i, grid), error = static_cast<double>(rounded[at]) / scale - value;
      if (!std::isfinite(error)) continue;
      found[b].squared_error += error * error / each;
      found[b].signal += value * value / each;
    }
  }
  return found;
}

}  // namespace

FineCounts count_values(const narrow::Tensor& tensor, const narrow::BytesDone& done) {
  constexpr std::uint64_t piece = std::uint64_t{1} << 20;
  Counter counter;
  std::vector<float> scratch;
  for (std::uint64_t first = 0, all = tensor.values(); first < all; first += piece) {
    const auto count = static_cast<std::size_t>(std::min(piece, all - first));
    counter.add(narrow::view_values(tensor, first, count, scratch));
    if (done)
      done(static_cast<std::uint64_t>(static_cast<double>(tensor.bytes()) * static_cast<double>(count) /
                                      static_cast<double>(all)));
  }
  return counter.counts();
}

std::vector<Lost> lost_at(std::span<const FineCounts> all, const narrow::FormatCast& to, int scale_log2) {
  // Tensors of one grid share what becomes of a bin.
  std::map<int, std::vector<std::uint16_t>> bins;
  for (const FineCounts& counts : all) {
    std::vector<std::uint16_t>& list = bins[counts.grid];
    for (const Bin& bin : counts.bins) list.push_back(bin.upper);
  }
  std::vector<Answer> by_bin(upper_halves);
  std::vector<Lost> rows(all.size());
  for (auto& [grid, list] : bins) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    const std::vector<Answer> found = answers(list, grid, to, scale_log2);
    for (std::size_t k = 0; k < list.size(); ++k) by_bin[list[k]] = found[k];
    for (std::size_t row = 0; row < all.size(); ++row) {
      if (all[row].grid != grid) continue;
      for (const Bin& bin : all[row].bins) {
        const Answer& answer = by_bin[bin.upper];
        if (answer.fate == Answer::zero) rows[row].underflow += bin.count;
        else if (answer.fate == Answer::subnormal) rows[row].subnormal += bin.count;
        else if (answer.fate == Answer::beyond) rows[row].overflow += bin.count;
        rows[row].signal += answer.signal * static_cast<double>(bin.count);
        rows[row].squared_error += answer.squared_error * static_cast<double>(bin.count);
      }
    }
  }
  return rows;
}

}  // namespace app
