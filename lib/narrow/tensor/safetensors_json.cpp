#include "narrow/tensor/safetensors_json.hpp"

#include <algorithm>
#include <utility>

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/json_events.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace narrow {

namespace {

// The whole grammar is three levels deep:
//   {"__metadata__": {text: text, ..},
//    name: {"dtype": text, "shape": [number, ..], "data_offsets": [number, number]}, ..}
class HeaderEvents : public JsonEvents {
 public:
  SafetensorsHeader header;

  void begin_object() override {
    switch (place_) {
      case Place::outside: place_ = Place::top; return;
      case Place::top: return name_ == "__metadata__" ? begin_metadata() : begin_entry();
      default: unexpected("an object");
    }
  }

  void key(std::string name) override {
    if (name.size() > longest_name)
      throw Error("key " + quote(name) + " has " + std::to_string(name.size()) + " bytes; at most " +
                  std::to_string(longest_name) + " are read");
    (place_ == Place::top ? name_ : field_) = std::move(name);
    if (place_ == Place::entry) check_field();
  }

  void end_object() override {
    if (place_ == Place::entry) end_entry();
    place_ = place_ == Place::top ? Place::outside : Place::top;
  }

  void begin_array() override {
    if (place_ != Place::entry || field_ == "dtype") unexpected("an array");
    place_ = field_ == "shape" ? Place::shape : Place::offsets;
    numbers_.clear();
  }

  void end_array() override {
    if (place_ == Place::shape) {
      entry().header.shape = numbers_;
    } else {
      if (numbers_.size() != 2)
        fail("data_offsets holds " + std::to_string(numbers_.size()) + " numbers; [BEGIN, END] is right");
      entry().begin = numbers_[0];
      entry().end = numbers_[1];
    }
    place_ = Place::entry;
  }

  void text(std::string value) override {
    if (place_ == Place::metadata) {
      if (header.metadata.size() == most_tensors)
        throw Error("__metadata__: more than " + std::to_string(most_tensors) + " entries");
      header.metadata.emplace_back(field_, std::move(value));
      return;
    }
    if (place_ != Place::entry || field_ != "dtype") unexpected("the text " + quote(value));
    const ElementType* type = find_element_type(value);
    if (type == nullptr) fail("unknown dtype " + quote(value) + hint(value));
    entry().header.type = *type;
  }

  void number(std::uint64_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) unexpected("the number " + std::to_string(value));
    const std::size_t most = place_ == Place::shape ? most_dimensions : 2;
    if (numbers_.size() == most)
      fail(field_ + " holds more than " + std::to_string(most) + (place_ == Place::shape ? " dimensions" : " numbers"));
    numbers_.push_back(value);
  }

  void other(std::string_view what) override { unexpected(std::string(what)); }

 private:
  enum class Place { outside, top, metadata, entry, shape, offsets };
  enum Field : unsigned { none = 0, dtype = 1, shape = 2, data_offsets = 4, all = 7 };

  SafetensorsEntry& entry() { return header.entries.back(); }

  [[noreturn]] void fail(const std::string& what) const { throw Error("tensor " + quote(name_) + ": " + what); }

  [[noreturn]] void unexpected(const std::string& what) const {
    switch (place_) {
      case Place::outside: throw Error("the header is " + what + "; an object { } is right");
      case Place::top: throw Error("key " + quote(name_) + ": " + what + " where an object { } is right");
      case Place::metadata: throw Error("__metadata__: " + what + " at key " + quote(field_) + "; only text is right");
      case Place::entry:
        fail(what + " for " + field_ + (field_ == "dtype" ? "; text such as \"F32\" is right" : "; an array is right"));
      default: fail(what + " in " + field_ + "; integers from 0 to 2^63 - 1 are right");
    }
  }

  static std::string hint(std::string_view value) {
    std::vector<std::string_view> names;
    for (const ElementType& type : element_types()) names.push_back(type.name);
    const std::string close = value.size() > 32 ? "" : did_you_mean(value, names);
    return close.empty() ? "; known are F32, F16, BF16, F8_E4M3, I32, ..." : "; did you mean " + close + "?";
  }

  void begin_metadata() {
    if (std::exchange(has_metadata_, true)) throw Error("the key '__metadata__' comes twice");
    place_ = Place::metadata;
  }

  void begin_entry() {
    if (header.entries.size() == most_tensors) throw Error("more than " + std::to_string(most_tensors) + " tensors");
    place_ = Place::entry;
    fields_ = 0;
    header.entries.emplace_back().header.name = name_;
  }

  void check_field() {
    const Field bit = field_ == "dtype"          ? dtype
                      : field_ == "shape"        ? shape
                      : field_ == "data_offsets" ? data_offsets
                                                 : none;
    if (bit == none) fail("unknown key " + quote(field_) + "; dtype, shape and data_offsets are right");
    if ((fields_ & bit) != 0) fail("the key " + quote(field_) + " comes twice");
    fields_ |= bit;
  }

  void end_entry() const {
    if (fields_ == all) return;
    fail(std::string("no ") + ((fields_ & dtype) == 0 ? "dtype" : (fields_ & shape) == 0 ? "shape" : "data_offsets"));
  }

  Place place_ = Place::outside;
  std::string name_, field_;
  std::vector<std::uint64_t> numbers_;
  unsigned fields_ = 0;
  bool has_metadata_ = false;
};

void check_unique(std::vector<std::string_view> names, const std::string& where) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw Error(where + "the key " + quote(*twice) + " comes twice");
}

