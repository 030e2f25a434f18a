#include "narrow/train/data/text_corpus.hpp"

#include <cstring>
#include <filesystem>

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/mapped_file.hpp"
#include "narrow/train/data/embedded.hpp"
#include "narrow/train/data/gunzip.hpp"

namespace narrow::train {

namespace {

// Held in memory. A model of these sizes sees a few million bytes at most in hours.
constexpr std::size_t largest_corpus = std::size_t{1} << 30;

std::vector<std::uint8_t> copy(std::span<const std::byte> bytes) {
  std::vector<std::uint8_t> text(bytes.size());
  if (!bytes.empty()) std::memcpy(text.data(), bytes.data(), bytes.size());
  return text;
}

}  // namespace

std::vector<std::uint8_t> read_corpus(const std::string& path) {
  if (path.empty()) return copy(gunzip(embedded::corpus(), largest_corpus, "the text in this program"));
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw Error(quote_path(path) + ": a folder, not a text");
  const std::shared_ptr<const MappedFile> file = path == "-" ? MappedFile::standard_input() : MappedFile::open(path);
  if (file->bytes().size() > largest_corpus)
    throw Error(quote_path(path) + ": " + std::to_string(file->bytes().size()) + " bytes; a text may have 1 GiB");
  return copy(file->bytes());
}

}  // namespace narrow::train
