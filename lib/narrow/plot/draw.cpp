#include "narrow/plot/draw.hpp"

#include "narrow/base/error.hpp"
#include "narrow/base/process.hpp"
#include "narrow/plot/gnuplot.hpp"
#include "narrow/plot/layout.hpp"
#include "narrow/plot/matplot.hpp"
#include "narrow/plot/svg.hpp"

namespace narrow::plot {

MatplotScript matplot_script = nullptr;

namespace {

constexpr int limit_seconds = 60;
constexpr const char* no_gnuplot = "gnuplot is not installed (Debian: apt-get install gnuplot-nox)";

// What gnuplot said, on one line.
std::string first_line(std::string_view text) {
  while (!text.empty() && (text.front() == '\n' || text.front() == ' ')) text.remove_prefix(1);
  std::string line;
  for (const char c : text.substr(0, 300)) line += c == '\n' ? ' ' : c;
  return line;
}

std::string run_gnuplot(const Plot& plot, PictureKind kind, const std::string& script) {
  Finished ran = run_process({"gnuplot", "--default-settings", "-"}, script, limit_seconds);
  const bool whole =
      kind == PictureKind::png ? ran.out.starts_with("\x89PNG") : ran.out.find("</svg>") != std::string::npos;
  if (ran.status != 0 || !whole)
    throw Error("gnuplot could not draw " + plot.name + " (status " + std::to_string(ran.status) +
                "): " + first_line(ran.err));
  // The SVG terminal writes > as it is, and ]]> must not stand in a text of XML. It writes no CDATA, which ends so.
  for (std::size_t at = 0; kind == PictureKind::svg && (at = ran.out.find("]]>", at)) != std::string::npos; at += 6)
    ran.out.replace(at, 3, "]]&gt;");
  return ran.out;
}

// The backend that `automatic` stands for.
PlotBackend chosen(PictureKind kind, PlotBackend backend) {
  if (backend != PlotBackend::automatic) return backend;
  if (is_on_path("gnuplot")) return PlotBackend::gnuplot;
  return kind == PictureKind::svg ? PlotBackend::own : PlotBackend::gnuplot;
}

}  // namespace

PlotBackend parse_backend(std::string_view name) {
  if (name == "auto") return PlotBackend::automatic;
  if (name == "gnuplot") return PlotBackend::gnuplot;
  if (name == "matplot") return PlotBackend::matplot;
  if (name == "own") return PlotBackend::own;
  throw Error("unknown backend; accepted: auto, gnuplot, matplot, own");
}

std::string why_not(PictureKind kind, const DrawOptions& options) {
  switch (chosen(kind, options.backend)) {
    case PlotBackend::matplot:
      if (matplot_script == nullptr)
        return "this build has no Matplot++ (configure with -DNARROW_MATPLOT=ON); gnuplot draws the same";
      return is_on_path("gnuplot") ? "" : no_gnuplot;  // it draws by gnuplot as well
    case PlotBackend::own:
      return kind == PictureKind::svg ? "" : "the own writer knows SVG only; install gnuplot for PNG";
    default: return is_on_path("gnuplot") ? "" : no_gnuplot;
  }
}

std::string draw(const Plot& plot, PictureKind kind, const DrawOptions& options) {
  if (const std::string fault = why_not(kind, options); !fault.empty())
    throw Error("no picture of " + plot.name + ": " + fault);
  switch (chosen(kind, options.backend)) {
    case PlotBackend::matplot: return run_gnuplot(plot, kind, matplot_script(lay_out(plot), kind, options.png_scale));
    case PlotBackend::own: return to_svg_file(lay_out(plot));
    default: return run_gnuplot(plot, kind, gnuplot_script(lay_out(plot), kind, options.png_scale));
  }
}

std::string draw_inline(const Plot& plot) { return to_svg_element(lay_out(plot, {.titles = false})); }

}  // namespace narrow::plot
