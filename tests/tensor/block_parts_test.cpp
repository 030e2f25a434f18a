// Are codes and scales of a file one tensor, decoded by the definition, and are parts that do not fit refused?
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "files.hpp"
#include "make_tensors.hpp"
#include "narrow/array/pack.hpp"
#include "narrow/base/random.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/tensor_writer.hpp"

using namespace test;
using narrow::BlockFormat;
using narrow::Tensor;
using narrow::TensorFile;

namespace {

struct Written {
  Folder folder;
  std::string path = folder / "q.safetensors";
};

// As `narrow cast` writes it, with metadata that a test may change.
TensorFile write_and_open(const Written& to, const Tensor& tensor, const std::string& format,
                          std::vector<std::pair<std::string, std::string>> metadata = {}) {
  const BlockFormat f = narrow::require_block_format(format);
  if (metadata.empty()) metadata = {{"narrow.block_format.t", format}, {"narrow.scale2.t", "factor"}};
  narrow::TensorWriter writer(to.path, narrow::block_headers(tensor, f), metadata);
  narrow::quantise_tensor(tensor, f, narrow::CastResult::codes, [&](auto bytes) { writer.write(bytes); }, {});
  writer.finish();
  return narrow::open_tensor_file(to.path);
}

std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values(tensor.values());
  narrow::read_values(tensor, 0, std::span(values));
  return values;
}
std::vector<std::uint32_t> words_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> words;
  for (const float x : values) words.push_back(std::isnan(x) ? 0x7FC00000u : std::bit_cast<std::uint32_t>(x));
  return words;
}

std::vector<std::string> all_formats() {
  std::vector<std::string> names = {"bfp5x24", "nvfp4:torchao_nvfp4", "nvfp4:te_nvfp4_row", "mxfp4:torchao_even"};
  for (const narrow::BlockFormatRow& row : narrow::block_format_table()) names.emplace_back(row.name);
  return names;
}

}  // namespace

// value = code * (scale * scale2), each factor read from its own tensor of the file.
TEST_CASE("tensor: codes and scales of every block format are one tensor of what they decode to") {
  const std::uint64_t rows = 131, cols = 139;
  std::vector<float> x = mixed_floats(rows * cols, 31);
  for (float& v : x)
    if (!std::isfinite(v)) v = 1;
  for (const std::string& name : all_formats()) {
    CAPTURE(name);
    const Written to;
    const TensorFile file = write_and_open(to, tensor_of("F32", x, {rows, cols}), name);
    REQUIRE(file.tensors.size() == 1);
    const Tensor& whole = file.tensors[0];
    REQUIRE(whole.blocks);
    CHECK(whole.type.name == "F32");
    CHECK(whole.shape == std::vector<std::uint64_t>{rows, cols});
    const BlockFormat f = narrow::require_block_format(name);
    const narrow::Quantised q = narrow::quantise(x, rows, cols, f);
    float factor = 1;
    if (f.has_tensor_scale()) {
      narrow::read_values(*file.find("t.scale2"), 0, std::span(&factor, 1));
      float amax = 0;
      for (const float v : x) amax = std::max(amax, std::abs(v));
      CHECK(factor == amax / 2688);
    }
    std::vector<float> want(x.size()), of_rows(rows, 1);
    if (f.has_row_scales()) {
      narrow::read_values(*file.find("t.scale2"), 0, std::span(of_rows));
      for (std::size_t r = 0; r < rows; ++r) {
        float amax = 0;
        for (std::size_t c = 0; c < cols; ++c) amax = std::max(amax, std::abs(x[r * cols + c]));
        CHECK(of_rows[r] == amax / 2688);
      }
    }
    const std::size_t across = narrow::grid_cols(f, cols);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t row = f.block_rows == 0 ? 0 : i / cols / f.block_rows,
                        col = f.block_cols == 0 ? 0 : i % cols / f.block_cols;
      const float scale = q.scales[row * across + col];
      want[i] = static_cast<float>(narrow::decode(q.codes[i], f.element)) *
                (f.has_tensor_scale() || f.has_row_scales() ? scale * (factor * of_rows[i / cols]) : scale);
    }
    CHECK(words_of(values_of(whole)) == words_of(want));
    std::vector<std::byte> bytes, piece(13);
    narrow::copy_tensor(whole, [&](auto b) { bytes.insert(bytes.end(), b.begin(), b.end()); });
    whole.source->read(4 * cols - 6, piece);  // from any byte on
    CHECK(std::equal(piece.begin(), piece.end(), bytes.begin() + 4 * static_cast<long>(cols) - 6));
    std::vector<std::byte> values;
    narrow::quantise_tensor(tensor_of("F32", x, {rows, cols}), f, narrow::CastResult::values,
                            [&](auto b) { values.insert(values.end(), b.begin(), b.end()); }, {});
    CHECK(values == bytes);
    CHECK(narrow::stored_bytes(whole) < whole.bytes());
    CHECK(narrow::open_tensor(to.path + ":t.scale").name == "t.scale");
  }
}

