#include "narrow/plot/gnuplot.hpp"

#include <array>
#include <cmath>
#include <cstdio>

#include "narrow/report/table.hpp"
#include "narrow/report/text_runs.hpp"

namespace narrow::plot {
namespace {

std::string places(double value) { return fixed_text(value, 2); }

std::string rgb(const Paint& paint) {
  std::array<char, 10> text{};
  std::snprintf(text.data(), text.size(), "'#%06X'", paint.fixed ? paint.rgb : colour_of(paint.role).light);
  return text.data();
}

char digit(int value) { return static_cast<char>('0' + value); }

int point_type(Marker marker) {
  switch (marker) {
    case Marker::square: return 5;
    case Marker::triangle: return 9;
    case Marker::triangle_down: return 11;
    case Marker::diamond: return 13;
    case Marker::ring: return 6;
    default: return 7;
  }
}

// Pixels across a point of size 1, which the manual does not promise; measured.
constexpr double point_size = 8;

// Data blocks and the plot commands that use them, one a shape, in the order of the scene.
class Script {
 public:
  // font_points: of a font for one pixel of the scene.
  explicit Script(double points_a_pixel) : font_points(points_a_pixel) {}
  const double font_points;
  std::string data, plots, labels;

  void operator()(const RectShape& r) {
    begin();
    data += places((r.box.left + r.box.right) / 2) + " " + places((r.box.top + r.box.bottom) / 2) + " " +
            places(r.box.left) + " " + places(r.box.right) + " " + places(r.box.top) + " " + places(r.box.bottom) +
            "\n";
    end("with boxxyerror fc rgb " + rgb(r.fill) + solid(r.opacity));
  }
  void operator()(const LineShape& l) {
    begin();
    put(l.points);
    // gnuplot mixes its colours with the paper itself: 00 in front is opaque.
    end("with lines lw " + places(l.width) + " lc rgb " + with_alpha(l.stroke, l.opacity) +
        (l.dashed ? " dt (8,6)" : ""));
  }
  void operator()(const AreaShape& a) {
    begin();
    put(a.points);
    end("with filledcurves closed fc rgb " + rgb(a.fill) + solid(a.opacity));
  }
  void operator()(const MarkerShape& m) {
    if (m.marker == Marker::ring)
      (*this)(MarkerShape{m.points, Marker::circle, Role::paper, m.size, 1});  // hides the line
    begin();
    put(m.points);
    end("with points pt " + std::to_string(point_type(m.marker)) + " ps " + places(m.size / point_size) +
        " lw 1.5 lc rgb " + with_alpha(m.fill, m.opacity));
  }
  void operator()(const TextShape& t) {
    labels += "set label " + std::to_string(++labels_) + " " + gnuplot_text(t) + " at first " + places(t.at.x) + "," +
              places(t.at.y) + " " + gnuplot_label_style(t, font_points) + " front\n";
  }

 private:
  void begin() { data += "$d" + std::to_string(++blocks_) + " << END\n"; }
  void end(const std::string& how) {
    data += "END\n";
    plots += (plots.empty() ? "plot " : ", \\\n  ") + ("$d" + std::to_string(blocks_)) + " " + how;
  }
  void put(const std::vector<Point>& points) {
    for (const Point& p : points) data += places(p.x) + " " + places(p.y) + "\n";
  }
  static std::string solid(double opacity) {
    return opacity < 1 ? " fs transparent solid " + places(opacity) + " noborder" : " fs solid noborder";
  }
  static std::string with_alpha(const Paint& paint, double opacity) {
    if (opacity >= 1) return rgb(paint);
    std::array<char, 12> text{};
    std::snprintf(text.data(), text.size(), "'#%02X%06X'", static_cast<unsigned>(255 * (1 - opacity)),
                  paint.fixed ? paint.rgb : colour_of(paint.role).light);
    return text.data();
  }

  int blocks_ = 0, labels_ = 0;
};

}  // namespace

// Letters and blanks as they are, every other byte by its octal number, which a text in double quotes allows: nothing
// is left that could end the text, be replaced in it (`..`, $, @) or be read as a comment, and no digit that a number
// before it (\072 reads a fourth) would take. A backslash in front makes a letter of a sign of gnuplot's enhanced text.
std::string gnuplot_text(const TextShape& t) {
  std::string out = "\"";
  const auto put = [&](std::string_view bytes) {
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ' ';
      if (plain) out += c;
      else out += {'\\', digit(byte >> 6), digit(byte >> 3 & 7), digit(byte & 7)};
    }
  };
  for (const TextRun& run : text_runs(t.text)) {
    if (run.level != 0) put(run.level > 0 ? "^{" : "_{");
    for (const char c : run.text) {
      if (std::string_view("\\^_{}@&~").find(c) != std::string_view::npos) put("\\");
      put({&c, 1});
    }
    if (run.level != 0) put("}");
  }
  return out + "\"";
}

std::string gnuplot_label_style(const TextShape& t, double font_points) {
  const char* side = t.anchor == Anchor::left ? "left" : t.anchor == Anchor::middle ? "center" : "right";
  return side + (t.turned != 0 ? " rotate by " + places(t.turned) : "") + " font '" + (t.bold ? ":Bold" : "") + "," +
         places(font_points * t.size) + "' tc rgb " + rgb(t.fill);
}

std::string gnuplot_terminal(const Scene& scene, PictureKind kind, double scale) {
  const bool png = kind == PictureKind::png;
  const double grow = png ? scale : 1;
  const std::string size = places(std::floor(scene.width * grow)) + "," + places(std::floor(scene.height * grow));
  const char* font = " font 'DejaVu Sans,12' enhanced rounded background '#FFFFFF'";
  if (!png) return "set terminal svg size " + size + font + " dashlength 0.6";
  return "set terminal pngcairo size " + size + " fontscale " + places(grow) + " linewidth " + places(grow) +
         " pointscale " + places(grow) + font;
}

double gnuplot_font_points(PictureKind kind) { return kind == PictureKind::png ? 0.75 : 1; }

std::string gnuplot_script(const Scene& scene, PictureKind kind, double scale) {
  std::string out = "set encoding utf8\n" + gnuplot_terminal(scene, kind, scale) + "\n";
  out +=
      "unset border\nunset tics\nunset key\nset lmargin at screen 0\nset rmargin at screen 1\n"
      "set tmargin at screen 1\nset bmargin at screen 0\n";
  out += "set xrange [0:" + places(scene.width) + "]\nset yrange [" + places(scene.height) + ":0]\n";
  Script script(gnuplot_font_points(kind));
  for (const Shape& shape : scene.shapes) std::visit(script, shape);
  if (script.plots.empty()) script(RectShape{{0, 0, scene.width, scene.height}, Role::paper, 1});
  return out + script.data + script.labels + script.plots + "\n";
}

}  // namespace narrow::plot
