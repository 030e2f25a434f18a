#include <string>

#include "narrow/base/error.hpp"
#include "narrow/base/random.hpp"
#include "narrow/train/data/dataset.hpp"

namespace narrow::train {

namespace {

constexpr std::size_t held_out_windows = 64;  // enough for a loss to three digits, and as long as eight steps

class TextDataset final : public Dataset {
 public:
  TextDataset(std::vector<std::uint8_t> text, std::size_t context)
      : text_(std::move(text)), context_(context), training_(text_.size() - text_.size() / 10) {
    const std::size_t least = 10 * (context + 1);  // one window in the tenth that is held out
    if (text_.size() < least)
      throw Error("a text of " + std::to_string(text_.size()) + " bytes is too short for a context of " +
                  std::to_string(context) + "; at least " + std::to_string(least) + " are needed");
  }

  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t size) const override {
    Batch batch;
    for (std::size_t i = 0; i < size; ++i) append(random_bits(seed, step * size + i) % (training_ - context_), batch);
    return batch;
  }

  // Windows at equal distances, the first at the beginning of the last tenth.
  std::vector<Batch> held_out(std::size_t size) const override {
    std::vector<Batch> batches;
    const std::size_t starts = text_.size() - training_ - context_;
    for (std::size_t i = 0; i < held_out_windows; ++i) {
      if (i % size == 0) batches.emplace_back();
      append(training_ + i * starts / held_out_windows, batches.back());
    }
    return batches;
  }

  bool has_classes() const override { return false; }

 private:
  void append(std::size_t start, Batch& batch) const {
    for (std::size_t k = start; k < start + context_; ++k) {
      batch.tokens.push_back(text_[k]);
      batch.targets.push_back(text_[k + 1]);
    }
    ++batch.size;
  }

  std::vector<std::uint8_t> text_;
  std::size_t context_, training_;  // bytes to learn from: the first nine tenths
};

}  // namespace

std::shared_ptr<const Dataset> text_dataset(std::vector<std::uint8_t> text, std::size_t context) {
  return std::make_shared<TextDataset>(std::move(text), context);
}

}  // namespace narrow::train
