// Is every broken .safetensors file refused, before anything is allocated, with a line that says what and where?
#include <doctest/doctest.h>

#include "files.hpp"
#include "narrow/tensor/safetensors.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "support/scale.hpp"

using test::safetensors;

namespace {

struct BrokenFile {
  std::string name;
  std::string file;
  std::string message;  // a part of it
};

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":)" + entry(dtype, shape, offsets) + "}";
}
std::string two(const std::string& first, const std::string& second) {
  return R"({"a":)" + entry("U8", "[4]", first) + R"(,"b":)" + entry("U8", "[4]", second) + "}";
}

std::string deep(int levels) {
  return R"({"w":)" + std::string(static_cast<std::size_t>(levels), '[') +
         std::string(static_cast<std::size_t>(levels), ']') + "}";
}

const std::vector<BrokenFile>& broken_safetensors() {
  const std::string four(4, '\0'), eight(8, '\0');
  const std::string good = one("U8", "[4]", "[0,4]");
  static const std::vector<BrokenFile> all = {
      // The length of the header
      {"seven bytes", "\x01\x02\x03\x04\x05\x06\x07", "only 7 bytes"},
      {"no header", eight, "byte 8: the header does not begin with '{'"},
      {"length of one", safetensors("{"), "byte 8"},
      {"length beyond the file", test::little_endian(100, 8) + "{}",
       "byte 0: a header of 100 bytes, but only 2 follow"},
      {"length that wraps when 8 is added", test::little_endian(~0ull - 3, 8) + "{}      ",
       "18446744073709551612 bytes, but only 8 follow"},
      {"length 2^63", test::little_endian(1ull << 63, 8) + "{}", "byte 0: a header of 9223372036854775808 bytes"},
      {"length cut in the middle of the JSON", test::little_endian(5, 8) + good, "not JSON at byte 13"},
      // JSON
      {"first byte is a blank", safetensors(" {}"), "byte 8"},
      {"first byte is '['", safetensors("[]"), "byte 8"},
      {"byte order mark", safetensors("\xEF\xBB\xBF{}"), "byte 8"},
      {"syntax", safetensors(R"({"w":})"), "not JSON at byte 13"},
      {"no end", safetensors(R"({"w":{"dtype":"F32")"), "not JSON at byte"},
      {"something after the end", safetensors("{} x"), "not JSON at byte 11"},
      {"two objects", safetensors("{}{}"), "not JSON at byte 10"},
      {"padded with zero bytes", safetensors(good + four, four), "a zero byte at byte"},
      {"a second header after a zero byte", safetensors(std::string("{}\0{\"x\":1}", 10)), "a zero byte at byte 10"},
      {"comment", safetensors("{/* */}"), "not JSON"},
      {"trailing comma", safetensors(R"({"w":1,})"), "where an object"},
      {"invalid UTF-8 in a name", safetensors("{\"\xC3(\":" + entry("U8", "[0]", "[0,0]") + "}"),
       "not JSON at byte 11"},
      {"overlong UTF-8", safetensors("{\"\xC0\xAF\":1}"), "not JSON at byte 10"},
      {"half of a surrogate pair", safetensors(R"({"\ud800":{}})"), "not JSON"},
      {"raw control character in a name", safetensors("{\"a\nb\":{}}"), "not JSON"},
      {"nested too deep", safetensors(deep(100)), "where an object"},
      {"a million brackets", safetensors(R"({"w":{"shape":)" + std::string(1000000, '[')), "an array in shape"},
      {"name too long", safetensors("{\"" + std::string(5000, 'n') + "\":" + entry("U8", "[0]", "[0,0]") + "}"),
       "has 5000 bytes; at most 4096"},
      // Structure
      {"entry is a number", safetensors(R"({"w":1})"), "key 'w': the number 1 where an object { } is right"},
      {"entry is null", safetensors(R"({"w":null})"), "key 'w': null where"},
      {"entry is an array", safetensors(R"({"w":[]})"), "key 'w': an array where"},
      {"no dtype", safetensors(R"({"w":{"shape":[0],"data_offsets":[0,0]}})"), "tensor 'w': no dtype"},
      {"no shape", safetensors(R"({"w":{"dtype":"U8","data_offsets":[0,0]}})"), "tensor 'w': no shape"},
      {"no data_offsets", safetensors(R"({"w":{"dtype":"U8","shape":[0]}})"), "tensor 'w': no data_offsets"},
      {"empty entry", safetensors(R"({"w":{}})"), "tensor 'w': no dtype"},
      {"unknown key", safetensors(R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"order":"C"}})"),
       "unknown key 'order'"},
      {"duplicate tensor",
       safetensors(R"({"w":)" + entry("U8", "[0]", "[0,0]") + R"(,"w":)" + entry("U8", "[4]", "[0,4]") + "}", four),
       "the key 'w' comes twice"},
      {"duplicate tensor by escape",
       safetensors(R"({"w":)" + entry("U8", "[0]", "[0,0]") + R"(,"\u0077":)" + entry("U8", "[4]", "[0,4]") + "}",
                   four),
       "the key 'w' comes twice"},
      {"duplicate field", safetensors(R"({"w":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}})"),
       "the key 'dtype' comes twice"},
      {"duplicate metadata", safetensors(R"({"__metadata__":{"a":"1","a":"2"}})"),
       "__metadata__: the key 'a' comes twice"},
      {"two __metadata__", safetensors(R"({"__metadata__":{"a":"1"},"__metadata__":{"b":"2"}})"),
       "'__metadata__' comes twice"},
      {"metadata number", safetensors(R"({"__metadata__":{"a":1}})"), "__metadata__: the number 1 at key 'a'"},
      {"metadata object", safetensors(R"({"__metadata__":{"a":{}}})"), "__metadata__: an object at key 'a'"},
      {"metadata array", safetensors(R"({"__metadata__":["a"]})"), "key '__metadata__': an array"},
      {"dtype is a number", safetensors(R"({"w":{"dtype":3,"shape":[0],"data_offsets":[0,0]}})"),
       "the number 3 for dtype"},
      {"shape is a number", safetensors(R"({"w":{"dtype":"U8","shape":4,"data_offsets":[0,4]}})", four),
       "the number 4 for shape"},
      {"shape holds text", safetensors(one("U8", R"(["4"])", "[0,4]"), four), "the text '4' in shape"},
      {"shape holds an array", safetensors(one("U8", "[[4]]", "[0,4]"), four), "an array in shape"},
      {"shape holds null", safetensors(one("U8", "[null]", "[0,4]"), four), "null in shape"},
      {"three data_offsets", safetensors(one("U8", "[4]", "[0,4,8]"), four), "data_offsets holds more than 2 numbers"},
      {"one data_offset", safetensors(one("U8", "[4]", "[4]"), four), "data_offsets holds 1 numbers"},
      // Types
      {"unknown dtype", safetensors(one("F33", "[1]", "[0,4]"), four), "unknown dtype 'F33'"},
      {"dtype in lower case", safetensors(one("f32", "[1]", "[0,4]"), four), "did you mean F32?"},
      {"empty dtype", safetensors(one("", "[1]", "[0,4]"), four), "unknown dtype ''"},
      // Numbers
      {"negative dimension", safetensors(one("U8", "[-4]", "[0,4]"), four), "the number -4 in shape"},
      {"two negative dimensions", safetensors(one("U8", "[-2,-2]", "[0,4]"), four), "the number -2 in shape"},
      {"minus zero", safetensors(one("U8", "[-0]", "[0,0]")), "in shape"},
      {"fraction", safetensors(one("U8", "[4.0]", "[0,4]"), four), "the number '4.0' in shape"},
      {"exponent", safetensors(one("U8", "[4e0]", "[0,4]"), four), "the number '4e0' in shape"},
      {"dimension 2^63", safetensors(one("U8", "[9223372036854775808]", "[0,4]"), four), "2^63 or more"},
      {"dimension 2^64", safetensors(one("U8", "[18446744073709551616]", "[0,4]"), four),
       "'18446744073709551616' in shape"},
      {"a number of 100000 digits", safetensors(one("U8", "[" + std::string(100000, '9') + "]", "[0,4]"), four),
       "a number that is too large"},
      {"text of a million bytes that does not end", safetensors("{\"" + std::string(1000000, 'x')),
       "not JSON at byte 1000010"},
      {"negative offset", safetensors(one("U8", "[4]", "[-4,0]"), four), "the number -4 in data_offsets"},
      {"offset 2^64", safetensors(one("U8", "[4]", "[0,18446744073709551616]"), four), "in data_offsets"},
      // Shapes against offsets. A product that wraps to 0 once let readers skip the check of the offsets.
      {"product wraps to zero", safetensors(one("F32", "[4294967296,4294967296]", "[0,0]")),
       "[4294967296, 4294967296] of F32 is too large"},
      {"product wraps to four", safetensors(one("U8", "[4611686018427387905,4]", "[0,4]"), four), "is too large"},
      {"bits wrap", safetensors(one("F64", "[2305843009213693952]", "[0,0]")), "is too large"},
      {"overflow before a zero", safetensors(one("U8", "[4294967296,4294967296,0]", "[0,0]")), "is too large"},
      {"17 dimensions", safetensors(one("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), "x"),
       "more than 16 dimensions"},
      {"F4 that does not fill a byte", safetensors(one("F4", "[3]", "[0,2]"), "xx"), "does not fill whole bytes"},
      {"F6 that does not fill a byte", safetensors(one("F6_E2M3", "[5]", "[0,4]"), four), "does not fill whole bytes"},
      {"more bytes than the shape", safetensors(one("F32", "[1]", "[0,8]"), eight),
       "takes 4 bytes, data_offsets hold 8"},
      {"fewer bytes than the shape", safetensors(one("F32", "[3]", "[0,8]"), eight),
       "takes 12 bytes, data_offsets hold 8"},
      {"zero elements with bytes", safetensors(one("F32", "[0]", "[0,8]"), eight),
       "takes 0 bytes, data_offsets hold 8"},
      {"offsets the wrong way round", safetensors(one("U8", "[4]", "[4,0]"), four), "end at 0 before they begin at 4"},
      // Holes, overlaps, ends
      {"first tensor not at 0", safetensors(one("U8", "[4]", "[4,8]"), eight), "data begin at 4, a hole after 0"},
      {"hole", safetensors(two("[0,4]", "[5,9]"), eight + "x"), "tensor 'b': data begin at 5, a hole after 4"},
      {"overlap", safetensors(two("[0,4]", "[2,6]"), eight), "tensor 'b': data begin at 2, an overlap"},
      {"two tensors share their data", safetensors(two("[0,4]", "[0,4]"), four), "an overlap with what ends at 4"},
      {"cut data", safetensors(good, "abc"), "data end at 4, but the file holds only 3 bytes"},
      {"no data", safetensors(good), "data end at 4, but the file holds only 0 bytes"},
      {"a byte too many", safetensors(good, "abcde"), "1 bytes after the last tensor"},
      {"data without tensors", safetensors("{}", "x"), "1 bytes after the last tensor"},
      {"offset far beyond the file", safetensors(one("U8", "[1099511627776]", "[0,1099511627776]"), four),
       "but the file holds only 4 bytes"},
  };
  return all;
}

}  // namespace

