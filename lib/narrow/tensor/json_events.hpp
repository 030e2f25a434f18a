// JSON as a stream of events, for headers from outside: nothing is built that the listener does not keep.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace narrow {

// A listener throws Error when an event does not belong where it comes.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void begin_object() = 0;
  virtual void key(std::string name) = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
  virtual void text(std::string value) = 0;
  virtual void number(std::uint64_t value) = 0;   // 0 to 2^63 - 1
  virtual void other(std::string_view what) = 0;  // "null", "a truth value", "the number -1", ...
};

// Strict: UTF-8, no comments, no zero bytes, nothing after the end but blanks, limited depth. first_byte is where the
// text begins in its file, for messages.
void read_json(std::string_view json, std::uint64_t first_byte, JsonEvents& events);

}  // namespace narrow
