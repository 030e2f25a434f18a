// What narrow cast writes, against the scalar functions.
#include <bit>
#include <cmath>

#include "narrow/base/random.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"
#include "support/scale.hpp"
#include "tensor/archive.hpp"
#include "tensor_files.hpp"

using namespace test;
using narrow::operator""_fmt;

namespace {

std::vector<float> some_floats(std::size_t n, std::uint64_t seed = 1) {
  std::vector<float> values;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t r = narrow::random_bits(seed, i);
    values.push_back(std::ldexp(static_cast<float>(static_cast<std::int32_t>(r)), static_cast<int>(r >> 32) % 40 - 30));
  }
  return values;
}

void check_ran(const std::vector<std::string>& arguments, const std::vector<std::string>& words = {}) {
  const Ran ran = run(arguments);
  CAPTURE(ran.err);
  CHECK(ran.status == 0);
  CHECK(ran.err == "");
  for (const std::string& word : words) CHECK_MESSAGE(contains(ran.out, word), ran.out);
}

}  // namespace

TEST_CASE("apps: cast writes codes with their type and keeps the rest of the file") {
  const Folder folder;
  const std::vector<float> values = some_floats(1000);
  const std::string in = folder.write("in.safetensors", safetensors_of({{"w", "F32", "[10,100]", raw(values)},
                                                                        {"ids", "I32", "[2]", "12345678"},
                                                                        {"ok", "BOOL", "[1]", "\x01"}},
                                                                       R"({"made":"by hand"})"));
  const std::string out = folder / "out.safetensors";
  check_ran({"cast", in, out, "--to", "e4m3"}, {"1 tensor cast to e4m3 codes in F8_E4M3, 2 copied"});
  const Json info = narrow_json({"inspect", out});
  CHECK(info["metadata"] == Json{{"made", "by hand"}});
  CHECK(info["tensors"].size() == 3);
  const Json header = header_of(read_file(out));
  CHECK(header["w"]["dtype"] == "F8_E4M3");
  CHECK(header["w"]["shape"] == Json{10, 100});
  CHECK(header["ids"]["dtype"] == "I32");
  std::string expected;
  for (const float x : values) expected += static_cast<char>(narrow::encode(x, "e4m3"_fmt));
  const std::uint64_t begin = header["w"]["data_offsets"][0], ids = header["ids"]["data_offsets"][0];
  CHECK(data_of(read_file(out)).substr(begin, 1000) == expected);
  CHECK(data_of(read_file(out)).substr(ids, 8) == "12345678");
  CHECK(narrow_json({"cast", in, out, "--to", "e4m3"})["tensors"].size() == 3);
}