TEST_CASE("tensor: every broken .safetensors is refused with one line that says what is wrong") {
  CHECK(broken_safetensors().size() >= 60);
  for (const BrokenFile& broken : broken_safetensors()) {
    CAPTURE(broken.name);
    const std::string message = test::error_of([&] { narrow::read_safetensors(test::in_memory(broken.file)); });
    CAPTURE(message);
    CHECK(test::is_one_line(message));
    CHECK(message.find(broken.message) != std::string::npos);
  }
}

TEST_CASE("tensor: a broken .safetensors on disk is refused with its name and without its data") {
  const test::Folder folder;
  for (const BrokenFile& broken : broken_safetensors()) {
    CAPTURE(broken.name);
    const std::string path = folder.write("broken.safetensors", broken.file);
    const std::string message = test::error_of([&] { narrow::open_tensor_file(path); });
    CHECK(message.starts_with("'" + path + "': "));
    CHECK(test::is_one_line(message));
  }
}

TEST_CASE("tensor: a .safetensors of the largest header allowed is read and a larger one is not") {
  // Metadata of the right length; the limit is checked before the JSON is looked at.
  const std::string most = R"({"__metadata__":{"a":")";
  const std::uint64_t limit = std::uint64_t{1} << 26;
  std::string json = most + std::string(limit - most.size() - 3, 'x') + "\"}}";
  REQUIRE(json.size() == limit);
  CHECK(narrow::read_safetensors(test::in_memory(safetensors(json))).metadata.size() == 1);
  json += ' ';
  CHECK(test::error_of([&] {
          narrow::read_safetensors(test::in_memory(safetensors(json)));
        }).find("at most 67108864 are read") != std::string::npos);
}

