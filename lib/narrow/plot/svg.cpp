#include "narrow/plot/svg.hpp"

#include <array>
#include <cstdio>

#include "narrow/plot/text_size.hpp"
#include "narrow/report/escape.hpp"
#include "narrow/report/table.hpp"

namespace narrow::plot {
namespace {

// A tenth of a pixel is more than any eye needs, and keeps the page small.
std::string number(double value) {
  std::string text = fixed_text(value, 1);
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

class Writer {
 public:
  explicit Writer(bool themed) : themed_(themed) {}
  std::string out;

  void operator()(const RectShape& r) {
    out += "<rect" + at("x", r.box.left) + at("y", r.box.top) + at("width", r.box.width()) +
           at("height", r.box.height()) + fill(r.fill, r.opacity) + "/>\n";
  }
  void operator()(const LineShape& l) {
    out += "<path d=\"" + path(l.points) + "\" fill=\"none\" stroke=\"" + colour(l.stroke) + "\"" +
           at("stroke-width", l.width) + (l.dashed ? " stroke-dasharray=\"5 4\"" : "") +
           (l.opacity < 1 ? " stroke-opacity=\"" + fixed_text(l.opacity, 2) + "\"" : "") +
           (l.points.size() > 2 ? " stroke-linejoin=\"round\"" : "") + "/>\n";
  }
  void operator()(const AreaShape& a) {
    out += "<path d=\"" + path(a.points) + "z\"" + fill(a.fill, a.opacity) + "/>\n";
  }
  void operator()(const MarkerShape& m) {
    out += "<g" +
           (m.marker == Marker::ring ? " stroke=\"" + colour(m.fill) + "\" stroke-width=\"1.6\"" + fill(Role::paper, 1)
                                     : fill(m.fill, m.opacity)) +
           ">";
    for (const Point& p : m.points) out += marker(m.marker, p, m.size / 2);
    out += "</g>\n";
  }
  void operator()(const TextShape& t) {
    // y is the middle of the line; letters stand 0.35 of their size below it.
    const double y = t.at.y + 0.35 * t.size;
    out += "<text" + at("x", t.at.x) + at("y", y) + at("font-size", t.size) + fill(t.fill, 1);
    if (t.anchor != Anchor::left)
      out += t.anchor == Anchor::middle ? " text-anchor=\"middle\"" : " text-anchor=\"end\"";
    if (t.bold) out += " font-weight=\"600\"";
    if (t.halo)
      out +=
          " stroke=\"" + colour(Role::paper) + "\" stroke-width=\"4\" stroke-linejoin=\"round\" paint-order=\"stroke\"";
    if (t.turned != 0)
      out += " transform=\"rotate(" + number(-t.turned) + " " + number(t.at.x) + " " + number(t.at.y) + ")\"";
    out += ">";
    int level = 0;
    for (const TextRun& run : text_runs(t.text)) {
      const std::string text = escaped_html(run.text);
      // A shift lasts until it is taken back by the next run.
      const int shift = run.level - level;
      level = run.level;
      if (shift == 0 && run.level == 0) {
        out += text;
        continue;
      }
      const double by = -(shift > 0 ? 0.38 : 0.38) * shift * t.size;
      out += "<tspan dy=\"" + number(by) + "\"";
      if (run.level != 0) out += at("font-size", small_script * t.size);
      out += ">" + text + "</tspan>";
    }
    out += "</text>\n";
  }

 private:
  static std::string at(const char* name, double value) {
    return std::string(" ") + name + "=\"" + number(value) + "\"";
  }

  std::string colour(const Paint& paint) const {
    if (themed_ && !paint.fixed) return std::string("var(--") + colour_of(paint.role).name + ")";
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "#%06X", paint.fixed ? paint.rgb : colour_of(paint.role).light);
    return text.data();
  }
  std::string fill(const Paint& paint, double opacity) const {
    return " fill=\"" + colour(paint) + "\"" + (opacity < 1 ? " fill-opacity=\"" + fixed_text(opacity, 2) + "\"" : "");
  }
  static std::string path(const std::vector<Point>& points) {
    std::string d;
    for (const Point& p : points) d += (d.empty() ? "M" : "L") + number(p.x) + " " + number(p.y);
    return d;
  }
  static std::string marker(Marker kind, const Point& p, double r) {
    const auto polygon = [&](std::initializer_list<Point> corners) {
      std::string d;
      for (const Point& c : corners) d += (d.empty() ? "M" : "L") + number(p.x + c.x * r) + " " + number(p.y + c.y * r);
      return "<path d=\"" + d + "z\"/>";
    };
    switch (kind) {
      case Marker::square: return polygon({{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}});
      case Marker::triangle: return polygon({{0, -1.2}, {1.1, 0.8}, {-1.1, 0.8}});
      case Marker::triangle_down: return polygon({{0, 1.2}, {1.1, -0.8}, {-1.1, -0.8}});
      case Marker::diamond: return polygon({{0, -1.25}, {1.25, 0}, {0, 1.25}, {-1.25, 0}});
      default: return "<circle" + at("cx", p.x) + at("cy", p.y) + at("r", r) + "/>";
    }
  }

  bool themed_;
};

std::string head(const Scene& scene) {
  return "viewBox=\"0 0 " + number(scene.width) + " " + number(scene.height) + "\" role=\"img\" font-family=\"";
}

// Texts last: nothing may cover them.
std::string body(const Scene& scene, bool themed) {
  Writer writer(themed);
  writer.out = "<title>" + escaped_html(scene.title) + "</title>\n";
  if (!scene.description.empty()) writer.out += "<desc>" + escaped_html(scene.description) + "</desc>\n";
  for (const bool texts : {false, true})
    for (const Shape& shape : scene.shapes)
      if (std::holds_alternative<TextShape>(shape) == texts) std::visit(writer, shape);
  return writer.out;
}

}  // namespace

std::string to_svg_file(const Scene& scene) {
  Scene with_paper = scene;
  with_paper.shapes.insert(with_paper.shapes.begin(), RectShape{{0, 0, scene.width, scene.height}, Role::paper, 1});
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
         number(scene.width) + "\" height=\"" + number(scene.height) + "\" " + head(scene) +
         "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif\">\n" + body(with_paper, false) + "</svg>\n";
}

std::string to_svg_element(const Scene& scene) {
  return "<svg " + head(scene) + "inherit\">\n" + body(scene, true) + "</svg>\n";
}

}  // namespace narrow::plot