// Threads take parts of a piece: none may end within a block, and each must find its place.
TEST_CASE("tensor: matrices of many parts in every block format, from any type, as the whole at once") {
  const std::vector<std::vector<std::uint64_t>> shapes = {{700, 208}, {1, 150'000}, {2, 80'000},
                                                          {300, 720}, {131, 1003},  {5, 1'000'016}};
  for (const std::string& name : all_formats())
    for (const std::vector<std::uint64_t>& shape : shapes)
      for (const std::string type : {"F32", "BF16", "F16", "F8_E5M2"}) {
        CAPTURE(name);
        CAPTURE(type);
        CAPTURE(shape[1]);
        if (shape[0] == 5 && (!name.starts_with("nvfp4") || type != "BF16")) continue;  // of more than a piece
        if (shape != shapes[0] && type != "F32" && type != "BF16") continue;
        const auto rows = static_cast<std::size_t>(shape[0]), cols = static_cast<std::size_t>(shape[1]);
        std::vector<float> x(rows * cols);
        for (std::size_t i = 0; i < x.size(); ++i)
          x[i] = std::ldexp(static_cast<float>(narrow::random_bits(7, i) % 2001) - 1000, static_cast<int>(i % 9) - 12);
        for (const std::size_t bad : {std::size_t{5}, x.size() / 2, x.size() - 1}) x[bad] = bad == 5 ? NAN : INFINITY;
        std::vector<std::byte> bytes;
        narrow::cast_tensor(tensor_of("F32", x, shape), {type_named(type).format, {}}, narrow::CastResult::codes,
                            [&](auto b) { bytes.insert(bytes.end(), b.begin(), b.end()); });
        const Tensor t = narrow::make_tensor({"t", type_named(type), shape}, std::move(bytes));
        const std::vector<float> read = values_of(t);
        const BlockFormat f = narrow::require_block_format(name);
        const narrow::Quantised q = narrow::quantise(read, rows, cols, f);
        std::vector<std::byte> got;
        const narrow::NotKept lost = narrow::quantise_tensor(
            t, f, narrow::CastResult::codes, [&](auto b) { got.insert(got.end(), b.begin(), b.end()); }, {});
        const auto append = [](std::vector<std::byte>& to, const auto& words) {
          const auto more = std::as_bytes(std::span(words));
          to.insert(to.end(), more.begin(), more.end());
        };
        std::vector<std::byte> want;
        const int bits = narrow::block_headers(t, f)[0].type.bits;
        std::vector<std::uint8_t> packed(narrow::packed_size(q.codes.size(), bits));
        narrow::pack_codes(q.codes, bits, packed);
        append(want, packed);
        if (f.scale.width() == 8) append(want, narrow::scale_codes(q.scales, f));
        else append(want, q.scales);
        for (const float kept : q.row_scales) append(want, std::vector{narrow::file_factor(kept, f)});
        REQUIRE(got.size() == want.size() + (f.has_tensor_scale() ? 4 : 0));
        CHECK(std::equal(want.begin(), want.end(), got.begin()));
        const auto count = [](const std::vector<float>& values) {
          return static_cast<std::uint64_t>(
              std::count_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); }));
        };
        CHECK(lost.values == count(read));
        CHECK(lost.blocks == count(q.scales));
      }
}

