#include "options/tensor_text.hpp"

#include "cli/number_text.hpp"

namespace app {

std::string size_text(std::uint64_t bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto size = static_cast<double>(bytes);
  while (size >= 1024 && unit + 1 < std::size(units)) size /= 1024, ++unit;
  return (unit == 0 ? std::to_string(bytes) : decimal_text(size, 2)) + " " + units[unit];
}

std::string share_text(double share) {
  const double percent = 100 * share;
  if (share == 0) return "0%";
  if (percent < 0.001) return "<0.001%";
  if (share < 1 && percent > 99.99) return ">99.99%";
  return digits_text(percent, percent < 99.95 ? 3 : 5) + "%";
}

std::string count_text(std::uint64_t part, std::uint64_t whole) {
  if (part == 0 || whole == 0) return "0";
  return std::to_string(part) + " (" + share_text(static_cast<double>(part) / static_cast<double>(whole)) + ")";
}

std::string many(std::uint64_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

std::string not_kept_text(const narrow::NotKept& lost, const std::string& format) {
  std::string text;
  if (lost.values != 0)
    text += "note: " + many(lost.values, "value") + (lost.values == 1 ? " is" : " are") +
            " NaN or Inf in FP32, in which blocks are scaled; what " + format + " makes of " +
            (lost.values == 1 ? "it" : "them") + " may be a number\n";
  if (lost.blocks != 0)
    text += "note: " + many(lost.blocks, "block") + (lost.blocks == 1 ? " has" : " have") +
            " no finite scale: no value of " + (lost.blocks == 1 ? "it" : "them") + " is finite any more\n";
  return text;
}

}  // namespace app
