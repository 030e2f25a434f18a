// Where batches come from. A batch is a function of (seed, step), so that every recipe sees the same data and a run
// that goes on after a break needs nothing remembered.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "narrow/train/data/images.hpp"
#include "narrow/train/models/model.hpp"

namespace narrow::train {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t size) const = 0;
  // The same examples every time, none of which training_batch gives, in batches of at most `size`.
  virtual std::vector<Batch> held_out(std::size_t size) const = 0;
  virtual bool has_classes() const = 0;  // whether "how many are right" is a question
};

std::shared_ptr<const Dataset> image_dataset(ImageSplit images);
// Windows of `context` bytes and the bytes that follow each; the last tenth of the text is held out. Throws Error when
// the text is too short.
std::shared_ptr<const Dataset> text_dataset(std::vector<std::uint8_t> text, std::size_t context);

// Rows [begin, end) of a batch: what one rank or micro-batch sees of it.
Batch rows_of(const Batch& batch, std::size_t begin, std::size_t end);

}  // namespace narrow::train
