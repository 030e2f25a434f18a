// The accepted word that someone most likely meant.
#include <algorithm>

#include "narrow/format/find_format.hpp"
#include "narrow/text/text.hpp"

namespace narrow {

namespace {

// Edit distance in half steps: a letter more, less or other costs 2, two neighbours swapped cost 1, because fp61 is
// rather a mistyped fp16 than a mistyped fp64. Letter case costs nothing, and '-' is '_'.
constexpr std::size_t edit = 2, swapped = 1;

char plain(char c) noexcept { return c == '-' ? '_' : detail::lower(c); }

std::size_t distance(std::string_view a, std::string_view b) {
  // rows[i % 3][j]: from the first i letters of a to the first j of b; a swap looks two rows back.
  std::vector<std::size_t> rows[3];
  for (auto& row : rows) row.resize(b.size() + 1);
  for (std::size_t i = 0; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i + 2) % 3];
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        row[j] = edit * (i + j);
        continue;
      }
      const bool same = plain(a[i - 1]) == plain(b[j - 1]);
      row[j] = std::min({above[j] + edit, row[j - 1] + edit, above[j - 1] + (same ? 0 : edit)});
      if (i > 1 && j > 1 && plain(a[i - 1]) == plain(b[j - 2]) && plain(a[i - 2]) == plain(b[j - 1]))
        row[j] = std::min(row[j], rows[(i + 1) % 3][j - 2] + swapped);
    }
  }
  return rows[a.size() % 3][b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& accepted) {
  constexpr std::size_t longest = 60;  // longer words are no typing errors, and could cost time
  if (word.size() < 2 || word.size() > longest) return {};
  std::string_view best;
  std::size_t best_distance = edit * std::max<std::size_t>(1, word.size() / 3) + 1;  // one wrong letter in three
  for (const std::string_view candidate : accepted) {
    const std::size_t d = distance(word, candidate);
    if (d < best_distance) {
      best = candidate;
      best_distance = d;
    }
  }
  return std::string(best);
}

std::string hint(std::string_view word, const std::vector<std::string_view>& accepted) {
  const std::string close = did_you_mean(word, accepted);
  return close.empty() ? "" : "did you mean '" + close + "'? ";
}

}  // namespace narrow
