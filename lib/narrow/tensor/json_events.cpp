// The only file of the library that sees nlohmann/json, because it compiles slowly.
#include "narrow/tensor/json_events.hpp"

#include <nlohmann/json.hpp>

#include "narrow/base/error.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

// What the parser says, without what it quotes from the file: that may be long and is not printable.
std::string reason(std::string text) {
  const std::size_t column = text.find("column ");
  if (column == std::string::npos) return "a number that is too large";
  const std::size_t begin = text.find(": ", column) + 2;
  const std::size_t end = std::min(text.find("; last read"), text.size());
  return begin < end ? text.substr(begin, end - begin) : "syntax error";
}

class Adapter {
 public:
  Adapter(JsonEvents& events, std::uint64_t first_byte) : events_(events), first_byte_(first_byte) {}

  bool null() { return events_.other("null"), true; }
  bool boolean(bool) { return events_.other("a truth value"), true; }
  bool number_integer(std::int64_t value) { return events_.other("the number " + std::to_string(value)), true; }
  bool number_unsigned(std::uint64_t value) {
    if (value > largest_number) events_.other("the number " + std::to_string(value) + ", 2^63 or more,");
    else events_.number(value);
    return true;
  }
  bool number_float(double, const std::string& text) { return events_.other("the number " + quote(text)), true; }
  bool string(std::string& value) { return events_.text(std::move(value)), true; }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) { return deeper(), events_.begin_object(), true; }
  bool key(std::string& name) { return events_.key(std::move(name)), true; }
  bool end_object() { return --depth_, events_.end_object(), true; }
  bool start_array(std::size_t) { return deeper(), events_.begin_array(), true; }
  bool end_array() { return --depth_, events_.end_array(), true; }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) {
    // position counts from 1 and is that of the last byte read.
    throw Error("not JSON at byte " + std::to_string(first_byte_ + (position > 0 ? position - 1 : 0)) + ": " +
                reason(error.what()));
  }

 private:
  void deeper() {
    if (++depth_ > deepest_json) throw Error("JSON nested deeper than " + std::to_string(deepest_json) + " levels");
  }

  JsonEvents& events_;
  std::uint64_t first_byte_;
  int depth_ = 0;
};

}  // namespace

void read_json(std::string_view json, std::uint64_t first_byte, JsonEvents& events) {
  // The parser would take a zero byte for the end of its input and never look at what follows.
  if (const std::size_t zero = json.find('\0'); zero != std::string_view::npos)
    throw Error("not JSON: a zero byte at byte " + std::to_string(first_byte + zero) + " (padding is spaces)");
  Adapter adapter(events, first_byte);
  nlohmann::json::sax_parse(json.begin(), json.end(), &adapter);
}

}  // namespace narrow
