#include "narrow/tensor/new_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"

namespace narrow {

namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 18;

// Where a chain of links leads; path itself where there is none (or where it leads to nothing).
std::string behind_links(const std::string& path) {
  struct stat about {};
  if (lstat(path.c_str(), &about) != 0 || !S_ISLNK(about.st_mode)) return path;
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  const std::string result = real;
  std::free(real);
  return result;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporary_name(const std::string& target) {
  static std::atomic<unsigned> count{0};
  return target + ".tmp" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

}  // namespace

NewFile::NewFile(const std::string& path) : path_(path), target_(behind_links(path)) {
  if (path.empty() || path.find('\0') != std::string::npos)
    throw Error("cannot write a file without a name; give one, for example out.safetensors");
  struct stat about {};
  const bool exists = stat(target_.c_str(), &about) == 0;
  if (exists && S_ISDIR(about.st_mode)) fail(EISDIR);
  if (exists && !S_ISREG(about.st_mode)) {
    direct_ = true;
    file_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (file_ < 0) fail(errno);
  } else {
    if (exists && access(target_.c_str(), W_OK) != 0) fail(errno);  // a name can be given over a file that is protected
    open_temporary();
    // The new file may be read and written by whoever might read and write the old one.
    if (exists && fchmod(file_, about.st_mode & 07777) != 0) fail(errno);
  }
  buffer_.reserve(buffer_bytes);
}

void NewFile::open_temporary() {
#ifdef O_TMPFILE
  file_ = open(folder_of(target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  // Without /proc the file could not be given its name.
  if (file_ >= 0 && access(("/proc/self/fd/" + std::to_string(file_)).c_str(), F_OK) == 0) {
    unnamed_ = true;
    return;
  }
  if (file_ >= 0) close(file_);
#endif
  temporary_ = temporary_name(target_);
  file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) {
    const int reason = errno;
    temporary_.clear();  // not ours
    fail(reason);
  }
}

NewFile::~NewFile() {
  if (file_ >= 0) close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void NewFile::fail(int reason) {
  if (file_ >= 0) close(std::exchange(file_, -1));
  if (!temporary_.empty()) unlink(std::exchange(temporary_, {}).c_str());
  throw Error("cannot write " + quote_path(path_) + ": " + std::strerror(reason) +
              (reason == ENOSPC || reason == EFBIG || reason == EDQUOT
                   ? "; what was there before is unchanged"
                   : "; give a file in a folder that exists and can be written"));
}

void NewFile::write(std::span<const std::byte> bytes) {
  if (file_ < 0) throw Error("cannot write " + quote_path(path_) + ": it is already finished");
  if (buffer_.size() + bytes.size() > buffer_bytes) flush();
  if (bytes.size() < buffer_bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  while (!bytes.empty()) {
    // Linux writes at most 2^31 - 4096 bytes at once.
    const ssize_t count = ::write(file_, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(count < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void NewFile::flush() {
  std::span<const std::byte> rest = buffer_;
  while (!rest.empty()) {
    const ssize_t count = ::write(file_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(count < 0 ? errno : EIO);
    rest = rest.subspan(static_cast<std::size_t>(count));
  }
  buffer_.clear();
}

void NewFile::finish() {
  if (file_ < 0) throw Error("cannot write " + quote_path(path_) + ": it is already finished");
  flush();
  if (unnamed_) {
    // A name cannot be given over an old file, hence the detour; the window in which it could be left is one call wide.
    const std::string name = temporary_name(target_);
    const std::string unnamed = "/proc/self/fd/" + std::to_string(file_);
    if (linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) fail(errno);
    temporary_ = name;
  }
  // close() reports what a network file system noticed late.
  if (close(std::exchange(file_, -1)) != 0) fail(errno);
  if (direct_) return;
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
}

}  // namespace narrow
