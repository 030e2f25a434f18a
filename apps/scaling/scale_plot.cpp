#include "scaling/scale_plot.hpp"

#include <algorithm>
#include <cmath>

namespace app {

std::vector<char> choose_letters(const std::vector<std::string>& names) {
  std::vector<char> letters;
  const auto taken = [&](char c) { return std::find(letters.begin(), letters.end(), c) != letters.end(); };
  for (const std::string& name : names) {
    const std::string candidates =
        name.substr(0, name.find(':')) + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char letter = '?';
    for (const char c : candidates)
      if (((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) && !taken(c)) {
        letter = c;
        break;
      }
    letters.push_back(letter);
  }
  return letters;
}

std::string scale_plot(const std::vector<ScaleCurve>& curves, const std::vector<std::int64_t>& steps, int width) {
  constexpr int tallest = 24, label = 8;
  if (steps.empty()) return "";
  int low = 1000, high = -1000;
  for (const ScaleCurve& curve : curves)
    for (const float s : curve.scales)
      if (s > 0 && std::isfinite(s)) low = std::min(low, std::ilogb(s)), high = std::max(high, std::ilogb(s));
  if (low > high) return "";
  const int binades_a_row = (high - low) / tallest + 1, rows = (high - low) / binades_a_row + 1;
  const std::size_t columns =
      std::min<std::size_t>(static_cast<std::size_t>(std::max(width - label, 10)), steps.size());
  std::vector<std::string> picture(static_cast<std::size_t>(rows), std::string(columns, ' '));
  for (const ScaleCurve& curve : curves)
    for (std::size_t i = 0; i < curve.scales.size(); ++i) {
      const float s = curve.scales[i];
      const int exponent = s > 0 && std::isfinite(s) ? std::ilogb(s) : s == 0 ? low : high;
      char& place = picture[static_cast<std::size_t>((high - exponent) / binades_a_row)][i * columns / steps.size()];
      if (place == ' ') place = curve.letter;
    }
  std::string text;
  for (int r = 0; r < rows; ++r) {
    std::string name = "2^" + std::to_string(high - r * binades_a_row);
    name.insert(0, static_cast<std::size_t>(label - 2) - std::min<std::size_t>(name.size(), label - 2), ' ');
    std::string line = picture[static_cast<std::size_t>(r)];
    line.erase(line.find_last_not_of(' ') + 1);
    text += name + " |" + line + "\n";
  }
  const std::string first = std::to_string(steps.front()), last = std::to_string(steps.back());
  const std::size_t gap = columns > first.size() + last.size() ? columns - first.size() - last.size() : 1;
  text += std::string(label - 1, ' ') + "+" + std::string(columns, '-') + "\n" + std::string(label, ' ') + first +
          std::string(gap, ' ') + last + "\n";
  std::string legend;
  for (const ScaleCurve& curve : curves)
    legend += (legend.empty() ? "" : ", ") + std::string(1, curve.letter) + " " + curve.name;
  return text + std::string(label, ' ') + legend + "\n";
}

}  // namespace app
