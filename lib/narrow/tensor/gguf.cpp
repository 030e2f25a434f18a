#include "narrow/tensor/gguf.hpp"

#include <array>
#include <cstring>
#include <set>

#include "narrow/array/parts.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/tensor/mapped_file.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

float half_at(const std::byte* p) {
  std::uint16_t code;
  std::memcpy(&code, p, 2);
  return static_cast<float>(decode(code, "fp16"_fmt));
}
unsigned byte_at(const std::byte* p) { return std::to_integer<unsigned>(*p); }
// Codes of four bits lie in halves: the low ones of all bytes are the first half of the block.
unsigned nibble(const std::byte* codes, int i) {
  return i < 16 ? byte_at(codes + i) & 15u : byte_at(codes + i - 16) >> 4;
}

// A row: one block of 32 values. Each value is exact in FP32 but for d*q + m, which is rounded once.
struct BlockType {
  std::uint32_t id;
  std::string_view name;
  std::size_t bytes;
  void (*values)(const std::byte* block, float* out);
};

template <class Value>
void each(float* out, const Value& value) {
  for (int i = 0; i < 32; ++i) out[i] = value(i);
}
void q8_0(const std::byte* b, float* out) {
  const float d = half_at(b);
  each(out, [&](int i) { return d * static_cast<float>(static_cast<std::int8_t>(byte_at(b + 2 + i))); });
}
void q4_0(const std::byte* b, float* out) {
  const float d = half_at(b);
  each(out, [&](int i) { return d * static_cast<float>(static_cast<int>(nibble(b + 2, i)) - 8); });
}
void q4_1(const std::byte* b, float* out) {
  const double d = half_at(b), m = half_at(b + 2);
  each(out, [&](int i) { return static_cast<float>(d * nibble(b + 4, i) + m); });
}
unsigned fifth_bit(const std::byte* high, int i) { return (byte_at(high + i / 8) >> (i % 8) & 1u) << 4; }
void q5_0(const std::byte* b, float* out) {
  const float d = half_at(b);
  each(out,
       [&](int i) { return d * static_cast<float>(static_cast<int>(nibble(b + 6, i) | fifth_bit(b + 2, i)) - 16); });
}
void q5_1(const std::byte* b, float* out) {
  const double d = half_at(b), m = half_at(b + 2);
  each(out, [&](int i) { return static_cast<float>(d * (nibble(b + 8, i) | fifth_bit(b + 4, i)) + m); });
}
void iq4_nl(const std::byte* b, float* out) {
  constexpr float values[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const float d = half_at(b);
  each(out, [&](int i) { return d * values[nibble(b + 2, i)]; });
}
void mxfp4(const std::byte* b, float* out) {
  const auto scale = static_cast<float>(decode(byte_at(b), "e8m0"_fmt));
  each(out, [&](int i) { return static_cast<float>(decode(nibble(b + 1, i), "e2m1"_fmt)) * scale; });
}

constexpr BlockType block_types[] = {{2, "q4_0", 18, q4_0},   {3, "q4_1", 20, q4_1}, {6, "q5_0", 22, q5_0},
                                     {7, "q5_1", 24, q5_1},   {8, "q8_0", 34, q8_0}, {20, "iq4_nl", 18, iq4_nl},
                                     {39, "mxfp4", 17, mxfp4}};
constexpr std::pair<std::uint32_t, std::string_view> plain_types[] = {
    {0, "F32"}, {1, "F16"}, {24, "I8"}, {25, "I16"}, {26, "I32"}, {27, "I64"}, {28, "F64"}, {30, "BF16"}};
// Block sizes are needed to see that data lies within the file; these are told by name and not read.
constexpr std::pair<std::uint32_t, std::string_view> other_types[] = {
    {10, "Q2_K"},    {11, "Q3_K"},   {12, "Q4_K"},    {13, "Q5_K"},  {14, "Q6_K"},  {15, "Q8_K"},
    {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},
    {23, "IQ4_XS"},  {29, "IQ1_M"},  {34, "TQ1_0"},   {35, "TQ2_0"}, {40, "NVFP4"}};

class Blocks : public ByteSource {
 public:
  Blocks(std::shared_ptr<const MappedFile> file, std::uint64_t begin, std::uint64_t values, const BlockType& type)
      : file_(std::move(file)), begin_(begin), values_(values), type_(type) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > 4 * values_ || out.size() > 4 * values_ - offset)
      throw Error("read beyond the end of a tensor in blocks");
    if (out.empty()) return;
    const std::uint64_t first = offset / 128, last = (offset + out.size() - 1) / 128;
    parallel_parts(
        static_cast<std::size_t>(last - first + 1), detail::part_size / 32, 0, [&](std::size_t from, std::size_t to) {
          std::vector<std::byte> blocks((to - from) * type_.bytes);
          file_->read(begin_ + (first + from) * type_.bytes, blocks);
          for (std::size_t k = from; k < to; ++k) {
            std::array<float, 32> values;
            type_.values(blocks.data() + (k - from) * type_.bytes, values.data());
            const std::uint64_t at = (first + k) * 128, begin = std::max(at, offset);
            const std::uint64_t end = std::min(at + 128, offset + out.size());
            std::memcpy(out.data() + (begin - offset), std::as_bytes(std::span(values)).data() + (begin - at),
                        static_cast<std::size_t>(end - begin));
          }
        });
  }
  void check() const override { file_->check(); }
  void forget() const override { file_->forget(); }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::uint64_t begin_, values_;
  const BlockType& type_;
};

