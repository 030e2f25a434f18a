// A scene as a gnuplot script: gnuplot is the pen, every place has been decided.
#pragma once

#include <string>

#include "narrow/plot/draw.hpp"
#include "narrow/plot/scene.hpp"

namespace narrow::plot {

// Writes the picture to standard output. scale: pixels of the PNG for one of the scene.
std::string gnuplot_script(const Scene& scene, PictureKind kind, double scale);

// Its parts, for whoever else sends scenes to gnuplot. The cairo terminals count fonts in points of 1/72 inch and draw 96
// pixels an inch; the SVG terminal counts pixels: font_points is what one pixel of the scene is.
std::string gnuplot_terminal(const Scene& scene, PictureKind kind, double scale);
double gnuplot_font_points(PictureKind kind);
std::string gnuplot_text(const TextShape& t);  // in quotes
std::string gnuplot_label_style(const TextShape& t, double font_points);

}  // namespace narrow::plot
