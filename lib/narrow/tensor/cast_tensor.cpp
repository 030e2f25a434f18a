#include "narrow/tensor/cast_tensor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "narrow/array/array.hpp"
#include "narrow/array/pack.hpp"
#include "narrow/array/parts.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/seed_at.hpp"
#include "narrow/tensor/tensor.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {
namespace {

// The words of memory as the file holds them. Files are little endian; so is every machine that narrow runs on.
static_assert(std::endian::native == std::endian::little);
template <class T>
std::span<const std::byte> bytes_of(std::span<const T> words) {
  return std::as_bytes(words);
}

// Codes of one piece on their way out: packed where a type has fewer than eight bits, tf32 moved to the top of its
// word.
template <class U>
void write_codes(std::span<U> codes, const Format& f, const ElementType& type, const WriteBytes& write, int threads) {
  if constexpr (sizeof(U) == 1) {
    if (type.bits < 8) {
      std::vector<std::uint8_t> packed(packed_size(codes.size(), type.bits));
      const auto bits = static_cast<std::size_t>(type.bits);
      parallel_parts(codes.size(), detail::part_size, threads, [&](std::size_t begin, std::size_t end) {
        pack_codes(codes.subspan(begin, end - begin), type.bits,
                   std::span(packed).subspan(begin / 8 * bits, packed_size(end - begin, type.bits)));
      });
      return write(bytes_of<std::uint8_t>(packed));
    }
  }
  const int shift = type.has_format() && type.bits > f.width() ? type.bits - f.width() : 0;
  if (shift != 0)
    for (U& code : codes) code = static_cast<U>(code << shift);
  write(bytes_of<U>(codes));
}

struct Job {
  const Tensor& tensor;  // in C order
  FormatCast to;
  const WriteAt& write;
  const TensorPass& pass;
  ElementType type;  // of the result
};

// A source that is subnormal in its own format counts as zero under flush_inputs: only the code tells.
bool needs_source_codes(const Job& job) {
  const Format& from = job.tensor.type.format;
  return job.to.cast.subnormals == Subnormals::flush_inputs && from != "fp32"_fmt && from != "fp64"_fmt;
}

template <class U>
void cast_to_codes(const Job& job) {
  const Format& f = job.to.format;
  ValueReader reader(job.tensor, job.pass.threads);
  const bool narrow_source = fits_float(job.tensor), from_codes = needs_source_codes(job);
  std::vector<U> codes;
  std::vector<std::uint64_t> source;
  const auto cast = [&](std::uint64_t first, std::size_t count) {
    codes.resize(count);
    const std::span<U> out(codes);
    const std::uint64_t seed = seed_at(job.pass.seed, first);
    if (from_codes) {
      source.resize(count);
      const Window window = load_window(job.tensor, first, count);
      read_codes(window.tensor, window.first, source);
      convert_array<std::uint64_t, U>(source, job.tensor.type.format, out, f, job.to.cast, seed, job.pass.threads);
    } else if (narrow_source) {
      encode_array(reader.floats(first, count), f, job.to.cast, out, seed, job.pass.threads);
    } else {
      encode_array(reader.doubles(first, count), f, job.to.cast, out, seed, job.pass.threads);
    }
    const std::uint64_t at = bytes_of_values({"", job.type, {}}, first);
    write_codes(
        out, f, job.type, [&](std::span<const std::byte> bytes) { job.write(at, bytes); }, job.pass.threads);
    return Nothing();
  };
  fold_chunks(job.tensor, job.pass.done, job.pass.log, cast, [](Nothing) {});
}

template <class T>
void cast_to_values(const Job& job) {
  const Format& f = job.to.format;
  ValueReader reader(job.tensor, job.pass.threads);
  std::vector<T> values;
  const auto cast = [&](std::uint64_t first, std::size_t count) {
    values.resize(count);
    std::span<const T> in;
    if constexpr (sizeof(T) == 4) in = reader.floats(first, count);
    else in = reader.doubles(first, count);
    if (needs_source_codes(job)) {
      std::vector<std::uint64_t> codes(count);
      const Window window = load_window(job.tensor, first, count);
      read_codes(window.tensor, window.first, std::span(codes));
      std::copy(in.begin(), in.end(), values.begin());
      for (std::size_t i = 0; i < count; ++i)
        if (classify(codes[i], job.tensor.type.format) == ValueClass::subnormal)
          values[i] = std::copysign(T{0}, values[i]);
      in = values;
    }
    round_array(in, values, f, job.to.cast, seed_at(job.pass.seed, first), job.pass.threads);
    job.write(first * sizeof(T), bytes_of<T>(values));
    return Nothing();
  };
  fold_chunks(job.tensor, job.pass.done, job.pass.log, cast, [](Nothing) {});
}

// Pieces come in order where nobody shares them.
WriteAt in_order(const WriteBytes& write) {
  return [&write](std::uint64_t, std::span<const std::byte> bytes) { write(bytes); };
}

void cast_codes(const Job& job) {
  const int width = job.to.format.width();
  if (width <= 8) cast_to_codes<std::uint8_t>(job);
  else if (width <= 16) cast_to_codes<std::uint16_t>(job);
  else if (width <= 32) cast_to_codes<std::uint32_t>(job);
  else cast_to_codes<std::uint64_t>(job);
}

}  // namespace

