#include "narrow/dot/misplaced.hpp"

#include <algorithm>
#include <map>

#include "narrow/base/random.hpp"

namespace narrow::detail {

namespace {

struct Box {
  std::size_t top = ~std::size_t{0}, bottom = 0, left = ~std::size_t{0}, right = 0, count = 0;

  void add(std::size_t row, std::size_t col) {
    top = std::min(top, row), bottom = std::max(bottom, row), left = std::min(left, col), right = std::max(right, col), ++count;
  }
  std::size_t area() const { return (bottom - top + 1) * (right - left + 1); }
  bool is_full() const { return count * 10 >= area() * 9; }  // chance makes some outputs equal
  static std::string lines(const char* one, const char* many, std::size_t first, std::size_t last) {
    return first == last ? std::string(one) + " " + std::to_string(first) : std::string(many) + " " + std::to_string(first) + " to " + std::to_string(last);
  }
  std::string text() const { return lines("row", "rows", top, bottom) + ", " + lines("column", "columns", left, right); }
  Box moved(std::int64_t down, std::int64_t across) const {
    Box b = *this;
    b.top += static_cast<std::size_t>(down), b.bottom += static_cast<std::size_t>(down);
    b.left += static_cast<std::size_t>(across), b.right += static_cast<std::size_t>(across);
    return b;
  }
};

// The boxes that hold what belongs elsewhere, by how far it was moved. A run of codes names its place; the places of a few
// runs are looked up in one pass over the expected product.
struct Moved {
  std::int64_t down = 0, across = 0;
  Box box;
};

std::vector<Moved> moved_boxes(const ValidateRequest& r, const FullComparison& full) {
  const std::size_t rows = r.d.rows, cols = r.d.cols, run = std::min<std::size_t>(4, cols);
  if (full.expected.size() != rows * cols) return {};
  const auto expected = [&](std::size_t i, std::size_t j) { return full.expected[i * cols + j]; };
  const auto found = [&](std::size_t i, std::size_t j) { return r.d(i, j) & r.d_format.code_mask(); };
  const auto key = [&](const auto& codes, std::size_t i, std::size_t j) {
    std::uint64_t hash = 0;
    for (std::size_t n = 0; n < run; ++n) hash = mix_bits(hash + codes(i, j + n));
    return hash;
  };
  constexpr std::size_t looked_up = 256;
  std::unordered_multimap<std::uint64_t, const OutputDifference*> wanted;
  const std::size_t step = std::max<std::size_t>(1, full.differences.size() / looked_up);
  for (std::size_t n = 0; n < full.differences.size(); n += step) {
    const OutputDifference& d = full.differences[n];
    if (d.item == 0 && d.col + run <= cols) wanted.emplace(key(found, d.row, d.col), &d);
  }
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> votes;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j + run <= cols; ++j) {
      const auto [first, last] = wanted.equal_range(key(expected, i, j));
      for (auto it = first; it != last; ++it)
        ++votes[{static_cast<std::int64_t>(i) - static_cast<std::int64_t>(it->second->row),
                 static_cast<std::int64_t>(j) - static_cast<std::int64_t>(it->second->col)}];
    }
  std::vector<Moved> out;
  for (const auto& [shift, count] : votes) {
    if (count * 8 < wanted.size() || count < 4) continue;
    Moved m{shift.first, shift.second, {}};
    for (const OutputDifference& d : full.differences) {
      const auto row = static_cast<std::size_t>(static_cast<std::int64_t>(d.row) + m.down);
      const auto col = static_cast<std::size_t>(static_cast<std::int64_t>(d.col) + m.across);
      if (d.item == 0 && row < rows && col < cols && expected(row, col) == d.found) m.box.add(d.row, d.col);
    }
    if (m.box.count > 0 && m.box.is_full()) out.push_back(m);
  }
  std::sort(out.begin(), out.end(), [](const Moved& x, const Moved& y) { return std::pair(x.box.top, x.box.left) < std::pair(y.box.top, y.box.left); });
  return out;
}

}  // namespace

std::vector<std::string> misplaced(const ValidateRequest& r, const FullComparison& full) {
  std::vector<std::string> out;
  const std::uint64_t total = full.equal + full.wrong;
  if (full.wrong == 0 || full.wrong * 2 > total || full.differences.size() < full.wrong) return out;
  Box box;
  bool one_bit = true, all_zero = true, same = true, negated = true, one_item = true;
  for (const OutputDifference& d : full.differences) {
    box.add(d.row, d.col);
    one_item = one_item && d.item == full.differences[0].item;
    negated = negated && (d.expected ^ d.found) == r.d_format.sign_mask();
    const Code bits = d.expected ^ d.found;
    one_bit = one_bit && (bits & (bits - 1)) == 0;
    all_zero = all_zero && (d.found & ~r.d_format.sign_mask()) == 0;
    same = same && d.found == full.differences[0].found;
  }
  if (full.wrong > 4)
    for (const Moved& m : moved_boxes(r, full)) {
      if (m.down == 0 && m.across == 0) continue;
      out.push_back(m.box.text() + " hold what belongs to " + m.box.moved(m.down, m.across).text() + ": a tile at the wrong place");
    }
  if (out.size() == 2) out = {out[0].substr(0, out[0].rfind(':')) + ", and the other way round: two tiles are swapped"};
  const std::string where = (r.batch.count > 1 && one_item ? "item " + std::to_string(full.differences[0].item) + ": " : "") + box.text();
  if (!out.empty()) return out;
  const bool few_rows = full.wrong > 1 && one_item && box.is_full();
  if (all_zero && few_rows) return {where + " are zero: a tile that was not written"};
  if (all_zero && full.wrong > 4) return {"every output that differs is zero: parts of D were not written"};
  if (same && full.wrong > 4 && few_rows) return {where + " all hold one value: a tile that was not written"};
  if (negated && full.wrong > 4 && few_rows) return {where + " are negated"};
  if (one_bit) out.push_back("each output that differs does so in one bit: corrupted words rather than another arithmetic");
  if (few_rows && !one_bit) out.push_back("only " + where + " differ: that part was computed otherwise, or overwritten");
  else if (one_item && box.top == box.bottom && full.wrong > 1 && r.d.rows > 1) out.push_back("only row " + std::to_string(box.top) + " differs: a wrong row of A, or its part of the output overwritten");
  else if (one_item && box.left == box.right && full.wrong > 1 && r.d.cols > 1) out.push_back("only column " + std::to_string(box.left) + " differs: a wrong column of B, or its part of the output overwritten");
  return out;
}

}  // namespace narrow::detail
