// Reads elements of a tensor as codes and as values, a piece at a time through a small buffer.
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "narrow/array/array.hpp"
#include "narrow/array/pack.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/tensor.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

constexpr std::size_t piece_bytes = 16384;  // stays in the first cache together with what is made of it

constexpr Format fp64 = "fp64"_fmt, fp32 = "fp32"_fmt, tf32 = "tf32"_fmt;

[[noreturn]] void fail(const Tensor& tensor, const std::string& what) {
  throw Error("tensor " + quote(tensor.name) + ": " + what);
}

int value_bits(const ElementType& type) { return type.bits / type.values(); }

void check_range(const Tensor& tensor, std::uint64_t first, std::size_t count) {
  const std::uint64_t all = tensor.values();
  if (first > all || count > all - first)
    fail(tensor,
         std::to_string(count) + " values from " + std::to_string(first) + " on, but it has " + std::to_string(all));
  if (count == 0) return;
  if (tensor.source == nullptr) fail(tensor, "it has no data");
  // A source that is not mapped checks what it reads itself.
  const std::size_t there = tensor.source->mapped().size();
  if (there != 0 && there < tensor.bytes())
    fail(tensor, "its shape takes " + std::to_string(tensor.bytes()) + " bytes, but it has " + std::to_string(there));
}

template <class T>
T swapped(T value) {
  if constexpr (sizeof(T) == 2) return std::bit_cast<T>(__builtin_bswap16(std::bit_cast<std::uint16_t>(value)));
  else if constexpr (sizeof(T) == 4) return std::bit_cast<T>(__builtin_bswap32(std::bit_cast<std::uint32_t>(value)));
  else if constexpr (sizeof(T) == 8) return std::bit_cast<T>(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)));
  else return value;
}

// The bytes must have been checked (ByteSource::check), which costs a system call: once a request, not once a piece.
void read_bytes(const Tensor& tensor, std::uint64_t offset, std::span<std::byte> out) {
  const std::span<const std::byte> mapped = tensor.source->mapped();
  if (mapped.empty()) return tensor.source->read(offset, out);
  std::memcpy(out.data(), mapped.subspan(offset, out.size()).data(), out.size());
}

// Words (integers, float, double) in the byte order of the machine.
template <class Word>
void read_words(const Tensor& tensor, std::uint64_t first, std::span<Word> out) {
  read_bytes(tensor, first * sizeof(Word), std::as_writable_bytes(out));
  if (tensor.big_endian != (std::endian::native == std::endian::big))
    for (Word& word : out) word = swapped(word);
}

// One piece of words after the other as use(words, index of the first in the request).
template <class Word, class Use>
void for_pieces(const Tensor& tensor, std::uint64_t first, std::size_t count, const Use& use) {
  std::array<Word, piece_bytes / sizeof(Word)> buffer;
  for (std::size_t done = 0; done < count;) {
    const std::span<Word> piece = std::span(buffer).first(std::min(buffer.size(), count - done));
    read_words(tensor, first + done, piece);
    use(piece, done);
    done += piece.size();
  }
}

// Sub-byte codes: whole groups of eight, because eight codes fill whole bytes.
template <class Code>
void read_packed(const Tensor& tensor, std::uint64_t first, std::span<Code> out) {
  const int bits = tensor.type.bits;
  std::array<std::uint8_t, 4096> codes;
  std::array<std::uint8_t, 4096> packed;
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t begin = (first + done) / 8 * 8;
    const std::uint64_t end =
        std::min<std::uint64_t>(tensor.values(), std::min<std::uint64_t>(begin + codes.size(), first + out.size()));
    const auto count = static_cast<std::size_t>(end - begin);
    const std::span<std::uint8_t> bytes = std::span(packed).first(packed_size(count, bits));
    read_bytes(tensor, begin / 8 * static_cast<std::uint64_t>(bits), std::as_writable_bytes(bytes));
    unpack_codes(bytes, bits, std::span(codes).first(count));
    const auto skip = static_cast<std::size_t>(first + done - begin);
    std::copy(codes.begin() + static_cast<std::ptrdiff_t>(skip), codes.begin() + static_cast<std::ptrdiff_t>(count),
              out.begin() + static_cast<std::ptrdiff_t>(done));
    done += count - skip;
  }
}

