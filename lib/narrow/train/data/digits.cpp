#include "narrow/train/data/digits.hpp"

#include <charconv>

#include "narrow/base/error.hpp"
#include "narrow/train/data/embedded.hpp"
#include "narrow/train/data/gunzip.hpp"

namespace narrow::train {

// Lines of 64 pixels and a label.
Images read_digits() {
  constexpr std::size_t largest_file = 1 << 20, columns = 65;
  const std::vector<std::byte> bytes = gunzip(embedded::digits(), largest_file, "the digits in this program");
  const char* at = reinterpret_cast<const char*>(bytes.data());
  const char* const end = at + bytes.size();
  Images images{8, 16, {}, {}};
  for (std::size_t column = 0; at != end; ++at, column = (column + 1) % columns) {
    const bool is_label = column + 1 == columns;
    std::uint8_t value = 0;
    at = std::from_chars(at, end, value).ptr;
    if (at == end || *at != (is_label ? '\n' : ',')) throw Error("the digits in this program are damaged");
    (is_label ? images.labels : images.pixels).push_back(value);
  }
  return images;
}

ImageSplit split_digits() {
  const Images all = read_digits();
  ImageSplit split{{all.side, all.white, {}, {}}, {all.side, all.white, {}, {}}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    Images& part = i % 5 == 4 ? split.held_out : split.training;
    const auto image = all.pixels.begin() + static_cast<std::ptrdiff_t>(i * all.pixels_each());
    part.pixels.insert(part.pixels.end(), image, image + static_cast<std::ptrdiff_t>(all.pixels_each()));
    part.labels.push_back(all.labels[i]);
  }
  return split;
}

}  // namespace narrow::train