TEST_CASE("apps: cast that is killed leaves the old file or the whole new one") {
  const test::Folder folder;
  const std::string in = folder.write("in.safetensors", floats_file("w", some_floats(1 << 18)));
  const std::string out = folder / "out.safetensors", whole = folder / "whole.safetensors";
  check_ran({"cast", in, whole, "--to", "e4m3"});
  const std::string old = "what was there before", fresh = test::read_file(whole);
  for (std::uint64_t round = 0; round < test::scaled(20, 10); ++round) {
    folder.write("out.safetensors", old);
    const pid_t child = fork();
    if (child == 0) {
      dup2(open("/dev/null", O_WRONLY), 1);
      execl(NARROW_PROGRAM, "narrow", "cast", in.c_str(), out.c_str(), "--to", "e4m3", nullptr);
      _exit(127);
    }
    usleep(static_cast<useconds_t>(narrow::random_bits(8, round) % 40000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string now = test::read_file(out);
    CHECK((now == old || now == fresh));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string name = entry.path().string();
      CHECK((name == in || name == out || name == whole || name.starts_with(out + ".tmp")));
    }
  }
}

TEST_CASE("apps: cast rounds values and names formats that have no type") {
  const Folder folder;
  const std::vector<float> values = some_floats(999);
  const std::string in = folder.write("in.safetensors", floats_file("w", values)), out = folder / "out.safetensors";
  check_ran({"cast", in, out, "--to", "e5m2", "--values", "--overflow", "saturate"}, {"values in F32"});
  std::vector<float> rounded;
  for (const float x : values)
    rounded.push_back(narrow::round_to(x, "e5m2"_fmt, {.overflow = narrow::Overflow::saturate}));
  CHECK(data_of(read_file(out)) == raw(rounded));

  check_ran({"cast", in, out, "--to", "e3m4"}, {"note:", "U8", "narrow.format.NAME"});
  CHECK(header_of(read_file(out))["__metadata__"] == Json{{"narrow.format.w", "e3m4"}});
  // What the file says about itself is enough to read it again.
  const std::string back = folder / "back.safetensors";
  check_ran({"cast", out, back, "--to", "fp32"});
  rounded.clear();
  for (const float x : values) rounded.push_back(narrow::round_to(x, "e3m4"_fmt));
  CHECK(data_of(read_file(back)) == raw(rounded));
  CHECK(!header_of(read_file(back)).contains("__metadata__"));

  check_ran({"cast", in, out, "--to", "e2m1"}, {"U8"});  // 999 codes of four bits fill no whole bytes
  check_ran({"cast", in + ":w", folder / "w.npy", "--to", "bf16"}, {"bf16"});
  check_ran({"cast", folder / "w.npy", back, "--to", "fp32", "--format", "bf16"});
  rounded.clear();
  for (const float x : values) rounded.push_back(narrow::round_to(x, "bf16"_fmt));
  CHECK(data_of(read_file(back)) == raw(rounded));
}

// Sub-byte codes are a byte each in .npy, archives are compressed, and headers are bytes too.
TEST_CASE("apps: the sizes that cast tells are those on disk") {
  const Folder folder;
  const std::string one = folder.write("in.safetensors", floats_file("w", some_floats(4096))),
                    zip = folder.write("in.npz",
                                       archive({stored("w.npy", npy_of("<f4", "(4096,)", raw(some_floats(4096))))}));
  for (const std::string& in : {one, zip})
    for (const char* to : {"e2m1", "fp16", "mxfp4"})
      for (const char* ending : {"o.npy", "o.safetensors"}) {
        if (ending[2] == 'n' && to[0] == 'm') continue;
        CAPTURE(to);
        CAPTURE(ending);
        const Json said = narrow_json({"cast", in, folder / ending, "--to", to});
        CHECK(said["bytes_before"] == std::filesystem::file_size(in));
        CHECK(said["bytes_after"] == std::filesystem::file_size(folder / ending));
        std::uint64_t data = 0;
        for (const Json& tensor : said["tensors"]) data += tensor["bytes"].get<std::uint64_t>();
        CHECK(data < said["bytes_after"].get<std::uint64_t>());
        CHECK(data + 512 > said["bytes_after"].get<std::uint64_t>());  // the header is shorter than that
      }
  check_ran({"cast", one, folder / "o.npy", "--to", "e2m1"}, {"16.07 KiB -> 4.12 KiB"});
}

TEST_CASE("apps: cast of chosen tensors copies the others unchanged") {
  const Folder folder;
  const std::vector<float> values = some_floats(16);
  const std::string in =
      folder.write("in.safetensors",
                   safetensors_of({{"a.weight", "F32", "[16]", raw(values)}, {"b.bias", "F32", "[16]", raw(values)}}));
  const std::string out = folder / "out.safetensors";
  check_ran({"cast", in, out, "--to", "fp16", "--tensors", "weight$"}, {"1 tensor cast", "1 copied"});
  const Json header = header_of(read_file(out));
  CHECK(header["a.weight"]["dtype"] == "F16");
  CHECK(header["b.bias"]["dtype"] == "F32");
  const std::uint64_t begin = header["b.bias"]["data_offsets"][0];
  CHECK(data_of(read_file(out)).substr(begin, 64) == raw(values));
  check_refused({"cast", in, folder / "o.npy", "--to", "fp16"}, {"o.npy", "one tensor", "2"});
}

TEST_CASE("apps: doubles stay doubles as values and are rounded once as codes") {
  const Folder folder;
  const double tie = 1 + 0x1p-11 + 0x1p-40;  // through FP32 this would be a tie, and fall to the even neighbour
  const std::string in =
      folder.write("in.safetensors", safetensors_of({{"w", "F64", "[1]", raw(std::vector<double>{tie})}}));
  const std::string out = folder / "out.safetensors";
  check_ran({"cast", in, out, "--to", "fp16"});
  CHECK(data_of(read_file(out)) == std::string("\x01\x3C", 2));
  check_ran({"cast", in, out, "--to", "fp16", "--cast", "torch"});
  CHECK(data_of(read_file(out)) == std::string("\x00\x3C", 2));
  check_ran({"cast", in, out, "--to", "fp16", "--values"}, {"values in F64"});
  CHECK(data_of(read_file(out)) == raw(std::vector<double>{1 + 0x1p-10}));
}

TEST_CASE("apps: cast may write over its input") {
  const Folder folder;
  const std::vector<float> values = some_floats(100000);
  const std::string path = folder.write("a.safetensors", floats_file("w", values));
  check_ran({"cast", path, path, "--to", "bf16"});
  std::vector<std::uint16_t> codes;
  for (const float x : values) codes.push_back(static_cast<std::uint16_t>(narrow::encode(x, "bf16"_fmt)));
  CHECK(data_of(read_file(path)) == raw(codes));
  check_ran({"cast", path, path, "--to", "fp32"});
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("apps: cast of a folder casts each file as it would be cast alone, and the index of a model follows") {
  const Folder folder;
  std::filesystem::create_directory(folder.path() + "/in");
  folder.write("in/a.safetensors",
               safetensors_of({{"w", "F32", "[4,32]", raw(some_floats(128))}}, R"({"format":"pt"})"));
  folder.write("in/b.safetensors",
               safetensors_of({{"v", "F32", "[2,64]", raw(some_floats(128, 2))}, {"ids", "I32", "[1]", "1234"}}));
  folder.write("in/c.safetensors", safetensors_of({{"only_ids", "I32", "[1]", "1234"}}));
  folder.write(
      "in/model.safetensors.index.json",
      R"({"metadata":{},"weight_map":{"w":"a.safetensors","v":"b.safetensors","ids":"b.safetensors","only_ids":"c.safetensors"}})");
  const std::string in = folder.path() + "/in", out = folder.path() + "/out/deep";
  for (const char* format : {"e4m3", "nvfp4"}) {
    check_ran({"cast", in, out, "--to", format},
              {"a.safetensors: 1 tensor cast", "c.safetensors: nothing to cast, 1 tensor copied"});
    for (const char* name : {"/a.safetensors", "/b.safetensors"}) {
      check_ran({"cast", in + name, folder.path() + "/alone.safetensors", "--to", format});
      CHECK((read_file(out + name) == read_file(folder.path() + "/alone.safetensors")));
    }
    CHECK(data_of(read_file(out + "/c.safetensors")) == "1234");
    const Json index = Json::parse(read_file(out + "/model.safetensors.index.json"));
    CHECK(index["weight_map"].size() == (format[0] == 'e' ? 4 : 8));
    CHECK(index["weight_map"]["v"] == "b.safetensors");
    CHECK(index["metadata"]["total_size"] ==
          data_of(read_file(out + "/a.safetensors")).size() + data_of(read_file(out + "/b.safetensors")).size() + 4);
    CHECK(run({"compare", out, out + "/model.safetensors.index.json"}).status == 0);
  }
  CHECK(run({"compare", in, out}).status == 1);
  check_ran({"cast", in, out, "--to", "e4m3", "--tensors", "^v$"}, {"a.safetensors: nothing to cast"});
  std::filesystem::remove(folder.path() + "/in/model.safetensors.index.json");
  folder.write("in/d.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (32,), }", raw(some_floats(32))));
  const Json rows = narrow_json({"cast", in, folder.path() + "/loose", "--to", "mxfp8"});
  CHECK(rows.size() == 4);
  CHECK(rows[3]["file"] == folder.path() + "/loose/d.safetensors");
  CHECK(!std::filesystem::exists(folder.path() + "/loose/model.safetensors.index.json"));
  check_refused({"cast", in, in, "--to", "fp16"}, {"another folder"});
  folder.write("in/d.safetensors", safetensors_of({{"x", "F32", "[1]", "1234"}}));
  check_refused({"cast", in, folder.path() + "/loose", "--to", "mxfp8"}, {"two files", "d.safetensors"});
  check_refused({"compare", in, folder.path() + "/loose", "--tensors", "nothing"}, {"no name", "nothing"});
}

TEST_CASE("apps: an interrupted cast leaves the old file") {
  const Folder folder;
  const std::string in = folder.write("in.safetensors", floats_file("w", some_floats(2000000)));
  const std::string out = folder.write("out.safetensors", "the old file");
  // The limit on file sizes ends the program in the middle of its writing (or refuses the write).
  const Ran ran = run_program(
      {"/bin/sh", "-c", "ulimit -f 200; exec " NARROW_PROGRAM " cast '" + in + "' '" + out + "' --to fp16"});
  CHECK(ran.status != 0);
  CHECK(read_file(out) == "the old file");
  const Ran full = run({"cast", in, "/dev/full/out.safetensors", "--to", "fp16"});
  CHECK(full.status == 2);
}

TEST_CASE("apps: stochastic casts have the same bits for any number of threads") {
  const Folder folder;
  const std::vector<float> values = some_floats(300000);
  const std::string in = folder.write("in.safetensors", floats_file("w", values));
  std::vector<std::string> results;
  for (const char* threads : {"1", "2", "5"}) {
    const std::string out = folder / ("out" + std::string(threads) + ".safetensors");
    const Ran ran = run({"cast", in, out, "--to", "e4m3", "--rounding", "stochastic", "--seed", "42"},
                        with_environment("OMP_NUM_THREADS", threads));
    CHECK(ran.status == 0);
    results.push_back(read_file(out));
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
  const std::string data = data_of(results[0]);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto code =
        narrow::encode(values[i], "e4m3"_fmt, {.rounding = narrow::Rounding::stochastic}, narrow::random_bits(42, i));
    wrong += static_cast<char>(code) != data[i] ? 1 : 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("apps: requests that cast cannot meet are refused") {
  const Folder folder;
  const std::string in = folder.write("in.safetensors", floats_file("w", {1, 2}));
  const std::string ints = folder.write("i.safetensors", safetensors_of({{"w", "I32", "[1]", "1234"}}));
  const std::string out = folder / "out.safetensors";
  check_refused({"cast", in, "--to", "fp16"}, {"IN and OUT"});
  check_refused({"cast", in, out}, {"--to"});
  check_refused({"cast", in, out, "--to", "fp8"}, {"--to", "e4m3", "e5m2"});
  check_refused({"cast", in, out, "--to", "fp16", "--rounding", "sideways"}, {"--rounding"});
  check_refused({"cast", in, out, "--to", "fp16", "--cast", "cuda", "--rounding", "to_odd"}, {"cuda", "to_odd"});
  check_refused({"cast", in, out, "--to", "fp16", "--seed", "1"}, {"--seed", "stochastic"});
  check_refused({"cast", in, folder / "out.txt", "--to", "fp16"}, {".safetensors", ".npy"});
  check_refused({"cast", ints, out, "--to", "fp16"}, {"--format"});
  check_refused({"cast", ints, out, "--to", "fp16", "--format", "bf16"}, {"--format"});
  check_refused({"cast", in, folder / "no" + std::string("/such/o.safetensors"), "--to", "fp16"}, {"o.safetensors"});
  CHECK(!std::filesystem::exists(out));
}

TEST_CASE("apps: gradients of PyTorch go to FP16 and back exactly") {
  const Folder folder;
  const std::string given_file = NARROW_DATA "/torch/micro_batches.safetensors";
  const std::string half = folder / "half.safetensors", back = folder / "back.safetensors";
  check_ran({"cast", given_file, half, "--to", "fp16"}, {"1 tensor cast to fp16 codes in F16"});
  check_ran({"cast", half, back, "--to", "fp32"});
  const std::string before = data_of(read_file(given_file)), middle = data_of(read_file(half)),
                    after = data_of(read_file(back));
  REQUIRE(before.size() == after.size());
  REQUIRE(before.size() == 2 * middle.size());
  CHECK(header_of(read_file(half)).size() == header_of(read_file(given_file)).size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < before.size() / 4; ++i) {
    float x = 0, y = 0;
    std::uint16_t code = 0;
    std::memcpy(&x, before.data() + 4 * i, 4);
    std::memcpy(&y, after.data() + 4 * i, 4);
    std::memcpy(&code, middle.data() + 2 * i, 2);
    wrong += code != narrow::encode(x, "fp16"_fmt) ? 1 : 0;
    wrong += std::bit_cast<std::uint32_t>(y) != std::bit_cast<std::uint32_t>(narrow::round_to(x, "fp16"_fmt)) ? 1 : 0;
  }
  CHECK(wrong == 0);
  const Ran equal = run({"compare", back, back});
  CHECK(equal.status == 0);
  CHECK(contains(equal.out, "131072 of 131072 values equal"));
}