// Words that are codes of a narrower format: tf32 is the upper 19 bits of 32; others are the low bits, and a word with
// bits above is no code (two codes a byte, for example, are not read as one).
template <class Word, class Code>
void to_codes(const Tensor& tensor, std::span<const Word> words, std::uint64_t first, std::span<Code> out) {
  const ElementType& type = tensor.type;
  const int width = type.has_format() ? type.format.width() : value_bits(type);
  const int word_bits = 8 * static_cast<int>(sizeof(Word));
  const int shift = width < word_bits && type.format == tf32 ? word_bits - width : 0;
  const auto above = static_cast<Word>(shift != 0 || width >= word_bits ? 0 : ~low_mask(width));
  for (std::size_t i = 0; i < words.size(); ++i) {
    if ((words[i] & above) != 0)
      fail(tensor, "element " + std::to_string(first + i) + " is " + std::to_string(words[i]) + ", no code of " +
                       std::to_string(width) + " bits; one code an element is read, in the low bits");
    out[i] = static_cast<Code>(words[i] >> shift);
  }
}

template <class Word, class Code>
void read_codes_of(const Tensor& tensor, std::uint64_t first, std::span<Code> out) {
  const bool whole = !tensor.type.has_format() || tensor.type.format.width() == 8 * static_cast<int>(sizeof(Word));
  if constexpr (sizeof(Code) == sizeof(Word)) {
    if (whole) return read_words(tensor, first, out);
  }
  const int width = tensor.type.has_format() ? tensor.type.format.width() : 8 * static_cast<int>(sizeof(Word));
  if (width > 8 * static_cast<int>(sizeof(Code)))
    fail(tensor,
         "codes of " + std::to_string(width) + " bits do not fit elements of " + std::to_string(8 * sizeof(Code)));
  for_pieces<Word>(tensor, first, out.size(), [&](std::span<const Word> words, std::size_t done) {
    to_codes(tensor, words, first + done, out.subspan(done, words.size()));
  });
}

template <class Code>
void read_checked(const Tensor& tensor, std::uint64_t first, std::span<Code> out) {
  switch (value_bits(tensor.type)) {
    case 8: return read_codes_of<std::uint8_t>(tensor, first, out);
    case 16: return read_codes_of<std::uint16_t>(tensor, first, out);
    case 32: return read_codes_of<std::uint32_t>(tensor, first, out);
    case 64: return read_codes_of<std::uint64_t>(tensor, first, out);
    default: return read_packed(tensor, first, out);
  }
}

template <class Code>
void read_codes_any(const Tensor& tensor, std::uint64_t first, std::span<Code> out) {
  check_range(tensor, first, out.size());
  if (out.empty()) return;
  tensor.source->check();
  read_checked(tensor, first, out);
}

// Codes to values through a buffer of the smallest code type.
template <class Code, class T>
void decode_pieces(const Tensor& tensor, std::uint64_t first, std::span<T> out) {
  const std::span<const std::byte> mapped = tensor.source->mapped();
  const bool as_they_lie = !mapped.empty() && tensor.type.format.width() == 8 * static_cast<int>(sizeof(Code)) &&
                           value_bits(tensor.type) == 8 * static_cast<int>(sizeof(Code)) &&
                           tensor.big_endian == (std::endian::native == std::endian::big) &&
                           reinterpret_cast<std::uintptr_t>(mapped.data()) % alignof(Code) == 0;
  if (as_they_lie)
    return decode_array(std::span(reinterpret_cast<const Code*>(mapped.data()) + first, out.size()), tensor.type.format,
                        out, 1);
  std::array<Code, piece_bytes / sizeof(Code)> buffer;
  for (std::size_t done = 0; done < out.size();) {
    const std::span<Code> codes = std::span(buffer).first(std::min(buffer.size(), out.size() - done));
    read_checked(tensor, first + done, codes);
    // One thread: whoever wants more calls this from each of them.
    decode_array(std::span<const Code>(codes), tensor.type.format, out.subspan(done, codes.size()), 1);
    done += codes.size();
  }
}

