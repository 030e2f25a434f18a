// Files of the page: a browser maps nothing, so the beginning is read when it is asked for, and tensors piece by piece.
#include "narrow/tensor/mapped_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "explorer/engine/pieces.hpp"
#include "narrow/base/descriptor.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"

namespace narrow {

namespace {

// What must lie in memory as a whole (archives, whose members are found from the end): a part of wasm's 4 GB.
constexpr std::uint64_t largest_whole = std::uint64_t{3} << 29;

[[noreturn]] void fail(const std::string& path, const std::string& why) { throw Error(quote_path(path) + ": " + why); }

class Slice : public ByteSource {
 public:
  Slice(std::shared_ptr<const MappedFile> file, std::uint64_t begin, std::uint64_t size)
      : file_(std::move(file)), begin_(begin), size_(size) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size_ || out.size() > size_ - offset) fail(file_->path(), "read beyond the end of a tensor");
    file_->read(begin_ + offset, out);
  }

  app::FilePlace place() const { return {file_->path(), begin_}; }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::uint64_t begin_, size_;
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY));
  if (file.get() < 0) fail(path, errno == ENOENT ? "no such file" : std::strerror(errno));
  struct stat about {};
  if (fstat(file.get(), &about) != 0) fail(path, std::strerror(errno));
  if (S_ISDIR(about.st_mode)) fail(path, "a folder, not a file; give a .safetensors, .npy or .npz file");
  std::shared_ptr<MappedFile> result(new MappedFile);
  result->path_ = path;
  result->size_ = static_cast<std::uint64_t>(about.st_size);
  result->file_ = file.release();
  return result;
}

std::shared_ptr<const MappedFile> MappedFile::standard_input(std::uint64_t) {
  throw Error("standard input: the page has none; give a file");
}

std::shared_ptr<const MappedFile> MappedFile::copy_of(const ByteSource& source, std::uint64_t size) {
  if (size > largest_whole)
    throw Error("data of " + std::to_string(size) + " bytes in Fortran order: more than a page holds; use the program");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  source.read(0, bytes);
  return in_memory(std::move(bytes));
}

std::shared_ptr<const MappedFile> MappedFile::in_memory(std::vector<std::byte> bytes, std::string path) {
  std::shared_ptr<MappedFile> result(new MappedFile);
  result->memory_ = std::move(bytes);
  result->size_ = result->memory_.size();
  result->path_ = std::move(path);
  return result;
}

MappedFile::~MappedFile() {
  if (file_ >= 0) close(file_);
}

void MappedFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (memory_.size() == size_) {
    if (!out.empty()) std::memcpy(out.data(), memory_.data() + offset, out.size());
    return;
  }
  while (!out.empty()) {
    const ssize_t count = pread(file_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0) fail(path_, std::string("cannot be read: ") + std::strerror(errno));
    if (count == 0) fail(path_, "became shorter while it was read");
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

std::span<const std::byte> MappedFile::head(std::uint64_t most) const {
  const std::uint64_t wanted = std::min(most, size_), there = memory_.size();
  if (wanted > largest_whole)
    fail(path_, std::to_string(size_) + " bytes that must be read as a whole: more than a page holds; use the program");
  if (wanted > there) {
    std::vector<std::byte> more(static_cast<std::size_t>(wanted));
    read(0, more);
    memory_ = std::move(more);
  }
  return std::span(memory_).first(static_cast<std::size_t>(wanted));
}

std::span<const std::byte> MappedFile::bytes() const { return head(size_); }
void MappedFile::check() const {}
void MappedFile::forget() const {}

std::shared_ptr<const ByteSource> slice(std::shared_ptr<const MappedFile> file, std::uint64_t begin,
                                        std::uint64_t size) {
  return std::make_shared<Slice>(std::move(file), begin, size);
}

}  // namespace narrow

std::optional<app::FilePlace> app::place_in_file(const narrow::ByteSource& source) {
  const auto* slice = dynamic_cast<const narrow::Slice*>(&source);
  if (slice == nullptr) return {};
  FilePlace place = slice->place();
  if (!place.path.ends_with(".npy") && !place.path.ends_with(".safetensors")) return {};
  return place;
}