TEST_CASE("tensor: empty tensors and zeros in every block format keep their shape") {
  for (const std::string& name : all_formats())
    for (const std::vector<std::uint64_t>& shape : {std::vector<std::uint64_t>{0, 5}, {3, 0}, {1}, {2, 1, 3}}) {
      CAPTURE(name);
      std::uint64_t n = 1;
      for (const std::uint64_t d : shape) n *= d;
      const Written to;
      const Tensor tensor =
          narrow::make_tensor({"t", type_named("F32"), shape}, to_bytes(std::vector<float>(n, -0.0f)));
      const TensorFile file = write_and_open(to, tensor, name);
      REQUIRE(file.tensors.size() == 1);
      CHECK(file.tensors[0].shape == shape);
      // Integers have one zero, and torchao divides the zeros by zero.
      if (name != "nvfp4:torchao_nvfp4" && name != "mxint8" && !name.starts_with("bfp") && !name.starts_with("int"))
        CHECK(words_of(values_of(file.tensors[0])) == std::vector<std::uint32_t>(n, 0x80000000u));
    }
}

TEST_CASE("tensor: NVFP4 of huge and tiny and infinite tensors decodes with the factor that made its codes") {
  const std::vector<float> shape = {6, 5, 4, 3, 2, 1.5f, 1, 0.5f};
  for (const float size : {0x1p124f, 0x1p-120f, 0x1p-123f, 1.0f}) {
    CAPTURE(size);
    const Written to;
    std::vector<float> x;
    for (int i = 0; i < 32; ++i) x.push_back(shape[static_cast<std::size_t>(i % 8)] * size);
    if (size == 1) x[0] = INFINITY;
    const Tensor tensor = tensor_of("F32", x);
    const std::vector<float> y = values_of(write_and_open(to, tensor, "nvfp4").tensors[0]);
    // The block of the Inf is lost; elsewhere two bits of fraction and a scale of three are kept.
    for (std::size_t i = size == 1 ? 16 : 0; i < 32; ++i) CHECK(std::abs(y[i] / x[i] - 1) <= 0.25f);
    const auto counts = narrow::block_tensor_statistics(tensor, narrow::require_block_format("nvfp4"), 1, {}).elements;
    if (size != 1) CHECK(counts.sqnr_db() > 15);
  }
}

TEST_CASE("tensor: doubles in a block format are counted as what they are") {
  const std::vector<double> x = {1e300, 1e-300, 1, 0, HUGE_VAL};
  const narrow::BlockFormatStatistics s = narrow::block_tensor_statistics(
      tensor_of("F64", x), narrow::require_block_format("mxfp8_e4m3:cuda_round_up"), 1, {});
  CHECK(s.input.inf == 1);
  CHECK(s.input.zeros == 1);
  CHECK(s.input.amax == 1e300);
  CHECK(s.elements.overflow == 1);
  CHECK(s.elements.underflow == 2);  // in the block of an Inf 1 is nothing
  CHECK_FALSE(s.elements.has_error());
}

// A file of te_nvfp4 without the key of scale2 holds the amax there.
TEST_CASE("tensor: scale2 that is an amax is told by the missing key and read as one") {
  const std::vector<float> x = mixed_floats(64, 37);
  std::vector<float> finite;
  for (const float v : x) finite.push_back(std::isfinite(v) ? v : 2);
  const Written first, second;
  const TensorFile now = write_and_open(first, tensor_of("F32", finite), "nvfp4:te_nvfp4");
  CHECK(now.tensors[0].blocks->second == narrow::BlockParts::Second::factor);
  float amax = 0;
  for (const float v : finite) amax = std::max(amax, std::abs(v));
  // The same file with the amax in place of the factor, and without the key.
  const TensorFile without =
      write_and_open(second, tensor_of("F32", finite), "nvfp4:te_nvfp4", {{"narrow.block_format.t", "nvfp4:te_nvfp4"}});
  std::string bytes = read_file(second.path);
  std::memcpy(bytes.data() + bytes.size() - 4, &amax, 4);
  second.folder.write("q.safetensors", bytes);
  const TensorFile old = narrow::open_tensor_file(second.path);
  CHECK(old.tensors[0].blocks->second == narrow::BlockParts::Second::amax);
  CHECK(words_of(values_of(old.tensors[0])) == words_of(values_of(now.tensors[0])));
}

