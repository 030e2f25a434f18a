// The 1,797 handwritten digits (8 x 8 pixels, 0 to 16) that travel with the library; see data/digits.
#pragma once

#include "narrow/train/data/images.hpp"

namespace narrow::train {

Images read_digits();       // in the order of the file
ImageSplit split_digits();  // every fifth image is held out

}  // namespace narrow::train
