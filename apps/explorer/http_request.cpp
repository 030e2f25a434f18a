#include "explorer/http_request.hpp"

#include <algorithm>
#include <charconv>

#include "narrow/format/find_format.hpp"

namespace app {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// RFC 9110, 5.6.2.
bool is_http_token(std::string_view text) {
  const auto fits = [](char c) {
    return is_digit(c) || (narrow::detail::lower(c) >= 'a' && narrow::detail::lower(c) <= 'z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), fits);
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool is_field_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '\t' || (byte >= 0x20 && byte != 0x7F);
}

// "GET /path HTTP/1.1"; the status that refuses it, or 0.
int read_request_line(std::string_view line, HttpRequest& request) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return 400;
  const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
  std::string_view target = line.substr(first + 1, last - first - 1);
  const auto is_visible = [](char c) { return c > ' ' && c < 0x7F && c != '#'; };
  if (!is_http_token(method) || !target.starts_with('/') || !std::all_of(target.begin(), target.end(), is_visible))
    return 400;
  if (version != "HTTP/1.1")
    return version.size() == 8 && version.starts_with("HTTP/") && is_digit(version[5]) && version[6] == '.' &&
                   is_digit(version[7])
               ? 505
               : 400;
  request.path = target.substr(0, target.find('?'));
  request.is_head = method == "HEAD";
  return method == "GET" || method == "HEAD" ? 0 : 405;
}

bool lists_close(std::string_view value) {
  while (!value.empty()) {
    const std::size_t end = std::min(value.find(','), value.size());
    if (narrow::detail::same_word(trimmed(value.substr(0, end)), "close")) return true;
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  return false;
}

// What the fields say that this server asks for.
struct Fields {
  int hosts = 0, ranges = 0;
  bool has_body = false;
  bool is_conditional = false;  // If-Range: there is no validator that it could match
};

int read_field(std::string_view line, HttpRequest& request, Fields& fields) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_http_token(line.substr(0, colon))) return 400;
  const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
  if (!std::all_of(value.begin(), value.end(), is_field_byte)) return 400;
  if (narrow::detail::same_word(name, "host")) {
    request.host = value;
    if (++fields.hosts > 1) return 400;
  } else if (narrow::detail::same_word(name, "range")) {
    request.range = value;
    if (++fields.ranges > 1) return 400;
  } else if (narrow::detail::same_word(name, "if-range")) {
    fields.is_conditional = true;
  } else if (narrow::detail::same_word(name, "connection")) {
    if (lists_close(value)) request.keeps = false;
  } else if (narrow::detail::same_word(name, "transfer-encoding") ||
             (narrow::detail::same_word(name, "content-length") && value != "0")) {
    fields.has_body = true;
  }
  return 0;
}

}  // namespace

std::size_t head_size(std::string_view text) {
  const std::size_t end = text.find("\r\n\r\n");
  const std::string_view head = text.substr(0, end);
  const auto is_head_byte = [](char c) { return is_field_byte(c) || c == '\r' || c == '\n'; };
  const std::size_t size = end == std::string_view::npos ? 0 : end + 4;
  const bool is_too_long = std::max(size, head.size()) > longest_head;
  if (is_too_long || !std::all_of(head.begin(), head.end(), is_head_byte)) return text.size();
  return size;
}

HttpRequest parse_request(std::string_view head) {
  HttpRequest request;
  const auto refuse = [&](int status) {
    request.refused = status;
    request.keeps = false;  // where the next request begins is not sure
    return request;
  };
  if (head.size() > longest_head) return refuse(431);
  if (!head.ends_with("\r\n\r\n")) return refuse(400);
  head.remove_suffix(2);
  int status = 400;
  bool is_first = true;
  Fields fields;
  while (!head.empty()) {
    const std::size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    const int problem = is_first ? read_request_line(line, request) : read_field(line, request, fields);
    if (problem == 400 || problem == 505) return refuse(problem);
    if (is_first) status = problem;  // a method that is not allowed, in a request that is otherwise one
    is_first = false;
    head.remove_prefix(end + 2);
  }
  if (fields.hosts != 1) return refuse(400);
  if (status != 0) return refuse(status);
  if (fields.has_body) return refuse(400);
  if (fields.is_conditional || request.is_head) request.range.reset();
  return request;
}

bool counts_bytes(std::string_view range) {
  return narrow::detail::same_word(range.substr(0, range.find('=')), "bytes");
}

std::optional<ByteRange> parse_range(std::string_view text, std::uint64_t size) {
  text = trimmed(text.substr(std::min(text.find('=') + 1, text.size())));
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return {};
  const auto number = [](std::string_view digits) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || end != digits.data() + digits.size()) return {};
    if (problem == std::errc::result_out_of_range) return ~std::uint64_t{0};  // as any that is beyond the end
    return problem == std::errc{} ? std::optional(value) : std::nullopt;
  };
  const std::string_view front = text.substr(0, dash), back = text.substr(dash + 1);
  if (front.empty()) {  // the last so many
    const std::optional<std::uint64_t> count = number(back);
    if (!count || *count == 0 || size == 0) return {};
    return ByteRange{size - std::min(*count, size), std::min(*count, size)};
  }
  const std::optional<std::uint64_t> first = number(front);
  const std::optional<std::uint64_t> last = back.empty() ? std::optional(~std::uint64_t{0}) : number(back);
  if (!first || !last || *first > *last || *first >= size) return {};
  return ByteRange{*first, std::min(*last, size - 1) - *first + 1};
}

}  // namespace app