TEST_CASE("tensor: no more tensors than the limit are read") {
  if (test::scale() < 1) return;
  std::string json = "{";
  for (int i = 0; i <= 1 << 20; ++i)
    json += "\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
  json.back() = '}';
  CHECK(test::error_of([&] { narrow::read_safetensors(test::in_memory(safetensors(json))); }) ==
        "more than 1048576 tensors");
}

TEST_CASE("tensor: every cut of a good .safetensors is refused") {
  const std::string good = safetensors(two("[0,4]", "[4,8]"), "abcdefgh");
  CHECK(narrow::read_safetensors(test::in_memory(good)).tensors.size() == 2);
  for (std::size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    const std::string cut = good.substr(0, size);
    CHECK_THROWS_AS(narrow::read_safetensors(test::in_memory(cut)), narrow::Error);
  }
}

TEST_CASE("tensor: what the reference accepts is read") {
  const auto tensors = [](const std::string& json, const std::string& data = "") {
    return narrow::read_safetensors(test::in_memory(safetensors(json, data))).tensors;
  };
  CHECK(tensors("{}").empty());
  CHECK(tensors("{}      ").empty());
  CHECK(tensors(one("F32", "[]", "[0,4]"), "abcd")[0].elements() == 1);  // a scalar
  CHECK(tensors(one("F32", "[3,0,5]", "[0,0]"))[0].elements() == 0);
  CHECK(tensors(one("F32", "[0,4294967296,4294967296]", "[0,0]"))[0].elements() == 0);
  CHECK(tensors(one("F4", "[2]", "[0,1]"), "x")[0].elements() == 2);
  // Order of the data, not of the text; an empty tensor between two others takes no place.
  const auto sorted = tensors(R"({"b":)" + entry("U8", "[4]", "[4,8]") + R"(,"e":)" + entry("U8", "[0]", "[4,4]") +
                                  R"(,"a":)" + entry("U8", "[4]", "[0,4]") + "}",
                              "abcdefgh");
  REQUIRE(sorted.size() == 3);
  CHECK(sorted[0].name == "a");
  CHECK(sorted[1].name == "e");
  CHECK(sorted[2].name == "b");
  CHECK(tensors("{\"\xC3\xA4\":" + entry("U8", "[0]", "[0,0]") + "}")[0].name == "\xC3\xA4");
}
