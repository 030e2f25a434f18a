#include "narrow/plot/text_size.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace narrow::plot {
namespace {

// Thousandths of the font size, from space to '~'.
constexpr std::array<int, 95> advance{
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,                  //  !"#..../
    636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000,            // 0..9:;<=>?@
    684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787,  695, 635,  // A..S
    611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500,                                 // T..Z[\]^_`
    613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635,  411, 521,  // a..s
    392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838};                                          // t..z{|}~
constexpr int other_advance = 800;
constexpr double bold_factor = 1.12;

double run_width(std::string_view text) {
  int sum = 0;
  for (const char c : text) {
    if (c >= ' ' && c <= '~') sum += advance[static_cast<std::size_t>(c - ' ')];
    else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) sum += other_advance;  // not inside of a UTF-8 character
  }
  return sum / 1000.0;
}

}  // namespace

double text_width(std::string_view text, double size, bool bold) {
  double width = 0;
  for (const TextRun& run : text_runs(text)) width += run_width(run.text) * (run.level == 0 ? 1 : small_script);
  return width * size * (bold ? bold_factor : 1);
}

Box text_box(const TextShape& text) {
  const double width = text_width(text.text, text.size, text.bold), half = 0.6 * text.size;
  const double left = text.anchor == Anchor::left ? 0 : text.anchor == Anchor::middle ? -width / 2 : -width;
  const double angle = -text.turned * std::numbers::pi / 180, c = std::cos(angle), s = std::sin(angle);
  Box box{1e9, 1e9, -1e9, -1e9};
  for (const double x : {left, left + width})
    for (const double y : {-half, half}) {
      const double px = text.at.x + c * x - s * y, py = text.at.y + s * x + c * y;
      box = {std::min(box.left, px), std::min(box.top, py), std::max(box.right, px), std::max(box.bottom, py)};
    }
  return box;
}

std::vector<std::string> wrapped(std::string_view text, double size, double width, bool bold) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string word(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string longer = line.empty() ? word : line + " " + word;
    if (!line.empty() && text_width(longer, size, bold) > width) {
      lines.push_back(std::move(line));
      line = word;
    } else {
      line = longer;
    }
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace narrow::plot
