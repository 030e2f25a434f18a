// Matplot++ as the pen: it turns figures into commands for gnuplot, which the program runs itself: with a limit of time,
// and with what gnuplot says when it fails. Places are those of the scene, as for the other pens.
#include "narrow/plot/matplot.hpp"

#include <matplot/backend/backend_interface.h>
#include <matplot/matplot.h>

#include <array>

#include "narrow/plot/gnuplot.hpp"

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

// Where the commands of a figure go. Matplot++ would write to a pipe and not wait for the end of it.
class Commands : public matplot::backend::backend_interface {
 public:
  Commands(const Scene& scene, PictureKind kind, double scale)
      : width_(static_cast<unsigned>(scene.width)), height_(static_cast<unsigned>(scene.height)),
        terminal_(gnuplot_terminal(scene, kind, scale)), format_(kind == PictureKind::png ? "pngcairo" : "svg") {}

  std::string script = "set encoding utf8\n";

  bool consumes_gnuplot_commands() override { return true; }
  void run_command(const std::string& command) override {
    if (command.starts_with("set output")) return;  // standard output is what is read
    script += (command.starts_with("set terminal") ? terminal_ : command) + "\n";
  }
  void include_comment(const std::string&) override {}
  bool is_interactive() override { return false; }
  const std::string& output() override { return output_; }
  const std::string& output_format() override { return format_; }
  unsigned width() override { return width_; }
  unsigned height() override { return height_; }
  void width(unsigned) override {}
  void height(unsigned) override {}
  bool new_frame() override { return true; }
  bool render_data() override { return true; }
  bool supports_fonts() override { return true; }

 private:
  unsigned width_, height_;
  std::string terminal_, format_, output_ = "-";
};

// Its own labels can neither be turned nor have a size between two whole points.
class Text : public matplot::labels {
 public:
  Text(matplot::axes_type* axes, const TextShape& shape, double y, double points)
      : labels(axes, {shape.at.x}, {y}, {shape.text}), shape_(shape), y_(y), points_(points) {}
  std::string plot_string() override { return " '-' with labels " + gnuplot_label_style(shape_, points_); }
  std::string data_string() override {
    return "    " + matplot::num2str(shape_.at.x) + "  " + matplot::num2str(y_) + "  " + gnuplot_text(shape_) + "\ne\n";
  }

 private:
  const TextShape& shape_;
  double y_, points_;
};

class Pen {
 public:
  Pen(const Scene& scene, PictureKind kind, matplot::axes_handle axes)
      : height_(scene.height), points_(gnuplot_font_points(kind)), axes_(std::move(axes)) {}

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
    const bool ring = m.marker == Marker::ring;
    if (ring) (*this)(MarkerShape{m.points, Marker::circle, Role::paper, m.size, 1});  // hides the line
    const auto [x, y] = places(m.points);
    auto points = axes_->plot(x, y, marker_spec(m.marker));
    points->color(colour(m.fill, m.opacity)).marker_color(colour(m.fill, m.opacity));
    points->marker_face(!ring).marker_size(static_cast<float>(m.size));
  }
  void operator()(const TextShape& t) const {
    axes_->emplace_object(std::make_shared<Text>(axes_.get(), t, height_ - t.at.y, points_));
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

  double height_, points_;
  matplot::axes_handle axes_;
};

std::string script(const Scene& scene, PictureKind kind, double scale) {
  const auto commands = std::make_shared<Commands>(scene, kind, scale);
  const auto figure = std::make_shared<matplot::figure_type>(true);
  figure->backend(commands);
  const auto axes = figure->current_axes();
  axes->position({0, 0, 1, 1});
  axes->xlim({0, scene.width});
  axes->ylim({0, scene.height});
  axes->axis(false);
  axes->hold(true);
  const Pen pen(scene, kind, axes);
  for (const Shape& shape : scene.shapes) std::visit(pen, shape);
  figure->draw();
  return commands->script;
}

const bool is_linked = (matplot_script = script) != nullptr;

}  // namespace
}  // namespace narrow::plot
