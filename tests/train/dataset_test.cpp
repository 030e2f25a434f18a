#include "narrow/train/data/dataset.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "narrow/train/data/digits.hpp"
#include "narrow/train/data/embedded.hpp"
#include "narrow/train/data/fashion.hpp"
#include "narrow/train/data/gunzip.hpp"
#include "narrow/train/data/text_corpus.hpp"
#include "tensor/files.hpp"

using namespace narrow::train;
using test::error_of;

TEST_CASE("train: the digits are those of the UCI test set") {
  const Images digits = read_digits();
  REQUIRE(digits.size() == 1797);
  REQUIRE(digits.pixels.size() == 1797 * 64);
  std::vector<int> of_label(10);
  for (const std::uint8_t label : digits.labels) ++of_label.at(label);
  CHECK(of_label ==
        std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});  // as the repository counts them
  CHECK(*std::max_element(digits.pixels.begin(), digits.pixels.end()) == 16);
  CHECK(std::vector<int>(digits.pixels.begin(), digits.pixels.begin() + 8) ==
        std::vector<int>{0, 0, 5, 13, 9, 1, 0, 0});
}

TEST_CASE("train: no held-out digit is trained on") {
  const ImageSplit split = split_digits();
  CHECK(split.training.size() == 1438);
  CHECK(split.held_out.size() == 359);
  const std::shared_ptr<const Dataset> data = image_dataset(split);
  const auto rows = [](const Batch& b) {
    std::set<std::vector<float>> images;
    for (std::size_t i = 0; i < b.size; ++i)
      images.emplace(b.inputs.begin() + static_cast<std::ptrdiff_t>(64 * i),
                     b.inputs.begin() + static_cast<std::ptrdiff_t>(64 * (i + 1)));
    return images;
  };
  const std::set<std::vector<float>> seen = rows(data->training_batch(1, 0, 20000));
  CHECK(seen.size() > 1400);  // nearly all of them
  std::size_t held = 0;
  for (const Batch& batch : data->held_out(50)) {
    CHECK(batch.size <= 50);
    held += batch.size;
    for (const std::vector<float>& image : rows(batch)) CHECK(seen.count(image) == 0);
  }
  CHECK(held == 359);
}

TEST_CASE("train: a batch is a function of the seed and the step") {
  for (const auto& data : {image_dataset(split_digits()), text_dataset(read_corpus(), 16)}) {
    const Batch a = data->training_batch(7, 3, 8), b = data->training_batch(7, 3, 8), c = data->training_batch(7, 4, 8),
                d = data->training_batch(8, 3, 8);
    CHECK(a.targets == b.targets);
    CHECK(a.inputs == b.inputs);
    CHECK(a.tokens == b.tokens);
    CHECK(a.targets != c.targets);
    CHECK(a.targets != d.targets);
  }
}

TEST_CASE("train: every byte of a window predicts the next") {
  std::vector<std::uint8_t> text(1000);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::uint8_t>(i % 251);
  const std::shared_ptr<const Dataset> data = text_dataset(text, 9);
  std::vector<Batch> batches = data->held_out(8);
  batches.push_back(data->training_batch(1, 0, 500));
  for (const Batch& b : batches) {
    REQUIRE(b.tokens.size() == 9 * b.size);
    for (std::size_t i = 0; i < b.tokens.size(); ++i) CHECK(b.targets[i] == (b.tokens[i] + 1) % 251);
  }
}

TEST_CASE("train: windows of training and of the held-out text do not meet") {
  std::vector<std::uint8_t> text(100, 1);
  std::fill(text.begin() + 90, text.end(), std::uint8_t{2});
  const std::shared_ptr<const Dataset> data = text_dataset(text, 9);  // as short as it may be: one window is held out
  for (const std::int32_t t : data->training_batch(1, 0, 1000).targets) CHECK(t == 1);
  for (const Batch& b : data->held_out(8))
    for (const std::int32_t t : b.tokens) CHECK(t == 2);
  CHECK(error_of([&] { text_dataset(std::vector<std::uint8_t>(99), 9); }) ==
        "a text of 99 bytes is too short for a context of 9; at least 100 are needed");
}

TEST_CASE("train: rows of a batch are parts of every array") {
  Batch batch{4, {1, 2, 3, 4, 5, 6, 7, 8}, {}, {2, 3, 4, 5, 6, 7, 8, 9}};
  const Batch part = rows_of(batch, 1, 3);
  CHECK(part.size == 2);
  CHECK(part.tokens == std::vector<std::int32_t>{3, 4, 5, 6});
  CHECK(part.targets == std::vector<std::int32_t>{4, 5, 6, 7});
  CHECK(part.inputs.empty());
}

TEST_CASE("train: the text of the library is the frozen one") {
  const std::vector<std::uint8_t> text = read_corpus();
  CHECK(text.size() == 260724);  // data/text/README.md
  CHECK(error_of([] { read_corpus("/no/such/file"); }).find("/no/such/file") != std::string::npos);
}

TEST_CASE("train: gzip that is damaged or cut off or too long is refused") {
  const std::span<const std::byte> good = narrow::train::embedded::digits();
  CHECK(gunzip(good, 1 << 20, "x").size() == 264712);
  CHECK(error_of([&] { gunzip(good, 264711, "x"); }) == "x: holds more than the 264711 bytes expected");
  CHECK(error_of([&] { gunzip(good.first(good.size() / 2), 1 << 20, "x"); }) == "x: the gzip stream is cut off");
  CHECK(error_of([&] { gunzip(good.first(0), 1 << 20, "x"); }) == "x: the gzip stream is cut off");
  CHECK(error_of([&] { gunzip(good.subspan(5), 1 << 20, "x"); }) == "x: no gzip stream, or a damaged one");
  std::vector<std::byte> spoiled(good.begin(), good.end());
  spoiled[spoiled.size() / 2] ^= std::byte{1};
  CHECK(error_of([&] { gunzip(spoiled, 1 << 20, "x"); }).find("x: ") == 0);
}

TEST_CASE("train: Fashion-MNIST is read where it is installed and asked for where it is not") {
  CHECK(error_of([] { read_fashion("/no/such/folder"); }) ==
        "Fashion-MNIST is not installed ('/no/such/folder'); on Debian: apt install dataset-fashion-mnist");
  if (!std::filesystem::exists(fashion_folder)) {
    MESSAGE("skipped: no " << std::string(fashion_folder));
    return;
  }
  const ImageSplit images = read_fashion();
  CHECK(images.training.size() == 60000);
  CHECK(images.held_out.size() == 10000);
  std::vector<int> of_label(10);
  for (const std::uint8_t label : images.training.labels) ++of_label.at(label);
  CHECK(of_label == std::vector<int>(10, 6000));
}
