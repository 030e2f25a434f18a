// Is every element of a cast tensor the code or value that the scalar functions give, in the layout of the file?
#include <doctest/doctest.h>

#include "files.hpp"
#include "make_tensors.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/convert.hpp"
#include "narrow/tensor/cast_tensor.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/tensor/tensor.hpp"
#include "narrow/text/text.hpp"

using namespace test;
using narrow::Cast;
using narrow::CastResult;
using narrow::ElementType;
using narrow::Format;
using narrow::FormatCast;
using narrow::Tensor;

namespace {

// The result as a tensor again.
Tensor cast(const Tensor& tensor, const FormatCast& to, CastResult result = CastResult::codes,
            const narrow::TensorPass& pass = {}) {
  std::vector<std::byte> bytes;
  narrow::cast_tensor(
      tensor, to, result,
      [&](std::span<const std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); }, pass);
  const ElementType type = narrow::cast_type(tensor.type, tensor.elements(), to.format, result).type;
  CHECK(bytes.size() == narrow::TensorHeader{"", type, tensor.shape}.bytes());
  return narrow::make_tensor({"t", type, tensor.shape}, std::move(bytes));
}

std::vector<std::uint64_t> codes_of(const Tensor& tensor) {
  std::vector<std::uint64_t> codes(tensor.values());
  narrow::read_codes(tensor, 0, codes);
  return codes;
}

std::vector<std::byte> bytes_in(const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  tensor.source->read(0, bytes);
  return bytes;
}

}  // namespace

