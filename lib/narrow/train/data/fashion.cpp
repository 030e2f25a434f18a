#include "narrow/train/data/fashion.hpp"

#include <filesystem>

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/mapped_file.hpp"
#include "narrow/train/data/gunzip.hpp"

namespace narrow::train {

namespace {

// IDX: two zero bytes, 8 for unsigned bytes, the number of dimensions, then each dimension and the data, high byte
// first.
std::vector<std::uint8_t> read_idx(const std::string& path, std::initializer_list<std::uint32_t> shape) {
  std::size_t elements = 1;
  for (const std::uint32_t n : shape) elements *= n;
  const std::size_t header = 4 + 4 * shape.size();
  const std::vector<std::byte> bytes = gunzip(MappedFile::open(path)->bytes(), header + elements, quote_path(path));
  const auto word = [&](std::size_t i) {
    std::uint32_t value = 0;
    for (std::size_t k = 4 * i; k < 4 * i + 4; ++k) value = value << 8 | std::to_integer<std::uint32_t>(bytes[k]);
    return value;
  };
  bool as_expected = bytes.size() == header + elements && word(0) == (0x800u | shape.size());
  for (std::size_t i = 0; as_expected && i < shape.size(); ++i) as_expected = word(i + 1) == shape.begin()[i];
  if (!as_expected) throw Error(quote_path(path) + ": not the file of Debian's dataset-fashion-mnist");
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data()) + header;
  return {data, data + elements};
}

Images read_part(const std::string& folder, const std::string& part, std::uint32_t count) {
  constexpr std::uint32_t side = 28;
  Images images{side, 255, read_idx(folder + "/" + part + "-images-idx3-ubyte.gz", {count, side, side}),
                read_idx(folder + "/" + part + "-labels-idx1-ubyte.gz", {count})};
  for (const std::uint8_t label : images.labels)
    if (label >= image_classes) throw Error(quote_path(folder) + ": a label above 9");
  return images;
}

}  // namespace

ImageSplit read_fashion(const std::string& folder) {
  if (!std::filesystem::exists(folder + "/train-images-idx3-ubyte.gz"))
    throw Error("Fashion-MNIST is not installed (" + quote_path(folder) +
                "); on Debian: apt install dataset-fashion-mnist");
  return {read_part(folder, "train", 60000), read_part(folder, "t10k", 10000)};
}

}  // namespace narrow::train
