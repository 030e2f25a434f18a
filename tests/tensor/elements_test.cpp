// Do elements of every type come out as the codes and values that their bytes stand for?
#include <doctest/doctest.h>

#include <bit>
#include <cstring>

#include "files.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/npy.hpp"
#include "narrow/tensor/safetensors.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "support/float_environments.hpp"
#include "support/inputs.hpp"

using namespace narrow;

namespace {

// Value i of little-endian data whose values have `bits` bits: bit b of it is bit i * bits + b of the whole.
std::uint64_t code_at(const std::string& data, std::uint64_t i, int bits) {
  std::uint64_t code = 0;
  for (std::uint64_t b = 0; b < static_cast<std::uint64_t>(bits); ++b) {
    const std::uint64_t at = i * static_cast<std::uint64_t>(bits) + b;
    code |= std::uint64_t{static_cast<unsigned char>(data[at / 8]) >> (at % 8) & 1u} << b;
  }
  return code;
}

double value_of(const ElementType& type, std::uint64_t code) {
  switch (type.kind) {
    case ElementKind::boolean: return code != 0 ? 1 : 0;
    case ElementKind::unsigned_integer: return static_cast<double>(code);
    case ElementKind::signed_integer:
      return static_cast<double>(static_cast<std::int64_t>(code << (64 - type.bits)) >> (64 - type.bits));
    default: return decode(code, type.format);
  }
}

template <class T>
bool same(T a, T b) {
  return (a != a && b != b) || std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Rounding once, from the integer and not from its double: 64-bit integers have more digits than double.
float float_of(const ElementType& type, std::uint64_t code) {
  if (type.kind == ElementKind::unsigned_integer) return static_cast<float>(code);
  if (type.kind == ElementKind::signed_integer)
    return static_cast<float>(static_cast<std::int64_t>(code << (64 - type.bits)) >> (64 - type.bits));
  return static_cast<float>(value_of(type, code));
}

template <class Code>
void check_codes(const Tensor& tensor, const std::string& data, std::uint64_t first, std::size_t count) {
  const int bits = tensor.type.bits / tensor.type.values();
  if (bits > 8 * static_cast<int>(sizeof(Code))) {
    std::vector<Code> out(1);
    CHECK_THROWS_AS(read_codes(tensor, 0, std::span(out)), Error);
    return;
  }
  std::vector<Code> codes(count);
  read_codes(tensor, first, std::span(codes));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += codes[i] != code_at(data, first + i, bits);
  CHECK(wrong == 0);
}

void check_all(const Tensor& tensor, const std::string& data, std::uint64_t first, std::size_t count) {
  const int bits = tensor.type.bits / tensor.type.values();
  check_codes<std::uint8_t>(tensor, data, first, count);
  check_codes<std::uint16_t>(tensor, data, first, count);
  check_codes<std::uint32_t>(tensor, data, first, count);
  check_codes<std::uint64_t>(tensor, data, first, count);
  std::vector<float> floats(count), scratch;
  std::vector<double> doubles(count);
  read_values(tensor, first, std::span(floats));
  read_values(tensor, first, std::span(doubles));
  const std::span<const float> view = view_values(tensor, first, count, scratch);
  REQUIRE(view.size() == count);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t code = code_at(data, first + i, bits);
    wrong += !same(doubles[i], value_of(tensor.type, code)) || !same(floats[i], float_of(tensor.type, code)) ||
             !same(view[i], floats[i]);
  }
  CHECK(wrong == 0);
}

constexpr std::uint64_t elements = 20000;  // more than one piece of the reader for every type

}  // namespace

TEST_CASE("tensor: every type of .safetensors gives its codes and values at any place and alignment") {
  for (const ElementType& type : element_types())
    for (const std::size_t odd : {0, 1, 3}) {
      CAPTURE(std::string(type.name));
      const std::string data =
          test::random_bytes(elements * static_cast<std::size_t>(type.bits) / 8, static_cast<std::size_t>(type.bits) + odd);
      const std::string end = std::to_string(odd + data.size());
      // An odd number of bytes in front puts the tensor at an odd address.
      const std::string json = R"({"odd":{"dtype":"U8","shape":[)" + std::to_string(odd) + R"(],"data_offsets":[0,)" +
                               std::to_string(odd) + R"(]},"w":{"dtype":")" + std::string(type.name) +
                               R"(","shape":[200,100],"data_offsets":[)" + std::to_string(odd) + "," + end + "]}}";
      const TensorFile file = read_safetensors(test::in_memory(test::safetensors(json, std::string(odd, 'x') + data)));
      const Tensor* tensor = file.find("w");
      REQUIRE(tensor != nullptr);
      CHECK(tensor->type.name == type.name);
      CHECK(tensor->elements() == elements);
      CHECK(tensor->bytes() == data.size());
      CHECK(file.find("none") == nullptr);
      const std::uint64_t values = tensor->values();
      check_all(*tensor, data, 0, values);
      for (const std::uint64_t first : {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{4093}, values - 1})
        check_all(*tensor, data, first, std::min<std::uint64_t>(5, values - first));
      check_all(*tensor, data, values, 0);
      std::vector<float> out(2);
      CHECK_THROWS_AS(read_values(*tensor, values - 1, std::span(out)), Error);
      CHECK_THROWS_AS(read_values(*tensor, ~std::uint64_t{0}, std::span(out)), Error);
    }
}

