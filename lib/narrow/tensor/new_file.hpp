// A file that appears whole or not at all: what was there before stays until finish().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace narrow {

// The data go to a temporary file beside the target: one without a name where the file system can do that, so that even
// a killed process leaves nothing, else PATH.tmpN. A target that is a device or a pipe (/dev/null) is written directly.
// A symbolic link stays, and the file that it names is replaced or made. Throws Error with the file and the reason.
// A finished file outlives a power cut: data and name are on the disk before finish() returns, unless the environment
// has NARROW_NO_SYNC=1.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  // One that several processes write, under a name that they know before it is there, so that any of them removes it
  // when they are ended. The first makes it, `size` bytes long, then the others join. Each writes its own bytes; the
  // others leave() before the first may finish(), and forget the name after it has.
  NewFile(const std::string& path, std::string temporary);
  static std::string temporary_of(const std::string& path);
  void make(std::uint64_t size);
  void join();
  void leave();
  void forget();
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void finish();  // gives the file its name; without it nothing changes

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  // Removes the temporary files that have names. Async-signal-safe, for a handler that ends the process next; gives up
  // where the signal came while a name was being noted.
  static void remove_temporaries() noexcept;

 private:
  void write_out(std::span<const std::byte> bytes);
  void set_temporary(std::string name);
  void open_temporary();
  [[noreturn]] void fail(int reason);

  std::string path_;       // as given, for messages
  std::string target_;     // where links lead
  std::string temporary_;  // empty: nothing to remove
  int file_ = -1;
  bool direct_ = false;   // a device or a pipe
  bool unnamed_ = false;  // has no name before finish()
  bool syncs_ = true;
  std::uint64_t written_ = 0, started_ = 0;  // bytes given to the system, and of them those on their way to the disk
  std::vector<std::byte> buffer_;
  NewFile* next_ = nullptr;  // in the list of those with a named temporary
};

}  // namespace narrow
