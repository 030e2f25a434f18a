#include "narrow/tensor/file_text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "narrow/base/error.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

std::string quote_path(std::string_view path) { return "'" + visible(path) + "'"; }

std::string read_text(const std::string& path) {
  errno = 0;
  const auto fail = [&] {
    throw Error("cannot read " + quote_path(path) + ": " + (errno != 0 ? std::strerror(errno) : "a read failed"));
  };
  std::ifstream in(path, std::ios::binary);
  if (!in) fail();
  try {
    return {std::istreambuf_iterator<char>(in), {}};
  } catch (const std::ios_base::failure&) {
    fail();
  }
  return {};
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size() && i <= most_dimensions; ++i)
    text += (i == 0 ? "" : ",") + (i < most_dimensions ? std::to_string(shape[i]) : "...");
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
