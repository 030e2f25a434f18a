#include "narrow/tensor/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "narrow/base/descriptor.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/spin_lock.hpp"

namespace narrow {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) { throw Error(quote_path(path) + ": " + why); }

std::string advice_for_folder(const std::string& path) {
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"})
    if (file_exists(path + "/" + name))
      return std::string("a folder; give the file in it: ") + quote_path(path + "/" + name);
  return "a folder, not a file; give a .safetensors, .npy or .npz file, or a model.safetensors.index.json";
}

std::string open_problem(int reason) {
  switch (reason) {
    case ENOENT: return "no such file";
    case EACCES: return "cannot be read: permission denied";
    case ENOTDIR: return "no such file (a part of the path is no folder)";
    default: return std::string("cannot be opened: ") + std::strerror(reason);
  }
}

void write_all(int file, std::span<const std::byte> bytes, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      throw Error(what + ": cannot be kept in a temporary file: " + std::strerror(errno) +
                  "; set TMPDIR to a folder with more room");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

int open_unnamed_file(const std::string& what) {
  const char* folder = std::getenv("TMPDIR");
  std::string name = std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/narrow-XXXXXX";
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0)
    throw Error(what + ": no temporary file in " + quote_path(name.substr(0, name.rfind('/'))) + ": " +
                std::strerror(errno) + "; set TMPDIR to a folder that can be written");
  unlink(name.c_str());
  return file;
}

// Everything that is mapped, for message_at. No code that holds the lock touches mapped bytes.
std::atomic_flag maps_busy = ATOMIC_FLAG_INIT;
MappedFile* first_mapped = nullptr;

class Slice : public ByteSource {
 public:
  Slice(std::shared_ptr<const MappedFile> file, std::span<const std::byte> bytes)
      : file_(std::move(file)), bytes_(bytes) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
      fail(file_->path(), "read beyond the end of a tensor");
    check();
    file_->read(static_cast<std::uint64_t>(bytes_.data() - file_->bytes().data()) + offset, out);
  }
  std::span<const std::byte> mapped() const override { return bytes_; }
  void check() const override { file_->check(); }
  void forget() const override { file_->forget(); }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> bytes_;
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::map(int file, std::string path, bool has_name) {
  Descriptor guard(file);
  struct stat about {};
  if (fstat(file, &about) != 0) fail(path, std::strerror(errno));
  std::shared_ptr<MappedFile> result(new MappedFile);
  result->message_ = quote_path(path) + ": became shorter while it was read, or its disk failed";
  const auto size = static_cast<std::size_t>(about.st_size);
  if (size > 0) {
    void* place = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (place == MAP_FAILED) fail(path, std::string("cannot be mapped: ") + std::strerror(errno));
    result->bytes_ = {static_cast<const std::byte*>(place), size};
    result->size_ = size;
  }
  result->path_ = std::move(path);
  result->mapped_ = true;
  result->device_ = about.st_dev, result->inode_ = about.st_ino;
  if (!has_name) result->file_ = guard.release();
  const SpinLock lock(maps_busy);
  result->next_ = first_mapped;
  if (first_mapped != nullptr) first_mapped->previous_ = result.get();
  first_mapped = result.get();
  return result;
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  if (path.empty())
    throw Error("a file without a name; give a .safetensors, .npy or .npz file, or - for standard input");
  if (path.find('\0') != std::string::npos) fail(path, "no such file (a zero byte in the name)");
  // O_NONBLOCK: a pipe that nobody writes to would block here for ever. It changes nothing for regular files.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) fail(path, open_problem(errno));
  struct stat about {};
  if (fstat(file.get(), &about) != 0) fail(path, std::strerror(errno));
  if (S_ISDIR(about.st_mode)) fail(path, advice_for_folder(path));
  if (!S_ISREG(about.st_mode)) fail(path, "a pipe or a device, not a file; to read from a pipe give -");
  return map(file.release(), path, true);
}