// Numbers and words, one after the other; every length is checked against what is left of the file.
class Reader {
 public:
  explicit Reader(const MappedFile& file) : file_(file) {}
  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return file_.size() - at_; }

  template <class T>
  T number() {
    if (left() < sizeof(T))
      throw Error("byte " + std::to_string(at_) + ": the file ends within its header; it was cut");
    std::array<std::byte, sizeof(T)> bytes;
    file_.read(at_, bytes);
    at_ += sizeof(T);
    T x = 0;
    for (std::size_t i = sizeof(T); i-- > 0;)
      x = static_cast<T>(static_cast<std::uint64_t>(x) << 8 | byte_at(&bytes[i]));
    return x;
  }
  std::string text(std::uint64_t most) {
    const auto size = number<std::uint64_t>();
    if (size > most || size > left())
      throw Error("byte " + std::to_string(at_ - 8) + ": a text of " + std::to_string(size) + " bytes; " +
                  (size > left() ? "the file has not as many" : "at most " + std::to_string(most) + " are read"));
    std::string out(static_cast<std::size_t>(size), '\0');
    file_.read(at_, std::as_writable_bytes(std::span(out)));
    at_ += size;
    return out;
  }
  void skip(std::uint64_t bytes) {
    if (bytes > left()) throw Error("byte " + std::to_string(at_) + ": the file ends within its header; it was cut");
    at_ += bytes;
  }

 private:
  const MappedFile& file_;
  std::uint64_t at_ = 0;
};

constexpr int value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // of a key's value by type; 8: text, 9: array
constexpr std::uint32_t of_text = 8, of_array = 9;
constexpr std::uint64_t longest_value = std::uint64_t{1} << 24, most_keys = 1 << 16,
                        most_items = std::uint64_t{1} << 24;

// The value of a key as text where it is short, and "" where it is not worth showing.
std::string read_value(Reader& in, std::uint32_t type) {
  if (type == of_text) {
    std::string text = in.text(longest_value);
    return text.size() > 200 ? "" : text;
  }
  if (type == of_array) {
    const auto of = in.number<std::uint32_t>();
    const auto count = in.number<std::uint64_t>();
    if (of >= std::size(value_bytes) || of == of_array)
      throw Error("byte " + std::to_string(in.at() - 12) + ": an array of type " + std::to_string(of));
    if (count > most_items || count > in.left())
      throw Error("byte " + std::to_string(in.at() - 8) + ": an array of " + std::to_string(count) + " elements");
    if (of == of_text)
      for (std::uint64_t i = 0; i < count; ++i) (void)in.text(longest_value);
    else in.skip(count * static_cast<unsigned>(value_bytes[of]));
    return "";
  }
  switch (value_bytes[type]) {
    case 1: return type == 1 ? std::to_string(in.number<std::int8_t>()) : std::to_string(in.number<std::uint8_t>());
    case 2: return std::to_string(type == 3 ? in.number<std::int16_t>() : static_cast<int>(in.number<std::uint16_t>()));
    case 4: {
      const auto word = in.number<std::uint32_t>();
      return type == 6   ? std::to_string(std::bit_cast<float>(word))
             : type == 5 ? std::to_string(static_cast<std::int32_t>(word))
                         : std::to_string(word);
    }
    default: {
      const auto word = in.number<std::uint64_t>();
      return type == 12   ? std::to_string(std::bit_cast<double>(word))
             : type == 11 ? std::to_string(static_cast<std::int64_t>(word))
                          : std::to_string(word);
    }
  }
}