std::vector<std::string_view> names_of(std::span<const std::pair<std::string, std::string>> metadata) {
  std::vector<std::string_view> names;
  for (const auto& [key, value] : metadata) names.push_back(key);
  return names;
}

void append_quoted(std::string& json, std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  if (!is_utf8(text)) throw Error("the name or text " + quote(text) + " is not UTF-8");
  json += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') json += {'\\', c};
    else if (byte < 0x20) json += {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
    else json += c;
  }
  json += '"';
}

void append_entry(std::string& json, const TensorHeader& header, std::uint64_t begin, std::uint64_t end) {
  append_quoted(json, header.name);
  json += ":{\"dtype\":\"" + std::string(header.type.name) + "\",\"shape\":[";
  for (std::size_t i = 0; i < header.shape.size(); ++i) json += (i == 0 ? "" : ",") + std::to_string(header.shape[i]);
  json += "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

}  // namespace

SafetensorsHeader parse_safetensors_json(std::string_view json, std::uint64_t first_byte) {
  HeaderEvents events;
  read_json(json, first_byte, events);
  std::vector<std::string_view> names;
  for (const SafetensorsEntry& entry : events.header.entries) names.push_back(entry.header.name);
  check_unique(std::move(names), "");
  check_unique(names_of(events.header.metadata), "__metadata__: ");
  return std::move(events.header);
}

std::string safetensors_header_text(std::span<const TensorHeader> headers,
                                    std::span<const std::pair<std::string, std::string>> metadata) {
  std::vector<std::string_view> names;
  for (const TensorHeader& header : headers) names.push_back(header.name);
  check_unique(std::move(names), "");
  check_unique(names_of(metadata), "__metadata__: ");
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":";
    for (std::size_t i = 0; i < metadata.size(); ++i) {
      json += i == 0 ? '{' : ',';
      append_quoted(json, metadata[i].first);
      json += ':';
      append_quoted(json, metadata[i].second);
    }
    json += '}';
  }
  std::uint64_t at = 0;
  for (const TensorHeader& header : headers) {
    if (header.name == "__metadata__") throw Error("a tensor cannot be called '__metadata__'");
    if (find_element_type(header.type.name) == nullptr)
      throw Error("tensor " + quote(header.name) + ": .safetensors has no type " + quote(header.type.name));
    const std::uint64_t begin = at;
    if (__builtin_add_overflow(at, header.bytes(), &at) || at > largest_number)
      throw Error("more data than 2^63 bytes");
    if (json.size() > 1) json += ',';
    append_entry(json, header, begin, at);
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > largest_safetensors_header)
    throw Error("a header of " + std::to_string(json.size()) + " bytes; at most " +
                std::to_string(largest_safetensors_header));
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(json.size() >> (8 * i) & 0xFF);
  return text + json;
}

}  // namespace narrow
