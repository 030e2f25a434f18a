// Fashion-MNIST (28 x 28 pixels, ten kinds of clothing) where Debian's package dataset-fashion-mnist put it.
#pragma once

#include <string>

#include "narrow/train/data/images.hpp"

namespace narrow::train {

inline constexpr const char* fashion_folder = "/usr/share/datasets/fashion-mnist";

// 60,000 images to learn from, 10,000 held out. Throws Error: the package to install where it is absent, or what is
// wrong with the file.
ImageSplit read_fashion(const std::string& folder = fashion_folder);

}  // namespace narrow::train
