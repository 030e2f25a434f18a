// Block formats in narrow cast and narrow stats, against the library's own functions on the same data.
#include <cmath>

#include "narrow/base/random.hpp"
#include "narrow/scale/block_format.hpp"
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
    float amax = 0;
    for (const float v : x) amax = std::max(amax, std::abs(v));
    CHECK(bytes_of(file, "w.scale2") ==
          raw(std::vector<float>{amax / 2688}));  // code * scale * scale2, whatever the rule
    CHECK(header_of(file)["__metadata__"]["narrow.scale2.w"] == "factor");
  }
}

TEST_CASE("apps: cast to every block format and back gives the values that the library decodes") {
  const Folder folder;
  const std::vector<float> x = gradients(130 * 140);
  const std::string in =
      folder.write("in.safetensors", safetensors_of({{"w", "F32", "[130,140]", raw(x)},
                                                     {"e", "F32", "[0,5]", ""},
                                                     {"s", "F32", "[]", raw(std::vector<float>{2.5f})}}));
  const std::string codes = folder / "codes.safetensors", values = folder / "values.safetensors",
                    back = folder / "back.safetensors";
  std::vector<std::string> names = {"bfp5x24"};
  for (const narrow::BlockFormatRow& row : narrow::block_format_table()) names.emplace_back(row.name);
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(run({"cast", in, codes, "--to", name}).status == 0);
    CHECK(run({"cast", in, values, "--to", name, "--values"}).status == 0);
    const narrow::Quantised q = narrow::quantise(x, 130, 140, narrow::require_block_format(name));
    CHECK(run({"cast", codes, back, "--to", "fp32"}).status == 0);
    CHECK(data_of(read_file(back)) == data_of(read_file(values)));
    CHECK(!header_of(read_file(back)).contains("__metadata__"));
    if (!q.format.has_tensor_scale()) CHECK(bytes_of(read_file(values), "w") == raw(narrow::dequantise(q)));
    const Json header = header_of(read_file(codes));
    std::uint64_t scales = 1;
    for (const std::uint64_t n : header["w.scale"]["shape"]) scales *= n;
    CHECK(scales == q.scales.size());
  }
}

// The same answers for a block-quantised file as for a file of the values that it stands for.
TEST_CASE("apps: a block-quantised tensor is one tensor for every command") {
  const Folder folder;
  const std::vector<float> x = gradients(40 * 70);
  const std::string in = folder.write(
      "in.safetensors", safetensors_of({{"w", "F32", "[40,70]", raw(x)}, {"v", "F32", "[3]", raw(gradients(3))}}));
  const std::string codes = folder / "codes.safetensors", values = folder / "values.safetensors",
                    out = folder / "out.safetensors", same = folder / "same.safetensors";
  for (const char* name : {"mxfp8_e4m3", "nvfp4", "mxfp6_e2m3", "fp8_128x128", "fp8_tensor_e5m2", "bfp5x24"}) {
    CAPTURE(name);
    REQUIRE(run({"cast", in, codes, "--to", name, "--tensors", "^w$"}).status == 0);
    REQUIRE(run({"cast", in, values, "--to", name, "--tensors", "^w$", "--values"}).status == 0);
    const Ran equal = run({"compare", codes, values});
    CHECK(equal.status == 0);
    CHECK(contains(equal.out, "2 tensors, none differs"));
    const auto without_file = [](Json rows) {
      for (Json& row : rows) row.erase("file");
      return rows;
    };
    for (const char* command : {"stats", "histogram"})
      CHECK(without_file(narrow_json({command, codes})) == without_file(narrow_json({command, values})));
    // To another format as from the values, and what is not chosen is copied part by part.
    for (const char* to : {"e5m2", "mxfp4"}) {
      CHECK(run({"cast", codes, out, "--to", to, "--tensors", "w"}).status == 0);
      CHECK(run({"cast", values, same, "--to", to, "--tensors", "w"}).status == 0);
      CHECK(read_file(out) == read_file(same));
    }
    CHECK(run({"cast", codes, out, "--to", "fp32", "--tensors", "^v$"}).status == 0);
    CHECK(run({"compare", codes, out}).status == 0);
    CHECK(bytes_of(read_file(out), "w") == bytes_of(read_file(codes), "w"));
    CHECK(run({"cast", codes + ":v", out, "--to", "fp32"}).status == 0);
    CHECK(!header_of(read_file(out)).contains("__metadata__"));
    CHECK(run({"cast", codes + ":w", folder / "w.npy", "--to", "fp32"}).status == 0);
    CHECK(run({"compare", folder / "w.npy", values + ":w"}).status == 0);
  }
}

TEST_CASE("apps: inspect shows codes scales block and rule of a block-quantised tensor") {
  const Folder folder;
  const std::string in = folder.write("in.safetensors", safetensors_of({{"w", "F32", "[4,64]", raw(gradients(256))}}));
  const std::string codes = folder / "codes.safetensors";
  REQUIRE(run({"cast", in, codes, "--to", "nvfp4"}).status == 0);
  const Json tensors = narrow_json({"inspect", codes})["tensors"];
  REQUIRE(tensors.size() == 1);
  const Json& w = tensors[0];
  CHECK(w["name"] == "w");
  CHECK(w["dtype"] == "F4");
  CHECK(w["shape"] == Json{4, 64});
  CHECK(w["bytes"] == 128 + 16 + 4);
  CHECK(w["block_format"] == "nvfp4");
  CHECK(w["rule"] == "te_nvfp4");
  CHECK(w["block"] == Json{1, 16});
  CHECK(w["codes"]["bytes"] == 128);
  CHECK(w["scales"]["name"] == "w.scale");
  CHECK(w["scales"]["shape"] == Json{4, 4});
  CHECK(w["scale2"]["is"] == "factor");
  const Ran text = run({"inspect", codes});
  for (const char* word : {"1 tensor, 256 elements, 148 bytes", "nvfp4", "te_nvfp4", "1x16", "code * scale * w.scale2"})
    CHECK_MESSAGE(contains(text.out, word), text.out);
  CHECK(narrow_json({"inspect", codes + ":w.scale"})["tensors"][0]["dtype"] == "F8_E4M3");
  // A part that does not fit: named, and no other command takes the codes for values.
  std::string broken = read_file(codes);
  broken.replace(broken.find("w.scale2\":{"), 8, "w.scaleX");
  const std::string path = folder.write("broken.safetensors", broken);
  const Ran named = run({"inspect", path});
  CHECK(named.status == 1);
  CHECK(contains(named.out, "w: no tensor 'w.scale2'"));
  for (const char* command : {"stats", "histogram"}) {
    const Ran rest = run({command, path});
    CHECK(rest.status == 0);
    CHECK(contains(rest.err, "w: no tensor 'w.scale2'"));
  }
  CHECK(narrow_json({"stats", path + ":w.scaleX"}).size() == 4);
  check_refused({"stats", path + ":w"}, {"no tensor 'w.scale2'"});
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
  const Json rows = narrow_json({"stats", given_file, "--formats", "fp16,e5m2,mxfp8_e4m3,nvfp4"});
  CHECK(rows.size() % 4 == 0);
  std::uint64_t plain = 0, blocks = 0;
  for (const Json& row : rows) {
    if (row["format"] == "e5m2") plain += row["underflow"].get<std::uint64_t>();
    if (row["format"] == "mxfp8_e4m3") blocks += row["underflow"].get<std::uint64_t>();
  }
  CHECK(blocks * 100 < plain);  // what E5M2 loses without a scale, blocks keep
}
