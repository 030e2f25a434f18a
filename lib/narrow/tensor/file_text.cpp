#include "narrow/tensor/file_text.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <vector>

#include "narrow/base/descriptor.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

std::string quote_path(std::string_view path) { return "'" + visible(path) + "'"; }

namespace {

[[noreturn]] void cannot_read(const std::string& path, bool is_input, const std::string& why) {
  throw Error("cannot read " + (is_input ? "standard input" : quote_path(path)) + ": " + why);
}

// What gzip made of a file, piece by piece: one stream or several in a row.
class Gunzip {
 public:
  Gunzip() {
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Gunzip() { (void)inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  // Calls take(piece) for all that these bytes add; false where they are damaged.
  template <class Take>
  bool feed(std::string_view bytes, const Take& take) {
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));  // which zlib does not write
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      if (is_whole_ && stream_.avail_in > 0 && inflateReset(&stream_) != Z_OK) return false;
      is_whole_ = false;
      stream_.next_out = reinterpret_cast<Bytef*>(piece_.data());
      stream_.avail_out = static_cast<uInt>(piece_.size());
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) return false;
      take(std::string_view(piece_.data(), piece_.size() - stream_.avail_out));
      is_whole_ = status == Z_STREAM_END;
    } while (stream_.avail_in > 0 || stream_.avail_out == 0);
    return true;
  }
  bool is_whole() const { return is_whole_; }

 private:
  z_stream stream_{};
  std::vector<char> piece_ = std::vector<char>(std::size_t{1} << 16);
  bool is_whole_ = false;
};

// Calls take(piece) to the end of the file, of a .gz file with what it was before.
template <class Take>
void read_pieces(const std::string& path, bool is_input, const Take& take) {
  const auto fail = [&](const std::string& why) { cannot_read(path, is_input, why); };
  std::optional<Gunzip> gunzip;
  if (!is_input && path.ends_with(".gz")) gunzip.emplace();
  const Descriptor file(is_input ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about {};
  if (file.get() < 0 || fstat(file.get(), &about) != 0) fail(std::strerror(errno));
  if (S_ISDIR(about.st_mode)) fail("it is a folder");
  // A terminal ends when its user says so; a device such as /dev/zero never does.
  if ((S_ISCHR(about.st_mode) || S_ISBLK(about.st_mode)) && isatty(file.get()) != 1) fail("it is a device");
  std::vector<char> piece(std::size_t{1} << 16);
  for (;;) {
    const ssize_t count = read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(std::strerror(errno));
    if (count == 0 && gunzip && !gunzip->is_whole()) fail("its compressed data stops before its end");
    if (count == 0) return;
    const std::string_view bytes(piece.data(), static_cast<std::size_t>(count));
    if (!gunzip) take(bytes);
    else if (!gunzip->feed(bytes, take)) fail("its compressed data is damaged");
  }
}

}  // namespace

std::string read_text(const std::string& path, Dash dash) {
  const bool is_input = dash == Dash::is_standard_input && path == "-";
  std::string text;
  read_pieces(path, is_input, [&](std::string_view piece) {
    text.append(piece);
    if (text.size() > longest_text)
      cannot_read(path, is_input, "it has more than " + std::to_string(longest_text) + " bytes");
  });
  return text;
}

void for_each_line(const std::string& path, const std::function<void(std::string_view, std::uint64_t)>& each) {
  std::string line;
  std::uint64_t number = 1;
  read_pieces(path, false, [&](std::string_view piece) {
    while (!piece.empty()) {
      const std::size_t end = piece.find('\n');
      line.append(piece.substr(0, end));
      if (line.size() > longest_line)
        cannot_read(path, false,
                    "line " + std::to_string(number) + " has more than " + std::to_string(longest_line) + " bytes");
      if (end == std::string_view::npos) return;
      each(line, number++);
      line.clear();
      piece.remove_prefix(end + 1);
    }
  });
}

bool file_exists(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size() && i <= most_dimensions; ++i)
    text += (i == 0 ? "" : ", ") + (i < most_dimensions ? std::to_string(shape[i]) : "...");
  return text + "]";
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = first_code_point(text).length;
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool looks_like_text(std::string_view beginning) {
  const auto printable = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7F : c == '\n' || c == '\r' || c == '\t' || c == '\f';
  };
  if (!std::all_of(beginning.begin(), beginning.end(), printable)) return false;
  // A code point may be cut at the end of the piece.
  for (std::size_t cut = 0; cut < 4 && cut <= beginning.size(); ++cut)
    if (is_utf8(beginning.substr(0, beginning.size() - cut))) return true;
  return false;
}

}  // namespace narrow
