// Matplot++ as the pen: compiled only where CMake finds it. Places are those of the scene, as for gnuplot.
#include "narrow/plot/matplot.hpp"

#include <matplot/matplot.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "narrow/base/error.hpp"

namespace narrow::plot {
namespace {

using Rgba = std::array<float, 4>;  // Matplot++ has the transparency first

Rgba colour(const Paint& paint, double opacity) {
  const std::uint32_t rgb = paint.fixed ? paint.rgb : colour_of(paint.role).light;
  const auto part = [&](int shift) { return static_cast<float>(rgb >> shift & 255) / 255; };
  return {static_cast<float>(1 - opacity), part(16), part(8), part(0)};
}

const char* marker_spec(Marker marker) {
  switch (marker) {
    case Marker::square: return "s";
    case Marker::triangle: return "^";
    case Marker::triangle_down: return "v";
    case Marker::diamond: return "d";
    default: return "o";
  }
}

class Pen {
 public:
  Pen(const Scene& scene, matplot::axes_handle axes) : height_(scene.height), axes_(std::move(axes)) {}

  void operator()(const RectShape& r) const {
    const Box& b = r.box;
    fill({{b.left, b.top}, {b.right, b.top}, {b.right, b.bottom}, {b.left, b.bottom}, {b.left, b.top}}, r.fill,
         r.opacity);
  }
  void operator()(const AreaShape& a) const { fill(a.points, a.fill, a.opacity); }
  void operator()(const LineShape& l) const {
    const auto [x, y] = places(l.points);
    axes_->plot(x, y, l.dashed ? "--" : "-")
        ->color(colour(l.stroke, l.opacity))
        .line_width(static_cast<float>(l.width));
  }
  void operator()(const MarkerShape& m) const {
    const auto [x, y] = places(m.points);
    auto points = axes_->plot(x, y, marker_spec(m.marker));
    points->color(colour(m.fill, m.opacity)).marker_color(colour(m.fill, m.opacity));
    points->marker_face(m.marker != Marker::ring).marker_size(static_cast<float>(m.size));
  }
  void operator()(const TextShape& t) const {
    using matplot::labels;
    // It puts texts between double quotes as they are, where gnuplot runs what stands in backquotes.
    std::string words = t.text;
    for (char& c : words) c = c == '`' || c == '"' ? '\'' : c == '\\' ? '/' : c;
    auto text = axes_->text(t.at.x, height_ - t.at.y, words);
    text->font_size(static_cast<float>(0.75 * t.size)).color(colour(t.fill, 1));
    text->alignment(t.anchor == Anchor::left     ? labels::left
                    : t.anchor == Anchor::middle ? labels::center
                                                 : labels::right);
  }

 private:
  std::pair<std::vector<double>, std::vector<double>> places(const std::vector<Point>& points) const {
    std::vector<double> x, y;
    for (const Point& p : points) x.push_back(p.x), y.push_back(height_ - p.y);
    return {x, y};
  }
  void fill(const std::vector<Point>& points, const Paint& paint, double opacity) const {
    const auto [x, y] = places(points);
    axes_->fill(x, y)->color(colour(paint, opacity));
  }

  double height_;
  matplot::axes_handle axes_;
};

}  // namespace

std::string matplot_fault() { return ""; }

std::string draw_by_matplot(const Scene& scene, PictureKind kind) {
  const auto figure = matplot::figure(true);
  figure->size(static_cast<unsigned>(scene.width), static_cast<unsigned>(scene.height));
  figure->color("white");
  const auto axes = figure->current_axes();
  axes->position({0, 0, 1, 1});
  axes->xlim({0, scene.width});
  axes->ylim({0, scene.height});
  axes->axis(false);
  axes->hold(true);
  const Pen pen(scene, axes);
  for (const Shape& shape : scene.shapes) std::visit(pen, shape);

  // It writes files only.
  std::string path = (std::filesystem::temp_directory_path() / "narrow_plot_XXXXXX").string();
  path += kind == PictureKind::png ? ".png" : ".svg";
  const int file = mkstemps(path.data(), 4);
  if (file < 0) throw Error("Matplot++: no temporary file can be made as '" + path + "'");
  close(file);
  figure->save(path);
  std::ifstream picture(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(picture), {}};
  unlink(path.c_str());
  if (bytes.empty()) throw Error("Matplot++ wrote no picture");
  return bytes;
}

}  // namespace narrow::plot
