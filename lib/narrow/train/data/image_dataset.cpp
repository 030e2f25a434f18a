#include <algorithm>

#include "narrow/base/random.hpp"
#include "narrow/train/data/dataset.hpp"

namespace narrow::train {

namespace {

constexpr std::size_t most_held_out = 2000;  // enough for a percent of accuracy, and not longer than the training

void append(const Images& images, std::size_t i, Batch& batch) {
  const std::size_t n = images.pixels_each();
  for (std::size_t k = i * n; k < (i + 1) * n; ++k)
    batch.inputs.push_back(static_cast<float>(images.pixels[k]) / images.white);
  batch.targets.push_back(images.labels[i]);
  ++batch.size;
}

class ImageDataset final : public Dataset {
 public:
  explicit ImageDataset(ImageSplit images) : images_(std::move(images)) {}

  // Drawn with replacement: no epochs to keep count of.
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t size) const override {
    Batch batch;
    for (std::size_t i = 0; i < size; ++i)
      append(images_.training, random_bits(seed, step * size + i) % images_.training.size(), batch);
    return batch;
  }

  std::vector<Batch> held_out(std::size_t size) const override {
    std::vector<Batch> batches;
    for (std::size_t i = 0; i < std::min(images_.held_out.size(), most_held_out); ++i) {
      if (i % size == 0) batches.emplace_back();
      append(images_.held_out, i, batches.back());
    }
    return batches;
  }

  bool has_classes() const override { return true; }

 private:
  ImageSplit images_;
};

}  // namespace

std::shared_ptr<const Dataset> image_dataset(ImageSplit images) {
  return std::make_shared<ImageDataset>(std::move(images));
}

}  // namespace narrow::train
