// Labelled images as bytes: what digits and Fashion-MNIST have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace narrow::train {

struct Images {
  std::size_t side = 0;              // an image is side x side pixels
  float white = 1;                   // the largest pixel: a model sees pixel / white, in [0, 1]
  std::vector<std::uint8_t> pixels;  // row by row, image by image
  std::vector<std::uint8_t> labels;  // 0 to 9
  std::size_t size() const { return labels.size(); }
  std::size_t pixels_each() const { return side * side; }
};

inline constexpr std::size_t image_classes = 10;

// What a model learns from, and what it is tested on and never sees.
struct ImageSplit {
  Images training, held_out;
};

}  // namespace narrow::train