TEST_CASE("tensor: big-endian .npy gives the same values as little-endian and one byte has no order") {
  for (const char* descr : {"f2", "f4", "f8", "c8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}) {
    CAPTURE(std::string(descr));
    const std::size_t bytes = static_cast<std::size_t>(descr[1] - '0'), word = descr[0] == 'c' ? bytes / 2 : bytes;
    const std::string little = test::random_bytes(bytes * 30, bytes);
    std::string big = little;
    for (std::size_t i = 0; i < big.size(); i += word)
      std::reverse(big.begin() + static_cast<std::ptrdiff_t>(i), big.begin() + static_cast<std::ptrdiff_t>(i + word));
    const Tensor a = read_npy(test::in_memory(test::npy_of(std::string("<") + descr, "(5, 6)", little))).tensors[0];
    const Tensor b = read_npy(test::in_memory(test::npy_of(std::string(">") + descr, "(5, 6)", big, true))).tensors[0];
    CHECK(!a.column_major);
    CHECK(b.column_major);
    CHECK(a.shape == std::vector<std::uint64_t>{5, 6});
    check_all(a, little, 0, a.values());
    check_all(b, little, 0, b.values());
    check_all(b, little, 3, 7);
  }
}

TEST_CASE("tensor: .npy of versions 1 to 3 and in the spellings that numpy ever wrote are read") {
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  const std::string data = test::random_bytes(24, 9);
  for (const std::string& header :
       {dict + "\n", dict, std::string("{\"shape\": (2L, 3L), 'fortran_order': False, 'descr': '<f4'}   \n"),
        std::string(" { 'descr' : '<f4' ,'fortran_order':False,'shape':( 2 , 3 , )}")})
    for (int major = 1; major <= 3; ++major) {
      const TensorFile file = read_npy(test::in_memory(test::npy(header, data, major), "some/folder/grads.npy"));
      CHECK(file.kind == FileKind::npy);
      CHECK(file.tensors[0].name == "grads");
      check_all(file.tensors[0], data, 0, 6);
    }
  CHECK(read_npy(test::in_memory(test::npy_of("<f4", "()", "abcd"))).tensors[0].elements() == 1);
  CHECK(read_npy(test::in_memory(test::npy_of("<f4", "(0, 7)", ""))).tensors[0].elements() == 0);
}

TEST_CASE("tensor: integers are read as codes of a format of their width") {
  const std::string data = test::random_bytes(512, 4);
  const auto npy_tensor = [&](const std::string& descr, std::size_t count) {
    return read_npy(test::in_memory(test::npy_of(descr, "(" + std::to_string(count) + ",)", data))).tensors[0];
  };
  const Tensor bf16 = with_format(npy_tensor("<u2", 256), "bf16"_fmt);
  CHECK(bf16.type.name == "BF16");
  check_all(bf16, data, 0, 256);
  check_all(with_format(npy_tensor("|u1", 512), "e4m3"_fmt), data, 0, 512);
  check_all(with_format(npy_tensor("|i1", 512), "e5m2fnuz"_fmt), data, 0, 512);
  check_all(with_format(npy_tensor("|i1", 512), "int8"_fmt), data, 0, 512);
  check_all(with_format(npy_tensor("<u4", 128), "fp32"_fmt), data, 0, 128);
  CHECK(with_format(npy_tensor("<f4", 128), "fp32"_fmt).type.name == "F32");
  for (const auto& [descr, count, format] : {std::tuple("<u2", 256, "e4m3"_fmt),
                                             {"|u1", 512, "bf16"_fmt},
                                             {"<f4", 128, "bf16"_fmt},
                                             {"|b1", 512, "e4m3"_fmt},
                                             {"<u4", 128, "bf16"_fmt},
                                             {"<u2", 256, "tf32"_fmt}}) {
    const std::string message =
        test::error_of([&] { with_format(npy_tensor(descr, static_cast<std::size_t>(count)), format); });
    CHECK(message.find("are no codes of") != std::string::npos);
  }
}

TEST_CASE("tensor: tf32 is the upper 19 bits of a 32-bit word") {
  const std::string data =
      test::little_endian(0x3F800000, 4) + test::little_endian(0x3F801FFF, 4) + test::little_endian(0xC0490FDB, 4);
  for (const char* descr : {"<u4", "<i4", "<f4"}) {
    const Tensor tensor =
        with_format(read_npy(test::in_memory(test::npy_of(descr, "(3,)", data))).tensors[0], "tf32"_fmt);
    std::vector<std::uint32_t> codes(3);
    std::vector<float> values(3);
    read_codes(tensor, 0, std::span(codes));
    read_values(tensor, 0, std::span(values));
    CHECK(codes == std::vector<std::uint32_t>{0x1FC00, 0x1FC00, 0xC0490FDB >> 13});
    CHECK(values == std::vector<float>{1.0f, 1.0f, std::bit_cast<float>(0xC0490000u)});
  }
}

TEST_CASE("tensor: codes narrower than a byte lie in the low bits and anything above is refused") {
  const auto tensor_of = [](const std::string& data) {
    return with_format(
        read_npy(test::in_memory(test::npy_of("|u1", "(" + std::to_string(data.size()) + ",)", data))).tensors[0],
        "e2m1"_fmt);
  };
  std::vector<float> values(3);
  read_values(tensor_of("\x02\x0F\x01"), 0, std::span(values));
  CHECK(values == std::vector<float>{1.0f, -6.0f, 0.5f});
  const std::string message = test::error_of([&] { read_values(tensor_of("\x02\x21\x01"), 0, std::span(values)); });
  CHECK(message.find("element 1 is 33, no code of 4 bits") != std::string::npos);
}

TEST_CASE("tensor: a tensor made in memory checks its size and gives its bytes back") {
  const std::string data = test::random_bytes(12, 5);
  const Tensor tensor = make_tensor({"m", *find_element_type("F32"), {3}}, test::bytes_of(data));
  check_all(tensor, data, 0, 3);
  CHECK_THROWS_AS(make_tensor({"m", *find_element_type("F32"), {4}}, test::bytes_of(data)), Error);
  CHECK_THROWS_AS(make_tensor({"m", *find_element_type("F4"), {3}}, test::bytes_of("x")), Error);
}

TEST_CASE("tensor: values read as floats are the same in every floating-point environment") {
  const Tensor doubles = make_tensor({"m", *find_element_type("F64"), {64}}, test::bytes_of(test::random_bytes(512, 7))),
               words = make_tensor({"m", *find_element_type("I64"), {64}}, test::bytes_of(test::random_bytes(512, 8)));
  test::check_environments("read_values", [&](test::Digest& d) {
    std::vector<float> values(64);
    for (const Tensor* tensor : {&doubles, &words}) {
      read_values(*tensor, 0, std::span(values));
      d.add_all(values);
    }
  });
}

TEST_CASE("tensor: a view of aligned FP32 does not copy") {
  const Tensor tensor = make_tensor({"m", *find_element_type("F32"), {3}}, test::bytes_of(test::random_bytes(12, 6)));
  std::vector<float> scratch;
  CHECK(static_cast<const void*>(view_values(tensor, 1, 2, scratch).data()) == tensor.source->mapped().data() + 4);
  CHECK(scratch.empty());
}

TEST_CASE("tensor: formats and types find each other") {
  CHECK(element_types().size() == 22);
  for (const ElementType& type : element_types()) {
    CHECK(find_element_type(type.name) == &type);
    if (type.kind == ElementKind::floating) CHECK(element_type_of(type.format) == &type);
  }
  CHECK(element_type_of("int8"_fmt)->name == "I8");
  CHECK(element_type_of("tf32"_fmt) == nullptr);
  CHECK(element_type_of("e4m3ieee"_fmt) == nullptr);
  CHECK(find_element_type("F33") == nullptr);
}

TEST_CASE(
    "elements: a shape that is larger than the data and a tensor without data are errors, not reads beyond the end") {
  for (const char* type : {"F32", "F16", "F4", "I64", "BOOL"}) {
    CAPTURE(type);
    const ElementType element = *find_element_type(type);
    Tensor tensor = make_tensor({"t", element, {4, 2}}, std::vector<std::byte>(static_cast<std::size_t>(element.bits)));
    std::vector<float> values(8), scratch;
    std::vector<std::uint64_t> codes(8);
    CHECK_NOTHROW(read_values(tensor, 0, std::span(values)));
    for (const std::uint64_t rows :
         {std::uint64_t{5}, std::uint64_t{1} << 40, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
      tensor.shape = {rows, 2};
      CHECK_THROWS_AS(read_values(tensor, 4, std::span(values)), Error);
      CHECK_THROWS_AS(read_codes(tensor, 4, std::span(codes)), Error);
      CHECK_THROWS_AS(view_values(tensor, 4, 8, scratch), Error);
      CHECK(tensor.elements() >= rows);
    }
    tensor.source = nullptr;
    CHECK_THROWS_AS(read_values(tensor, 0, std::span(values)), Error);
    CHECK_THROWS_AS(view_values(tensor, 0, 1, scratch), Error);
    CHECK_NOTHROW(read_values(tensor, 0, std::span<float>()));
  }
}