TEST_CASE("cast of a tensor: every type to every format as the scalar functions do") {
  std::vector<std::string> targets;
  for (const narrow::NamedFormat& row : narrow::format_table) targets.emplace_back(row.name);
  for (const char* more : {"e6m9", "e3m0f", "e5m20", "e9m30"}) targets.emplace_back(more);
  for (const ElementType& from : narrow::element_types()) {
    if (from.kind != narrow::ElementKind::floating) continue;
    std::vector<std::uint64_t> codes;
    for (std::size_t i = 0; i < 800; ++i) codes.push_back(narrow::random_bits(31, i) & from.format.code_mask());
    const Tensor tensor = tensor_of_codes(from, codes);
    const bool wide = from.format.width() == 64;
    for (const std::string& name : targets) {
      CAPTURE(from.name);
      CAPTURE(name);
      const Format f = narrow::require_format(name);
      const FormatCast to{f};
      const Tensor out = cast(tensor, to);
      const std::vector<std::uint64_t> got = codes_of(out);
      const int shift = name == "tf32" ? 13 : 0;
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const double x = narrow::decode(codes[i], from.format);
        const std::uint64_t code = wide ? narrow::encode(x, f) : narrow::encode(static_cast<float>(x), f);
        wrong += got[i] != code << shift ? 1 : 0;
      }
      CHECK(wrong == 0);

      const Tensor values = cast(tensor, to, CastResult::values);
      CHECK(values.type.name == (wide ? "F64" : "F32"));
      const std::vector<std::uint64_t> rounded = codes_of(values);
      wrong = 0;
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const double x = narrow::decode(codes[i], from.format);
        const std::uint64_t word = wide ? std::bit_cast<std::uint64_t>(narrow::round_to(x, f))
                                        : std::bit_cast<std::uint32_t>(narrow::round_to(static_cast<float>(x), f));
        wrong += rounded[i] != word ? 1 : 0;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("cast of a tensor: types that the file can name are named and others are integers") {
  const ElementType f32 = type_named("F32");
  const auto type = [&](const char* name, std::uint64_t elements = 8) {
    return narrow::cast_type(f32, elements, narrow::require_format(name), CastResult::codes);
  };
  CHECK(type("e4m3").type.name == "F8_E4M3");
  CHECK(type("bf16").type.name == "BF16");
  CHECK(type("tf32").type.name == "F32");
  CHECK(type("int8").type.name == "I8");
  CHECK(type("e8m0").type.name == "F8_E8M0");
  CHECK(type("e3m4").type.name == "U8");
  CHECK(!type("e3m4").names_format);
  CHECK(type("e6m9").type.name == "U16");
  CHECK(type("e8m12").type.name == "U32");
  CHECK(type("e2m1", 6).type.name == "F4");
  CHECK(type("e2m1", 7).type.name == "U8");
  CHECK(!type("e2m1", 7).names_format);
  CHECK(type("e3m2", 4).type.name == "F6_E3M2");
  CHECK(type("e3m2", 6).type.name == "U8");
}

TEST_CASE("cast of a tensor: FP32 to FP16 and back is exact for what FP16 holds") {
  const std::vector<float> values = mixed_floats(40000, 33);
  const Tensor halves = cast(tensor_of("F32", values), {narrow::operator""_fmt("fp16", 4)});
  const Tensor back = cast(halves, {narrow::operator""_fmt("fp32", 4)});
  const Tensor again = cast(back, {narrow::operator""_fmt("fp16", 4)});
  CHECK(bytes_in(again) == bytes_in(halves));
}

TEST_CASE("cast of a tensor: stochastic rounding draws by the index across pieces and for any threads") {
  std::vector<float> values(narrow::chunk_values + 1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0f + static_cast<float>(i % 1000) * 0x1p-10f;
  const Tensor tensor = tensor_of("F32", values);
  const FormatCast to{narrow::require_format("e4m3"), Cast{.rounding = narrow::Rounding::stochastic}};
  const Tensor one = cast(tensor, to, CastResult::codes, {.seed = 5, .threads = 1});
  CHECK(bytes_in(cast(tensor, to, CastResult::codes, {.seed = 5, .threads = 3})) == bytes_in(one));
  CHECK(bytes_in(cast(as_stream(tensor), to, CastResult::codes, {.seed = 5})) == bytes_in(one));
  CHECK(bytes_in(cast(tensor, to, CastResult::codes, {.seed = 6})) != bytes_in(one));
  const std::vector<std::uint64_t> codes = codes_of(one);
  for (const std::size_t i :
       {std::size_t{1}, std::size_t{999}, narrow::chunk_values - 1, narrow::chunk_values, values.size() - 1})
    CHECK(codes[i] == narrow::encode(values[i], to.format, to.cast, narrow::random_bits(5, i)));
}

TEST_CASE("cast of a tensor: a subnormal of the source counts as zero under flush_inputs") {
  const FormatCast to{narrow::require_format("fp32"), Cast{.subnormals = narrow::Subnormals::flush_inputs}};
  std::vector<std::uint64_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  const Format fp16 = narrow::require_format("fp16");
  const Tensor halves = tensor_of_codes(type_named("F16"), all);
  const std::vector<std::uint64_t> codes = codes_of(cast(halves, to)),
                                   values = codes_of(cast(halves, to, CastResult::values));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t expected = narrow::convert(i, fp16, to.format, to.cast);
    wrong += codes[i] != expected ? 1 : 0;
    if (!narrow::is_nan(i, fp16)) wrong += values[i] != expected ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(codes[1] == 0);
  CHECK(codes[0x8001] == 0x80000000);
}

TEST_CASE("cast of a tensor: order and byte order of the source do not matter") {
  const std::uint64_t rows = 33, cols = 65;
  const std::vector<float> values = mixed_floats(rows * cols, 34);
  const FormatCast to{narrow::require_format("e5m2")};
  const Tensor plain = tensor_of("F32", values, {rows, cols});
  const std::vector<std::byte> expected = bytes_in(cast(plain, to));
  CHECK(bytes_in(cast(as_fortran("F32", values, rows, cols), to)) == expected);
  CHECK(bytes_in(cast(as_big_endian(plain), to)) == expected);
  const auto copied = [](const Tensor& tensor) {
    std::vector<std::byte> bytes;
    narrow::copy_tensor(
        tensor, [&](std::span<const std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
    return bytes;
  };
  CHECK(copied(plain) == to_bytes(values));
  CHECK(copied(as_fortran("F32", values, rows, cols)) == to_bytes(values));
  CHECK(copied(as_big_endian(plain)) == to_bytes(values));
  CHECK(copied(as_stream(as_fortran("F32", values, rows, cols))) == to_bytes(values));
}

TEST_CASE("cast of a tensor: any piece of a tensor in the order of Fortran is what its indices say") {
  const std::vector<std::uint64_t> shape{3, 18, 1, 35};
  const std::size_t count = 3 * 18 * 35;
  for (const char* type : {"U8", "U16", "F32", "C64"}) {
    CAPTURE(type);
    const std::size_t size = static_cast<std::size_t>(type_named(type).bits) / 8;
    std::vector<std::uint8_t> fortran(count * size), expected(count * size);
    for (std::size_t i = 0; i < fortran.size(); ++i) fortran[i] = static_cast<std::uint8_t>(narrow::random_bits(36, i));
    for (std::size_t i = 0; i < count; ++i) {  // i = (i0 * 18 + i1) * 35 + i3
      const std::size_t at = i / (18 * 35) + 3 * (i / 35 % 18 + 18 * (i % 35));
      std::copy_n(fortran.begin() + static_cast<std::ptrdiff_t>(at * size), size,
                  expected.begin() + static_cast<std::ptrdiff_t>(i * size));
    }
    Tensor tensor = tensor_of(type, fortran, shape);
    tensor.column_major = true;
    const Tensor ordered = narrow::row_major(tensor);
    std::size_t wrong = 0;
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const std::uint64_t first = narrow::random_bits(37, i) % expected.size();
      const std::uint64_t most = i % 2 == 0 ? 100 : expected.size();
      std::vector<std::uint8_t> out(narrow::random_bits(38, i) % std::min(most, expected.size() - first) + 1);
      ordered.source->read(first, std::as_writable_bytes(std::span(out)));
      wrong += std::equal(out.begin(), out.end(), expected.begin() + static_cast<std::ptrdiff_t>(first)) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("cast of a tensor: complex tensors keep their type and have values only") {
  std::vector<float> values = mixed_floats(64, 35);
  const Tensor complex = tensor_of("C64", values, {32});
  const FormatCast to{narrow::require_format("e4m3")};
  const Tensor out = cast(complex, to, CastResult::values);
  CHECK(out.type.name == "C64");
  for (float& x : values) x = narrow::round_to(x, to.format);
  CHECK(bytes_in(out) == to_bytes(values));
  CHECK(error_of([&] { (void)cast(complex, to); }).find("C64") != std::string::npos);
  CHECK(error_of([&] { (void)cast(tensor_of<std::int32_t>("I32", {1}), to); }).find("I32") != std::string::npos);
}

TEST_CASE("cast of a tensor: indices of C order") {
  CHECK(narrow::indices_of(23, std::vector<std::uint64_t>{2, 3, 4}) == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(narrow::indices_of(0, std::vector<std::uint64_t>{}).empty());
}
