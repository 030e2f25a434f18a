#include "narrow/tensor/new_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/spin_lock.hpp"

namespace narrow {

namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 18;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// Where a chain of links leads, whether there is a file yet or not; path itself where it is no link.
std::string behind_links(std::string path) {
  constexpr int most_links = 40;  // as Linux; more is a circle, which opening it will say
  for (int i = 0; i < most_links; ++i) {
    std::array<char, PATH_MAX> next;
    const ssize_t length = readlink(path.c_str(), next.data(), next.size());
    if (length <= 0) return path;
    const std::string name(next.data(), static_cast<std::size_t>(length));
    path = name[0] == '/' ? name : folder_of(path) + "/" + name;
  }
  return path;
}

std::string temporary_name(const std::string& target) {
  static std::atomic<unsigned> count{0};
  return target + ".tmp" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

// The files whose temporaries have names, for remove_temporaries.
std::atomic_flag list_busy = ATOMIC_FLAG_INIT;
NewFile* first_named = nullptr;

bool wants_sync() {
  const char* value = std::getenv("NARROW_NO_SYNC");
  return value == nullptr || *value == 0 || std::strcmp(value, "0") == 0;
}

// Some file systems cannot sync (a pipe, FUSE without it), which is no failure of theirs.
bool cannot_sync(int reason) { return reason == EINVAL || reason == ENOSYS || reason == ENOTSUP; }

}  // namespace

NewFile::NewFile(const std::string& path) : path_(path), target_(behind_links(path)), syncs_(wants_sync()) {
  if (path.empty() || path.find('\0') != std::string::npos)
    throw Error("cannot write a file without a name; give one, for example out.safetensors");
  struct stat about {};
  const bool exists = stat(target_.c_str(), &about) == 0;
  if (!exists && errno == ELOOP) fail(ELOOP);
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
}

NewFile::NewFile(const std::string& path, std::string temporary)
    : path_(path), target_(behind_links(path)), syncs_(wants_sync()) {
  set_temporary(std::move(temporary));
}

std::string NewFile::temporary_of(const std::string& path) { return temporary_name(behind_links(path)); }

void NewFile::make(std::uint64_t size) {
  struct stat about {};
  const bool exists = stat(target_.c_str(), &about) == 0;
  if (!exists && errno == ELOOP) fail(ELOOP);
  if (exists && S_ISDIR(about.st_mode)) fail(EISDIR);
  if (exists && access(target_.c_str(), W_OK) != 0) fail(errno);
  file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) fail(errno);
  if (exists && fchmod(file_, about.st_mode & 07777) != 0) fail(errno);
  if (ftruncate(file_, static_cast<off_t>(size)) != 0) fail(errno);
}

void NewFile::join() {
  file_ = open(temporary_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file_ < 0) fail(errno);
}

void NewFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(count < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void NewFile::leave() {
  if (syncs_ && fsync(file_) != 0 && !cannot_sync(errno)) fail(errno);
  if (close(std::exchange(file_, -1)) != 0) fail(errno);
}

void NewFile::forget() { set_temporary({}); }

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
  std::string name = temporary_name(target_);
  file_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) fail(errno);
  set_temporary(std::move(name));
}

// The list holds exactly those with a name, so that what a handler sees is complete.
void NewFile::set_temporary(std::string name) {
  const SpinLock lock(list_busy);
  if (temporary_.empty() && !name.empty()) next_ = std::exchange(first_named, this);
  if (!temporary_.empty() && name.empty())
    for (NewFile** at = &first_named; *at != nullptr; at = &(*at)->next_)
      if (*at == this) {
        *at = next_;
        break;
      }
  temporary_.swap(name);
}

void NewFile::remove_temporaries() noexcept {
  for (int tries = 0; list_busy.test_and_set(std::memory_order_acquire);)
    if (++tries > 1000000) return;
  for (const NewFile* file = first_named; file != nullptr; file = file->next_) unlink(file->temporary_.c_str());
  list_busy.clear(std::memory_order_release);
}

NewFile::~NewFile() {
  if (file_ >= 0) close(file_);
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  set_temporary({});
}

void NewFile::fail(int reason) {
  if (file_ >= 0) close(std::exchange(file_, -1));
  if (!temporary_.empty()) {
    unlink(temporary_.c_str());
    set_temporary({});
  }
  throw Error("cannot write " + quote_path(path_) + ": " + std::strerror(reason) +
              (reason == ENOSPC || reason == EFBIG || reason == EDQUOT || reason == EIO
                   ? "; what was there before is unchanged"
                   : "; give a file in a folder that exists and can be written"));
}

void NewFile::write(std::span<const std::byte> bytes) {
  if (file_ < 0) throw Error("cannot write " + quote_path(path_) + ": it is already finished");
  if (buffer_.size() + bytes.size() > buffer_bytes) write_out(buffer_), buffer_.clear();
  if (bytes.size() >= buffer_bytes) return write_out(bytes);
  buffer_.reserve(buffer_bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void NewFile::write_out(std::span<const std::byte> bytes) {
  // The disk starts on each piece while the next is computed, so that little is left to wait for in finish().
  constexpr std::size_t piece_bytes = std::size_t{1} << 23;
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), std::min(bytes.size(), piece_bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(count < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    written_ += static_cast<std::uint64_t>(count);
#ifdef SYNC_FILE_RANGE_WRITE
    if (!syncs_ || direct_ || written_ - started_ < piece_bytes) continue;
    // Advice: where it fails, the sync at the end does it all and says why.
    (void)sync_file_range(file_, static_cast<off_t>(started_), static_cast<off_t>(written_ - started_),
                          SYNC_FILE_RANGE_WRITE);
    started_ = written_;
#endif
  }
}

void NewFile::finish() {
  if (file_ < 0) throw Error("cannot write " + quote_path(path_) + ": it is already finished");
  write_out(buffer_);
  const bool syncs = syncs_ && !direct_;
  // The data before the name: after a power cut the name must not stand for an empty file.
  if (syncs && fsync(file_) != 0 && !cannot_sync(errno)) fail(errno);
  if (unnamed_) {
    // A name cannot be given over an old file, hence the detour; the window in which it could be left is one call wide.
    std::string name = temporary_name(target_);
    const std::string unnamed = "/proc/self/fd/" + std::to_string(file_);
    if (linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) fail(errno);
    set_temporary(std::move(name));
  }
  // Opened before the name is given, so that only the disk itself can still fail. A folder that may be written and not
  // read cannot be opened: then all of its file system is synced, through the file.
  const int folder = syncs ? open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  const int kept = syncs && folder < 0 && errno == EACCES ? fcntl(file_, F_DUPFD_CLOEXEC, 3) : -1;
  if (syncs && folder < 0 && kept < 0) fail(errno);
  // close() reports what a network file system noticed late.
  int reason = close(std::exchange(file_, -1)) != 0 ? errno : 0;
  const bool named = direct_ || (reason == 0 && std::rename(temporary_.c_str(), target_.c_str()) == 0);
  if (reason == 0 && !named) reason = errno;
  if (named && !direct_) set_temporary({});
  if (named && folder >= 0 && fsync(folder) != 0 && !cannot_sync(errno)) reason = errno;
  if (named && kept >= 0 && syncfs(kept) != 0) reason = errno;
  for (const int opened : {folder, kept})
    if (opened >= 0) close(opened);
  if (named && !direct_ && reason != 0)
    throw Error("cannot write " + quote_path(path_) + ": it is whole, but its folder cannot be synced: " +
                std::strerror(reason) + "; a power cut now may bring back what was there before");
  if (reason != 0) fail(reason);
}

}  // namespace narrow
