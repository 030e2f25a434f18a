#include "narrow/report/plot.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "narrow/report/palette.hpp"

using namespace narrow;
using namespace narrow::report;

TEST_CASE("report: a plot that cannot be drawn is refused by name") {
  Plot good;
  good.name = "p";
  good.panels = {{.series = {{.draw = Draw::line, .x = {1, 2}, .y = {1, 2}}}}};
  CHECK_NOTHROW(check(good));
  const auto refused = [&](auto change) {
    Plot bad = good;
    change(bad);
    CHECK_THROWS_AS(check(bad), std::logic_error);
  };
  refused([](Plot& p) { p.name = "a/b"; });
  refused([](Plot& p) { p.name = ""; });
  refused([](Plot& p) { p.panels.clear(); });
  refused([](Plot& p) { p.columns = 0; });
  refused([](Plot& p) { p.panels[0].series[0].y.pop_back(); });
  refused([](Plot& p) { p.panels[0].series[0].low = {1, 2}; });
  refused([](Plot& p) { p.panels[0].series[0].low = p.panels[0].series[0].high = {1}; });
  refused([](Plot& p) { p.panels[0].series[0].draw = Draw::band; });
  refused([](Plot& p) { p.panels[0].series[0].draw = Draw::cells; });
  refused([](Plot& p) { p.panels[0].horizontal = true; });
}

// Relative luminance and contrast as WCAG 2.1 defines them.
namespace {
double channel(std::uint32_t c) {
  const double x = c / 255.0;
  return x <= 0.04045 ? x / 12.92 : __builtin_pow((x + 0.055) / 1.055, 2.4);
}
double luminance(std::uint32_t rgb) {
  return 0.2126 * channel(rgb >> 16 & 255) + 0.7152 * channel(rgb >> 8 & 255) + 0.0722 * channel(rgb & 255);
}
double contrast(std::uint32_t a, std::uint32_t b) {
  const double x = luminance(a), y = luminance(b);
  return x > y ? (x + 0.05) / (y + 0.05) : (y + 0.05) / (x + 0.05);
}
}  // namespace

TEST_CASE("report: texts have the contrast that reading needs on both papers and lines can be seen") {
  const RoleColour& paper = colour_of(Role::paper);
  for (const Role role : {Role::ink, Role::text, Role::muted}) {
    CAPTURE(colour_of(role).name);
    CHECK(contrast(colour_of(role).light, paper.light) >= 4.5);  // WCAG AA for text
    CHECK(contrast(colour_of(role).dark, paper.dark) >= 4.5);
  }
  for (int r = 0; r <= static_cast<int>(Role::ink); ++r) {
    const RoleColour& c = role_colours[static_cast<std::size_t>(r)];
    CAPTURE(c.name);
    CHECK(contrast(c.light, paper.light) >= 2.2);  // orange, the palest of Okabe and Ito's that is used, has 2.3
    CHECK(contrast(c.dark, paper.dark) >= 4.5);
  }
}