TEST_CASE("tensor: parts that do not fit are unreadable and never taken for values") {
  const std::string codes = R"("w":{"dtype":"F8_E4M3","shape":[2,40],"data_offsets":[0,80]})";
  const std::string ok = R"("ok":{"dtype":"F32","shape":[1],"data_offsets":[80,84]})";
  const auto file_of = [&](const std::string& format, const std::string& scale, std::size_t scale_bytes) {
    return safetensors(
        "{\"__metadata__\":{\"narrow.block_format.w\":\"" + format + "\"}," + codes + "," + ok + scale + "}",
        std::string(84 + scale_bytes, '\0'));
  };
  struct Broken {
    std::string format, scale;
    std::size_t bytes;
    std::string why;
  };
  const auto entry = [](const std::string& type, const std::string& shape, std::size_t bytes) {
    return ",\"w.scale\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":[84," +
           std::to_string(84 + bytes) + "]}";
  };
  const Broken all[] = {
      {"mxfp8_e4m3", "", 0, "no tensor 'w.scale'"},
      {"mxfp8_e4m3", entry("F8_E8M0", "[2,3]", 6), 6,
       "'w.scale' is F8_E8M0 [2, 3], in 'mxfp8_e4m3' it is F8_E8M0 [2, 2]"},
      {"mxfp8_e4m3", entry("F8_E4M3", "[2,2]", 4), 4, "it is F8_E8M0 [2, 2]"},
      {"mxfp8_e5m2", entry("F8_E8M0", "[2,2]", 4), 4, "'w' is F8_E4M3 [2, 40], in 'mxfp8_e5m2' it is F8_E5M2"},
      {"fp8_128x128", entry("F32", "[2,2]", 16), 16, "it is F32 [1, 1]"},
      {"nvfp4", entry("F8_E4M3", "[2,3]", 6), 6, "'w' is F8_E4M3"},
      {"mxfp9", entry("F8_E8M0", "[2,2]", 4), 4, "block format 'mxfp9' is unknown"},
      {"mxfp8_e4m3:never", entry("F8_E8M0", "[2,2]", 4), 4, "has no rule 'never'"}};
  const Folder folder;
  for (const Broken& broken : all) {
    CAPTURE(broken.why);
    const std::string path = folder.write("b.safetensors", file_of(broken.format, broken.scale, broken.bytes));
    const TensorFile file = narrow::open_tensor_file(path);
    REQUIRE(file.tensors.size() == 1);
    CHECK(file.tensors[0].name == "ok");
    REQUIRE(file.unreadable.size() == 1);
    CHECK(file.unreadable[0].name == "w");
    CHECK(file.unreadable[0].why.find(broken.why) != std::string::npos);
    CHECK(error_of([&] { (void)narrow::open_tensor(path + ":w"); }).find(broken.why) != std::string::npos);
  }
  const std::string good = folder.write("g.safetensors", file_of("mxfp8_e4m3", entry("F8_E8M0", "[2,2]", 4), 4));
  CHECK(narrow::open_tensor_file(good).unreadable.empty());
  // Codes of five bits in whole bytes: what has more is no code.
  std::string wide = safetensors(R"({"__metadata__":{"narrow.block_format.w":"bfp5x8"},)"
                                 R"("w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                                 R"("w.scale":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[3,4]}})",
                                 std::string("\x01\x20\x01\x7F", 4));
  const TensorFile file = narrow::open_tensor_file(folder.write("c.safetensors", wide));
  CHECK(error_of([&] { values_of(file.tensors.at(0)); }).find("element 1 is 32, no code of 5 bits") !=
        std::string::npos);
  const std::string gone =
      R"({"__metadata__":{"narrow.block_format.v":"mxfp4"},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  CHECK(narrow::open_tensor_file(folder.write("d.safetensors", safetensors(gone, "x"))).tensors.size() == 1);
}
