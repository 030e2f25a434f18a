// One request of HTTP/1.1, read strictly: GET and HEAD without a body. What is not well-formed is refused, not guessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace app {

struct HttpRequest {
  int refused = 0;  // the status that says why it is not answered; 0: well-formed
  bool is_head = false;
  std::string path = {};  // without the query; not decoded, since no resource needs that
  std::string host = {};
  std::optional<std::string> range = {};  // as it stands there
  bool keeps = true;                      // the connection, for the next request
};

inline constexpr std::size_t longest_head = 32768;

// How many bytes the head of the first request has, its empty line included; 0 when it has not all come. Text that
// cannot become one (bytes that no head holds, more than longest_head) ends where it is: parse_request refuses it.
std::size_t head_size(std::string_view text);

HttpRequest parse_request(std::string_view head);

// The bytes [begin, begin + size) of a resource.
struct ByteRange {
  std::uint64_t begin = 0, size = 0;
};

// bytes=0-99, bytes=100-, bytes=-100 of a resource of that size. Empty: it cannot be satisfied, is no range, or is more
// than one.
std::optional<ByteRange> parse_range(std::string_view text, std::uint64_t size);
bool counts_bytes(std::string_view range);  // a range in another unit is to be ignored

}  // namespace app
