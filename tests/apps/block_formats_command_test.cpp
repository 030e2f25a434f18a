// Block formats in narrow cast and narrow stats, against the library's own functions on the same data.
#include <bit>
#include <cmath>

#include "narrow/array/pack.hpp"
#include "narrow/base/random.hpp"
#include "narrow/scale/block_format_statistics.hpp"
#include "narrow/scale/quantise.hpp"
#include "tensor_files.hpp"

using namespace test;

namespace {

std::vector<float> gradients(std::size_t n) {
  std::vector<float> values;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t r = narrow::random_bits(3, i);
    values.push_back(std::ldexp(static_cast<float>(static_cast<std::int32_t>(r)), static_cast<int>(r >> 32) % 12 - 40));
  }
  return values;
}

std::string bytes_of(const std::string& file, const std::string& tensor) {
  const Json header = header_of(file)[tensor];
  const std::uint64_t begin = header["data_offsets"][0], end = header["data_offsets"][1];
  return data_of(file).substr(begin, end - begin);
}
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

TEST_CASE("apps: cast to MXFP8 writes codes and scales as two tensors") {
  const Folder folder;
  const std::vector<float> x = gradients(6 * 100);
  const std::string in = folder.write(
      "in.safetensors",
      safetensors_of({{"w", "F32", "[2,3,100]", raw(x)}, {"ids", "I32", "[2]", "12345678"}}, R"({"made":"by hand"})"));
  const std::string out = folder / "out.safetensors";
  const Ran ran = run({"cast", in, out, "--to", "mxfp8_e4m3"});
  CAPTURE(ran.err);
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, "1 tensor cast to mxfp8_e4m3:ocp_floor, codes and scales in F8_E4M3 and F8_E8M0, 1 copied"));
  const std::string file = read_file(out);
  const Json header = header_of(file);
  CHECK(header["w"]["dtype"] == "F8_E4M3");
  CHECK(header["w"]["shape"] == Json{2, 3, 100});
  CHECK(header["w.scale"]["dtype"] == "F8_E8M0");
  CHECK(header["w.scale"]["shape"] == Json{2, 3, 4});
  CHECK(header["__metadata__"]["narrow.block_format.w"] == "mxfp8_e4m3:ocp_floor");
  CHECK(header["__metadata__"]["made"] == "by hand");
  const narrow::BlockFormat f = narrow::require_block_format("mxfp8_e4m3");
  const narrow::Quantised q = narrow::quantise(x, 6, 100, f);
  CHECK(bytes_of(file, "w") == text_of(q.codes));
  CHECK(bytes_of(file, "w.scale") == text_of(narrow::scale_codes(q.scales, f)));
  CHECK(bytes_of(file, "ids") == "12345678");
  CHECK(run({"inspect", out}).status == 0);
}

TEST_CASE("apps: cast to NVFP4 packs two codes a byte and keeps the level of the tensor") {
  const Folder folder;
  const std::vector<float> x = gradients(3 * 50);
  const std::string in = folder.write("in.safetensors", safetensors_of({{"w", "F32", "[3,50]", raw(x)}}));
  const std::string out = folder / "out.safetensors";
  for (const char* name : {"nvfp4", "nvfp4:torchao_nvfp4"}) {
    CAPTURE(name);
    const Json said = narrow_json({"cast", in, out, "--to", name});
    CHECK(said["tensors"].size() == 3);
    const std::string file = read_file(out);
    CHECK(header_of(file)["w"]["dtype"] == "F4");
    CHECK(header_of(file)["w.scale"]["dtype"] == "F8_E4M3");
    CHECK(header_of(file)["w.scale"]["shape"] == Json{3, 4});
    CHECK(header_of(file)["w.scale2"]["dtype"] == "F32");
    const narrow::BlockFormat f = narrow::require_block_format(name);
    const narrow::Quantised q = narrow::quantise(x, 3, 50, f);
    CHECK(bytes_of(file, "w") == text_of(narrow::packed_codes(q.codes, f)));
    CHECK(bytes_of(file, "w.scale") == text_of(narrow::scale_codes(q.scales, f)));
    CHECK(bytes_of(file, "w.scale2") == raw(std::vector<float>{q.tensor_scale}));
  }
}

TEST_CASE("apps: cast to every block format gives the values that the library decodes") {
  const Folder folder;
  const std::vector<float> x = gradients(130 * 140);
  const std::string in =
      folder.write("in.safetensors", safetensors_of({{"w", "F32", "[130,140]", raw(x)},
                                                     {"e", "F32", "[0,5]", ""},
                                                     {"s", "F32", "[]", raw(std::vector<float>{2.5f})}}));
  const std::string codes = folder / "codes.safetensors", values = folder / "values.safetensors";
  std::vector<std::string> names = {"bfp5x24"};
  for (const narrow::BlockFormatRow& row : narrow::block_format_table()) names.emplace_back(row.name);
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(run({"cast", in, codes, "--to", name}).status == 0);
    CHECK(run({"cast", in, values, "--to", name, "--values"}).status == 0);
    const narrow::Quantised q = narrow::quantise(x, 130, 140, narrow::require_block_format(name));
    CHECK(bytes_of(read_file(values), "w") == raw(narrow::dequantise(q)));
    const Json header = header_of(read_file(codes));
    std::uint64_t scales = 1;
    for (const std::uint64_t n : header["w.scale"]["shape"]) scales *= n;
    CHECK(scales == q.scales.size());
  }
}

