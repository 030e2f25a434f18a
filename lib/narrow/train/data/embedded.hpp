// Data sets that travel inside the library, compressed as the files in data/ are; the bytes are put in by CMake.
#pragma once

#include <cstddef>
#include <span>

namespace narrow::train::embedded {

std::span<const std::byte> digits();  // data/digits/digits.csv.gz
std::span<const std::byte> corpus();  // data/text/corpus.txt.gz

}  // namespace narrow::train::embedded