ResultType cast_type(const ElementType& from, std::uint64_t elements, const Format& to, CastResult result) {
  if (result == CastResult::codes) return type_of_codes(to, elements);
  if (from.kind == ElementKind::complex) return {from};
  return {*find_element_type(fits_float({"", from, {}}) ? "F32" : "F64")};
}

void cast_tensor(const Tensor& tensor, const FormatCast& to, CastResult result, const WriteBytes& write,
                 const TensorPass& pass) {
  cast_tensor(tensor, to, result, in_order(write), pass);
}

void cast_tensor(const Tensor& tensor, const FormatCast& to, CastResult result, const WriteAt& write,
                 const TensorPass& pass) {
  if (!tensor.type.has_format())
    throw Error("tensor " + quote(tensor.name) + " holds " + std::string(tensor.type.name) +
                ": a cast needs a floating type, or the format of the codes");
  if (tensor.type.kind == ElementKind::complex && result == CastResult::codes)
    throw Error("tensor " + quote(tensor.name) + " holds " + std::string(tensor.type.name) +
                ": no complex type has codes of another format; rounded values are possible");
  const Tensor ordered = row_major(tensor);
  const Job job{ordered, to, write, pass, cast_type(tensor.type, tensor.elements(), to.format, result).type};
  if (result == CastResult::codes) cast_codes(job);
  else if (fits_float(tensor)) cast_to_values<float>(job);
  else cast_to_values<double>(job);
}

void copy_tensor(const Tensor& tensor, const WriteBytes& write, const TensorPass& pass) {
  copy_tensor(tensor, in_order(write), pass);
}

void copy_tensor(const Tensor& tensor, const WriteAt& write, const TensorPass& pass) {
  const Tensor ordered = row_major(tensor);
  const auto copy = [&](std::uint64_t first, std::size_t count) {
    const Window window = load_window(ordered, first, count);
    const std::uint64_t at = bytes_of_values(ordered, first);
    if (!ordered.big_endian) return write(at, window.bytes()), Nothing();
    // Each value of a complex element is turned by itself.
    const auto size = static_cast<std::size_t>(ordered.type.bits / ordered.type.values() / 8);
    const std::span<const std::byte> from = window.bytes();
    std::vector<std::byte> turned(from.begin(), from.end());
    for (std::size_t i = 0; i + size <= turned.size(); i += size)
      std::reverse(turned.begin() + static_cast<std::ptrdiff_t>(i),
                   turned.begin() + static_cast<std::ptrdiff_t>(i + size));
    write(at, turned);
    return Nothing();
  };
  fold_chunks(ordered, pass.done, pass.log, copy, [](Nothing) {});
}

}  // namespace narrow
