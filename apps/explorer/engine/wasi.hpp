// What Debian's C++ library for wasm32-wasi leaves out, as far as the program asks for it: it is built for one thread,
// without <filesystem> and without reading floating-point numbers. Included before every file of the engine.
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

// No terminal and no second name for a file.
struct winsize {
  unsigned short ws_row, ws_col;
};
#define TIOCGWINSZ 0
inline int dup(int) { return errno = ENOTSUP, -1; }

namespace std {

struct mutex {
  void lock() {}
  void unlock() {}
  bool try_lock() { return true; }
};
// Decimal, as from_chars takes it: no blanks, no plus sign, no 0x.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const string text(first, last);
  const size_t start = !text.empty() && text[0] == '-' ? 1 : 0;
  const bool hex = text.size() > start + 1 && text[start] == '0' && (text[start + 1] | 32) == 'x';
  if (text.size() == start || (text[start] <= ' ' || text[start] == '+' || text[start] == '-'))
    return {first, errc::invalid_argument};
  char* end = nullptr;
  errno = 0;
  const double read = hex ? 0 : strtod(text.c_str(), &end);
  if (hex) return value = text[0] == '-' ? -0.0 : 0.0, from_chars_result{first + start + 1, errc()};
  if (end == text.c_str()) return {first, errc::invalid_argument};
  if (errno == ERANGE && (read == 0 || read == HUGE_VAL || read == -HUGE_VAL))  // not: a subnormal that was rounded
    return {first + (end - text.c_str()), errc::result_out_of_range};
  value = read;
  return {first + (end - text.c_str()), errc()};
}

namespace filesystem {

inline bool is(const path& p, mode_t kind, error_code& error) {
  struct stat about {};
  error.clear();
  if (stat(p.c_str(), &about) != 0) return error.assign(errno, generic_category()), false;
  return kind == 0 || (about.st_mode & S_IFMT) == kind;
}
inline bool exists(const path& p, error_code& error) { return is(p, 0, error); }
inline bool is_directory(const path& p, error_code& error) { return is(p, S_IFDIR, error); }
inline bool is_regular_file(const path& p, error_code& error) { return is(p, S_IFREG, error); }

struct directory_entry {
  filesystem::path place;
  const filesystem::path& path() const { return place; }
  bool is_regular_file(error_code& error) const { return filesystem::is_regular_file(place, error); }
};
class directory_iterator {
 public:
  directory_iterator(const path& folder, error_code& error) {
    DIR* all = opendir(folder.c_str());
    if (all == nullptr) {
      error.assign(errno, generic_category());
      return;
    }
    while (const dirent* entry = readdir(all))
      if (const string name = entry->d_name; name != "." && name != "..") entries_.push_back({folder / name});
    closedir(all);
  }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  vector<directory_entry> entries_;
};

}  // namespace filesystem
}  // namespace std