TEST_CASE("apps: cast refuses block formats that cannot be written") {
  const Folder folder;
  const std::string in = folder.write("in.safetensors", safetensors_of({{"w", "F32", "[4]", raw(gradients(4))},
                                                                        {"w.scale", "F32", "[1]", raw(gradients(1))}}));
  check_refused({"cast", in, folder / "o.safetensors", "--to", "mxfp8_e4m3"}, {"'w.scale' already"});
  check_refused({"cast", in, folder / "o.npy", "--to", "mxfp8_e4m3"}, {"holds one tensor"});
  check_refused({"cast", in, folder / "o.txt", "--to", "mxfp8_e4m3"}, {"accepted: .safetensors"});
  check_refused({"cast", in, folder / "o.safetensors", "--to", "mxfp8_e4m3:floor_it"},
                {"--to", "has no rule 'floor_it'", "cuda_round_up"});
  check_refused({"cast", in, folder / "o.safetensors", "--to", "mxfp8_e4m3", "--rounding", "up"},
                {"whose rule fixes them"});
  CHECK_FALSE(std::filesystem::exists(folder / "o.safetensors"));
  CHECK(run({"cast", in + ":w", folder / "v.npy", "--to", "mxfp8_e4m3", "--values"}).status == 0);
}

TEST_CASE("apps: stats measures block formats beside plain ones") {
  const Folder folder;
  const std::vector<float> x = gradients(50 * 96);
  const std::string in = folder.write("in.safetensors", safetensors_of({{"w", "F32", "[50,96]", raw(x)}}));
  const std::vector<std::string> names = {"fp16", "mxfp8_e4m3", "nvfp4", "mxfp4:torchao_even", "fp8_tensor_e4m3"};
  const Json rows = narrow_json(
      {"stats", in, "--formats", "fp16, mxfp8_e4m3,nvfp4,mxfp4:torchao_even,fp8_tensor_e4m3", "--sort", "name"});
  REQUIRE(rows.size() == 5);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const Json& row = rows[k];
    CAPTURE(names[k]);
    CHECK(row["format"] == names[k]);
    CHECK(row["count"] == x.size());
    if (k == 0) {
      CHECK(row["blocks"].is_null());
      continue;
    }
    const narrow::BlockFormatStatistics s =
        narrow::block_format_statistics(x, 50, 96, narrow::require_block_format(names[k]));
    CHECK(row["underflow"] == s.elements.underflow);
    CHECK(row["subnormal"] == s.elements.subnormal);
    CHECK(row["overflow"] == s.elements.overflow);
    CHECK(row["mse"].get<double>() == s.elements.mse());
    CHECK(row["amax"].get<double>() == s.input.amax);
    CHECK(row["blocks"] == s.scales.blocks);
    CHECK(row["scale_log2_median"] == s.scales.quantile_log2(0.5));
    std::uint64_t counted = 0;
    for (const auto& item : row["scale_log2_counts"].items()) counted += item.value().get<std::uint64_t>();
    CHECK(counted + s.scales.zeros + s.scales.non_finite == s.scales.blocks);
  }
  const Ran ran = run({"stats", in, "--formats", "fp16,mxfp8_e4m3"});
  CHECK(contains(ran.out, "scales of the blocks"));
  CHECK(contains(ran.out, "median"));
  CHECK_FALSE(contains(run({"stats", in, "--formats", "fp16"}).out, "scales of the blocks"));
  CHECK(run({"stats", in, "--formats", "nvfp4", "--total", "--csv", folder / "s.csv"}).status == 0);
  CHECK(contains(read_file(folder / "s.csv"), "scale_log2_median"));
  CHECK(run({"stats", in, "--formats", "mxfp8_e4m3", "--fail-if", "mxfp8_e4m3.underflow >= 0"}).status == 1);
}

TEST_CASE("apps: stats refuses block formats with casts and unknown rules") {
  const Folder folder;
  const std::string in = folder.write("in.safetensors", floats_file("w", gradients(64)));
  check_refused({"stats", in, "--formats", "mxfp8_e4m3", "--overflow", "saturate"}, {"whose rule fixes them"});
  check_refused({"stats", in, "--formats", "fp16,mxfp8_e4m3:x"}, {"--formats", "has no rule 'x'"});
  check_refused({"stats", in, "--formats", "fp16,,nvfp4"}, {"--formats"});
  check_refused({"stats", in, "--formats", "mxfp9"}, {"--formats", "mxfp9"});
}

TEST_CASE("apps: stats of the given gradients in plain and block formats") {
  if (!has_given_file()) return;
  const Json rows = narrow_json({"stats", given_file, "--formats", "fp16,e5m2,mxfp8_e4m3,nvfp4"});
  CHECK(rows.size() % 4 == 0);
  std::uint64_t plain = 0, blocks = 0;
  for (const Json& row : rows) {
    if (row["format"] == "e5m2") plain += row["underflow"].get<std::uint64_t>();
    if (row["format"] == "mxfp8_e4m3") blocks += row["underflow"].get<std::uint64_t>();
  }
  CHECK(blocks * 100 < plain);  // what E5M2 loses without a scale, blocks keep
}
