#include "explorer/engine/counts.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "narrow/array/array.hpp"
#include "narrow/array/thresholds.hpp"
#include "narrow/base/error.hpp"

namespace app {

namespace {

constexpr std::uint32_t magnitude_mask = 0x7FFFFFFF, inf_word = 0x7F800000;

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

void ValueCounter::count_halves(std::span<const float> values) {
  for (const float value : values) ++recent_[std::bit_cast<std::uint32_t>(value) >> 16];
}

// What is neither zero nor finite, and the ends of the others.
void ValueCounter::count_special(std::span<const float> values) {
  std::uint32_t most = 0, least = ~0u, none = 0, infinite = 0;
  for (const float value : values) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & magnitude_mask;
    none += magnitude == 0 ? 1 : 0;
    infinite += magnitude == inf_word ? 1 : 0;
    most = std::max(most, magnitude < inf_word ? magnitude : 0);
    least = std::min(least, magnitude - 1);  // zero becomes the largest
  }
  largest_ = std::max(largest_, most), smallest_ = std::min(smallest_, least);
  zeros_ += none, inf_ += infinite;
}

// Blocks that stay in the first cache: what lanes can do in a loop of its own, of which the compiler makes them, then the
// table.
void ValueCounter::add(std::span<const float> values) {
  constexpr std::size_t block = 2048;
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::span<const float> part = values.subspan(first, std::min(block, values.size() - first));
    std::uint32_t used = 0, most = 0, least = ~0u;
    for (const float value : part) {
      const auto word = std::bit_cast<std::uint32_t>(value);
      const std::uint32_t magnitude = word & magnitude_mask;
      used |= word, most = std::max(most, magnitude), least = std::min(least, magnitude);
    }
    bits_used_ |= used;
    if (least == 0 || most >= inf_word) count_special(part);
    else largest_ = std::max(largest_, most), smallest_ = std::min(smallest_, least - 1);
    count_halves(part);
  }
  values_ += values.size(), in_recent_ += values.size();
  if (in_recent_ >> 31 == 0) return;
  for (std::size_t k = 0; k < upper_halves; ++k) total_[k] += recent_[k];
  std::fill(recent_.begin(), recent_.end(), 0);
  in_recent_ = 0;
}

std::vector<std::uint64_t> ValueCounter::state() const {
  std::vector<std::uint64_t> words = total_;
  for (std::size_t k = 0; k < upper_halves; ++k) words[k] += recent_[k];
  words.insert(words.end(), {zeros_, inf_, values_, bits_used_, largest_, smallest_});
  return words;
}

void ValueCounter::add_state(std::span<const std::uint64_t> state) {
  if (state.size() != upper_halves + 6) throw narrow::Error("counts: a state of another engine");
  for (std::size_t k = 0; k < upper_halves; ++k) total_[k] += state[k];
  const std::span<const std::uint64_t> rest = state.subspan(upper_halves);
  zeros_ += rest[0], inf_ += rest[1], values_ += rest[2];
  bits_used_ |= static_cast<std::uint32_t>(rest[3]);
  largest_ = std::max(largest_, static_cast<std::uint32_t>(rest[4]));
  smallest_ = std::min(smallest_, static_cast<std::uint32_t>(rest[5]));
}

FineCounts ValueCounter::counts() const {
  FineCounts c;
  c.values = values_, c.zeros = zeros_, c.inf = inf_;
  c.grid = std::min(16, std::countr_zero(bits_used_));
  std::uint64_t left = zeros_;  // of both signs, in bins 0 and 0x8000, which hold the smallest subnormals too
  for (std::size_t k = 0; k < upper_halves; ++k) {
    std::uint64_t count = total_[k] + recent_[k];
    if (count == 0) continue;
    if ((k << 16 & inf_word) == inf_word) {
      c.nan += count;
      continue;
    }
    if ((k & 0x7FFF) == 0) {
      const std::uint64_t zero = std::min(left, count);
      left -= zero, count -= zero;
    }
    if (count > 0) c.bins.push_back({static_cast<std::uint16_t>(k), count});
  }
  c.nan -= inf_;
  c.largest = largest_;
  c.smallest = largest_ == 0 ? 0 : smallest_ + 1;
  return c;
}

FineCounts count_values(const narrow::Tensor& tensor, const narrow::BytesDone& done) {
  constexpr std::uint64_t piece = std::uint64_t{1} << 20;
  ValueCounter counter;
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
