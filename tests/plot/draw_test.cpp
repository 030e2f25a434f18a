#include "narrow/plot/draw.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "narrow/base/error.hpp"
#include "narrow/base/process.hpp"
#include "narrow/plot/gnuplot.hpp"
#include "narrow/plot/layout.hpp"
#include "narrow/report/escape.hpp"
#include "plots.hpp"
#include "xml.hpp"
#include "support/contains.hpp"

using namespace test;

namespace {

std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

// PATH without any program, until the end of the scope.
class NoPrograms {
 public:
  NoPrograms() : path_(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "") { setenv("PATH", "/nonexistent", 1); }
  ~NoPrograms() { setenv("PATH", path_.c_str(), 1); }

 private:
  std::string path_;
};

bool has_gnuplot() {
  if (is_on_path("gnuplot")) return true;
  MESSAGE("skipped: gnuplot is not installed");
  return false;
}

// The words of a picture, and the colours of its shapes, each in one order.
std::multiset<std::string> words_of(const std::string& svg) {
  std::istringstream text(xml_text(svg));
  std::multiset<std::string> words;
  for (std::string word; text >> word;)
    if (word != "'-'" && !word.starts_with("$d")) words.insert(word);  // what gnuplot calls the data
  return words;
}
std::set<std::string> colours_of(const std::string& svg) {
  std::set<std::string> colours;
  for (std::size_t at = 0; (at = svg.find("rgb(", at)) != std::string::npos; ++at)
    colours.insert(svg.substr(at, svg.find(')', at) - at));
  return colours;
}

}  // namespace

TEST_CASE("plot: gnuplot draws every kind of plot as PNG and as SVG") {
  if (!has_gnuplot()) return;
  for (const Plot& plot : all_kinds()) {
    CAPTURE(plot.name);
    const Scene scene = lay_out(plot);
    const std::string png = draw(plot, PictureKind::png, {.png_scale = 1});
    CHECK(big_endian(png, 16) == static_cast<std::uint32_t>(scene.width));
    CHECK(big_endian(png, 20) == static_cast<std::uint32_t>(scene.height));
    CHECK(png.ends_with(std::string("IEND\xAE\x42\x60\x82")));
    const std::string svg = draw(plot, PictureKind::svg, {.backend = PlotBackend::gnuplot});
    CHECK(contains(svg, "</svg>"));
  }
}

TEST_CASE("plot: Matplot++ draws the same words and colours as gnuplot, and every text as it stands") {
  const DrawOptions by_matplot{.backend = PlotBackend::matplot, .png_scale = 1};
  if (const std::string fault = why_not(PictureKind::svg, by_matplot); !fault.empty()) {
    MESSAGE("skipped: " << fault);
    return;
  }
  for (Plot plot : all_kinds()) {
    CAPTURE(plot.name);
    plot.title += " `id` \"'; system('id') {/Bold b} \\n a_b 2^-25";
    const std::string svg = draw(plot, PictureKind::svg, by_matplot);
    const std::string other = draw(plot, PictureKind::svg, {.backend = PlotBackend::gnuplot});
    CHECK(words_of(svg) == words_of(other));
    const std::set<std::string> mine = colours_of(svg), theirs = colours_of(other);
    CHECK(std::includes(mine.begin(), mine.end(), theirs.begin(), theirs.end()));
    const std::string png = draw(plot, PictureKind::png, by_matplot);
    CHECK(big_endian(png, 16) == static_cast<std::uint32_t>(lay_out(plot).width));
  }
}

// gnuplot runs what stands in backquotes of a double-quoted text, and takes {..}, ^, _ and @ as signs of its own.
TEST_CASE("plot: no text of a plot is a command of gnuplot") {
  Plot plot = all_kinds()[0];
  plot.title = "'; system('touch x') `id` \"`id`\" {/Bold b} @a \\n a_b";
  const std::string script = gnuplot_script(lay_out(plot), PictureKind::png, 1);
  for (const char* command : {"`", "system(", "'; ", "{/", "@a"}) CHECK(!contains(script, command));
  CHECK(contains(script, "\"\\047\\073 system\\050\\047touch x\\047\\051 \\140id\\140"));
  if (!has_gnuplot()) return;
  std::string all;
  for (const std::string name : {"'", "''", "'a", "\"", "\\", "'\\", "\\'", "`touch /nonexistent`", "$(id) $x", "#",
                                 "'#", "a_b ^c {d}@e&f~g", "line\nbreak\r", "]]>", "<b>&amp;", "\xFF\x01\u202E\uFFFE",
                                 "\U0001F600 gr\xC3\xBC\xC3\x9F", "'[1:2]", "%s %g"}) {
    CAPTURE(name);
    plot.title = plot.subtitle = plot.panels[0].series[0].name = name;
    all += name + " ";
    std::string svg;
    CHECK_NOTHROW(svg = draw(plot, PictureKind::svg, {.backend = PlotBackend::gnuplot}));
    CHECK(contains(xml_text(svg), visible(name)));
  }
  plot.title = plot.subtitle = plot.panels[0].series[0].name = all;
  CHECK_NOTHROW(draw(plot, PictureKind::png));
}

TEST_CASE("plot: without gnuplot SVG still comes and PNG says what to install") {
  const NoPrograms none;
  const Plot plot = all_kinds()[0];
  CHECK(why_not(PictureKind::svg) == "");
  CHECK(contains(draw(plot, PictureKind::svg), "</svg>"));
  CHECK(contains(why_not(PictureKind::png), "apt-get install gnuplot-nox"));
  CHECK_THROWS_AS(draw(plot, PictureKind::png), Error);
  CHECK_THROWS_AS(draw(plot, PictureKind::svg, {.backend = PlotBackend::gnuplot}), Error);
  CHECK(why_not(PictureKind::png, {.backend = PlotBackend::own}) != "");
}

TEST_CASE("plot: backends have names") {
  CHECK(parse_backend("auto") == PlotBackend::automatic);
  CHECK(parse_backend("gnuplot") == PlotBackend::gnuplot);
  CHECK(parse_backend("matplot") == PlotBackend::matplot);
  CHECK(parse_backend("own") == PlotBackend::own);
  CHECK_THROWS_AS(parse_backend("excel"), Error);
}