std::shared_ptr<const MappedFile> MappedFile::standard_input(std::uint64_t most) {
  const std::string name = "standard input";
  struct stat about {};
  if (fstat(STDIN_FILENO, &about) != 0) throw Error(name + ": closed; give a file or pipe one in");
  if (isatty(STDIN_FILENO) == 1) throw Error(name + ": a terminal; give a file or pipe one in");
  if (S_ISDIR(about.st_mode)) throw Error(name + ": a folder; give a file or pipe one in");
  if (S_ISCHR(about.st_mode) || S_ISBLK(about.st_mode)) throw Error(name + ": a device; give a file or pipe one in");
  if (S_ISREG(about.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) {
    const int copy = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (copy >= 0) return map(copy, name, false);
  }
  Descriptor file(open_unnamed_file(name));
  std::vector<std::byte> piece(std::size_t{1} << 20);
  for (std::uint64_t all = 0;;) {
    const ssize_t count = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(name + ": " + std::strerror(errno));
    if (count == 0) break;
    all += static_cast<std::uint64_t>(count);
    if (all > most)
      throw Error(name + ": more than " + std::to_string(most) +
                  " bytes came through a pipe; save them to a file and give that");
    write_all(file.get(), std::span(piece).first(static_cast<std::size_t>(count)), name);
  }
  return map(file.release(), name, false);
}

std::shared_ptr<const MappedFile> MappedFile::copy_of(const ByteSource& source, std::uint64_t size) {
  const std::string name = "data of " + std::to_string(size) + " bytes";
  Descriptor file(open_unnamed_file(name));
  std::vector<std::byte> piece(std::size_t{1} << 20);
  for (std::uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), size - at)));
    source.read(at, piece);
    write_all(file.get(), piece, name);
  }
  return map(file.release(), name, false);
}

std::shared_ptr<const MappedFile> MappedFile::in_memory(std::vector<std::byte> bytes, std::string path) {
  std::shared_ptr<MappedFile> result(new MappedFile);
  result->memory_ = std::move(bytes);
  result->bytes_ = result->memory_;
  result->size_ = result->memory_.size();
  result->path_ = std::move(path);
  return result;
}

MappedFile::~MappedFile() {
  if (!mapped_) return;
  {
    const SpinLock lock(maps_busy);
    (previous_ != nullptr ? previous_->next_ : first_mapped) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
  }
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (file_ >= 0) close(file_);
}

std::span<const std::byte> MappedFile::bytes() const { return bytes_; }

std::span<const std::byte> MappedFile::head(std::uint64_t most) const {
  return bytes_.first(static_cast<std::size_t>(std::min<std::uint64_t>(most, size_)));
}

void MappedFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
}

std::int64_t MappedFile::bytes_left() const noexcept {
  struct stat about {};
  if ((file_ >= 0 ? fstat(file_, &about) : stat(path_.c_str(), &about)) != 0) return -1;
  return about.st_dev == device_ && about.st_ino == inode_ ? about.st_size : -1;
}

void MappedFile::check() const {
  const std::int64_t left = mapped_ ? bytes_left() : -1;
  if (left < 0 || static_cast<std::uint64_t>(left) >= bytes_.size()) return;
  fail(path_, "became shorter while it was read (" + std::to_string(left) + " of " + std::to_string(bytes_.size()) +
                  " bytes are left)");
}

void MappedFile::forget() const {
  if (mapped_ && !bytes_.empty()) (void)madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

const char* MappedFile::message_at(const void* address) noexcept {
  const SpinLock lock(maps_busy);
  const auto* at = static_cast<const std::byte*>(address);
  for (const MappedFile* file = first_mapped; file != nullptr; file = file->next_)
    if (!file->bytes_.empty() && at >= file->bytes_.data() && at < file->bytes_.data() + file->bytes_.size())
      return file->message_.c_str();
  return nullptr;
}

std::shared_ptr<const ByteSource> slice(std::shared_ptr<const MappedFile> file, std::uint64_t begin,
                                        std::uint64_t size) {
  const std::span<const std::byte> bytes = file->bytes().subspan(begin, size);
  return std::make_shared<Slice>(std::move(file), bytes);
}

}  // namespace narrow