struct Entry {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

Entry read_entry(Reader& in) {
  Entry e;
  e.name = in.text(longest_name);
  const auto dimensions = in.number<std::uint32_t>();
  if (dimensions > 4)
    throw Error("tensor " + quote(e.name) + ": " + std::to_string(dimensions) + " dimensions; at most 4");
  for (std::uint32_t d = 0; d < dimensions; ++d)  // the fastest first in the file
    e.shape.insert(e.shape.begin(), in.number<std::uint64_t>());
  e.type = in.number<std::uint32_t>();
  e.offset = in.number<std::uint64_t>();
  return e;
}

template <class Rows>
std::string_view name_in(const Rows& rows, std::uint32_t id) {
  for (const auto& [known, name] : rows)
    if (known == id) return name;
  return "";
}

Tensor make(const std::shared_ptr<const MappedFile>& file, const Entry& e, std::uint64_t data) {
  const BlockType* blocks = nullptr;
  for (const BlockType& type : block_types)
    if (type.id == e.type) blocks = &type;
  const std::string_view plain = name_in(plain_types, e.type);
  if (blocks == nullptr && plain.empty()) {
    const std::string_view other = name_in(other_types, e.type);
    throw Error((other.empty() ? "type " + std::to_string(e.type) : std::string(other)) +
                " is not read; F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 IQ4_NL MXFP4 are");
  }
  const ElementType type = *find_element_type(blocks != nullptr ? "F32" : plain);
  const Size size = size_of(e.shape, type.bits);
  if (size.problem != nullptr) throw Error("shape " + shape_text(e.shape) + " " + size.problem);
  if (blocks != nullptr && !e.shape.empty() && e.shape.back() % 32 != 0)
    throw Error("rows of " + std::to_string(e.shape.back()) + ", no multiple of the 32 of " +
                std::string(blocks->name));
  if (blocks != nullptr && e.shape.empty()) throw Error("a single value of " + std::string(blocks->name));
  const std::uint64_t bytes = blocks != nullptr ? size.elements / 32 * blocks->bytes : size.bytes;
  if (e.offset > file->size() - data || bytes > file->size() - data - e.offset)
    throw Error("data end at " + std::to_string(e.offset) + " + " + std::to_string(bytes) + " of " +
                std::to_string(file->size() - data) + " bytes; the file was cut");
  Tensor tensor;
  tensor.name = e.name, tensor.type = type, tensor.shape = e.shape;
  const auto range = slice(file, data + e.offset, bytes);
  tensor.source = range;
  if (blocks == nullptr) return tensor;
  tensor.source = std::make_shared<Blocks>(file, data + e.offset, size.elements, *blocks);
  BlockParts parts{.layout = "gguf", .format_name = std::string(blocks->name), .format = {}, .codes = {}, .scales = {}};
  parts.format = {"int8"_fmt, "fp16"_fmt, 1, 32, ScaleRule::te_current};
  parts.name = e.name, parts.shape = e.shape;
  parts.codes.name = e.name, parts.codes.type = *find_element_type("U8"), parts.codes.shape = {bytes};
  parts.codes.source = range;
  parts.stored = {parts.codes};
  tensor.blocks = std::make_shared<const BlockParts>(std::move(parts));
  return tensor;
}

}  // namespace

TensorFile read_gguf(std::shared_ptr<const MappedFile> file) {
  Reader in(*file);
  in.skip(4);
  const auto version = in.number<std::uint32_t>();
  if (version != 2 && version != 3)
    throw Error("GGUF of version " + std::to_string(version) +
                (version > 0xFFFF ? ", or of a big-endian machine" : "") + "; 2 and 3 are read");
  const auto tensors = in.number<std::uint64_t>(), keys = in.number<std::uint64_t>();
  constexpr std::uint64_t least_entry = 24, least_key = 13;
  if (tensors > most_tensors || tensors > in.left() / least_entry)
    throw Error("byte 8: " + std::to_string(tensors) + " tensors, more than the file can have");
  if (keys > most_keys || keys > in.left() / least_key)
    throw Error("byte 16: " + std::to_string(keys) + " keys, more than the file can have");
  TensorFile result;
  result.path = file->path();
  result.kind = FileKind::gguf;
  std::uint64_t alignment = 32;
  std::set<std::string> seen;
  for (std::uint64_t k = 0; k < keys; ++k) {
    std::string key = in.text(longest_name);
    const auto type = in.number<std::uint32_t>();
    if (type >= std::size(value_bytes))
      throw Error("key " + quote(key) + ": type " + std::to_string(type) + " is unknown");
    if (!seen.insert(key).second) throw Error("key " + quote(key) + " comes twice");
    std::string value = read_value(in, type);
    if (key == "general.alignment") {
      alignment = type == 4 ? std::stoull(value) : 0;
      if (alignment < 8 || alignment > 65536 || (alignment & (alignment - 1)) != 0)
        throw Error("general.alignment " + quote(value) + "; a power of two from 8 to 65536 is right");
    }
    if (!value.empty()) result.metadata.emplace_back(std::move(key), std::move(value));
  }
  std::vector<Entry> entries;
  seen.clear();
  for (std::uint64_t t = 0; t < tensors; ++t) {
    entries.push_back(read_entry(in));
    if (!seen.insert(entries.back().name).second) throw Error("tensor " + quote(entries.back().name) + " comes twice");
  }
  const std::uint64_t data = (in.at() + alignment - 1) / alignment * alignment;
  if (data > file->size() && tensors != 0) throw Error("the file ends before its data; it was cut");
  for (const Entry& e : entries) {
    try {
      if (e.offset % alignment != 0)
        throw Error("data begin at " + std::to_string(e.offset) + ", no multiple of " + std::to_string(alignment));
      result.tensors.push_back(make(file, e, data));
    } catch (const Error& error) {
      result.unreadable.push_back({e.name, error.what()});
    }
  }
  return result;
}

}  // namespace narrow
