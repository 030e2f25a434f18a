#include "narrow/report/plot.hpp"

#include <stdexcept>

#include "narrow/report/table.hpp"

namespace narrow::report {
namespace {

// What is wrong with a series, or nothing.
std::string fault_of(const Series& s) {
  const std::size_t size = s.x.size();
  if (s.draw != Draw::band && s.y.size() != size) return "x and y have different lengths";
  if (s.low.size() != s.high.size()) return "low and high have different lengths";
  if (s.draw == Draw::band && s.low.size() != size) return "a band needs low and high for every x";
  if (!s.low.empty() && s.low.size() != size) return "error bars need low and high for every x";
  if (s.draw == Draw::cells && s.value.size() != size) return "cells need a value for every x and y";
  return "";
}

}  // namespace

void check(const Plot& plot) {
  const auto fail = [&](const std::string& why) { throw std::logic_error("plot " + plot.name + ": " + why); };
  if (!detail::is_file_name(plot.name)) fail("its name is no file name");
  if (plot.panels.empty()) fail("it has no panel");
  if (plot.columns < 1) fail("it has no columns");
  for (const Panel& panel : plot.panels) {
    for (const Series& s : panel.series)
      if (const std::string fault = fault_of(s); !fault.empty()) fail("series '" + s.name + "': " + fault);
    if (panel.horizontal && panel.y.categories.empty()) fail("lying bars need categories on y");
  }
}

}  // namespace narrow::report