template <class T>
void read_floating(const Tensor& tensor, std::uint64_t first, std::span<T> out) {
  const ElementType& type = tensor.type;
  const int width = type.format.width();
  if (type.format == fp32 || type.format == fp64) {
    if (width == 8 * static_cast<int>(sizeof(T))) return read_words(tensor, first, out);
    using Other = std::conditional_t<sizeof(T) == 4, double, float>;
    return for_pieces<Other>(tensor, first, out.size(), [&](std::span<const Other> values, std::size_t done) {
      for (std::size_t i = 0; i < values.size(); ++i) out[done + i] = static_cast<T>(values[i]);
    });
  }
  if (width <= 8) return decode_pieces<std::uint8_t>(tensor, first, out);
  if (width <= 16) return decode_pieces<std::uint16_t>(tensor, first, out);
  if (width <= 32) return decode_pieces<std::uint32_t>(tensor, first, out);
  return decode_pieces<std::uint64_t>(tensor, first, out);
}

template <class Word, class T>
void read_integers(const Tensor& tensor, std::uint64_t first, std::span<T> out) {
  for_pieces<Word>(tensor, first, out.size(), [&](std::span<const Word> words, std::size_t done) {
    switch (tensor.type.kind) {
      case ElementKind::boolean:
        for (std::size_t i = 0; i < words.size(); ++i) out[done + i] = words[i] != 0 ? T{1} : T{0};
        break;
      case ElementKind::signed_integer:
        for (std::size_t i = 0; i < words.size(); ++i)
          out[done + i] = static_cast<T>(static_cast<std::make_signed_t<Word>>(words[i]));
        break;
      default:
        for (std::size_t i = 0; i < words.size(); ++i) out[done + i] = static_cast<T>(words[i]);
    }
  });
}

template <class T>
void read_values_any(const Tensor& tensor, std::uint64_t first, std::span<T> out) {
  check_range(tensor, first, out.size());
  if (out.empty()) return;
  tensor.source->check();
  const DefaultFloats guard;
  if (tensor.type.has_format()) return read_floating(tensor, first, out);
  if (tensor.type.kind == ElementKind::opaque)
    fail(tensor, "the type " + std::string(tensor.type.name) + " does not say what its numbers are; name their format");
  switch (tensor.type.bits) {
    case 8: return read_integers<std::uint8_t>(tensor, first, out);
    case 16: return read_integers<std::uint16_t>(tensor, first, out);
    case 32: return read_integers<std::uint32_t>(tensor, first, out);
    default: return read_integers<std::uint64_t>(tensor, first, out);
  }
}

}  // namespace

void read_codes(const Tensor& t, std::uint64_t first, std::span<std::uint8_t> out) { read_codes_any(t, first, out); }
void read_codes(const Tensor& t, std::uint64_t first, std::span<std::uint16_t> out) { read_codes_any(t, first, out); }
void read_codes(const Tensor& t, std::uint64_t first, std::span<std::uint32_t> out) { read_codes_any(t, first, out); }
void read_codes(const Tensor& t, std::uint64_t first, std::span<std::uint64_t> out) { read_codes_any(t, first, out); }

void read_values(const Tensor& t, std::uint64_t first, std::span<float> out) { read_values_any(t, first, out); }
void read_values(const Tensor& t, std::uint64_t first, std::span<double> out) { read_values_any(t, first, out); }

std::span<const float> view_values(const Tensor& tensor, std::uint64_t first, std::size_t count,
                                   std::vector<float>& scratch) {
  check_range(tensor, first, count);
  const bool plain = tensor.type.has_format() && tensor.type.format == fp32 && !tensor.big_endian &&
                     std::endian::native == std::endian::little;
  if (plain && count > 0) {
    const std::span<const std::byte> bytes = tensor.source->mapped();
    if (!bytes.empty() && reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0) {
      tensor.source->check();
      return {reinterpret_cast<const float*>(bytes.data()) + first, count};
    }
  }
  scratch.resize(count);
  read_values(tensor, first, std::span(scratch));
  return std::span<const float>(scratch).first(count);
}

}  // namespace narrow
