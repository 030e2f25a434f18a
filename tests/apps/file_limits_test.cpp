// What a file can make the program do: memory, time, and how it ends when a file is cut or a limit is hit.
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "narrow/tensor/crc32.hpp"
#include "tensor/archive.hpp"
#include "tensor_files.hpp"

namespace {

using namespace test;

// A deflated stream of `begin` (stored) and then zeros, 258 of them in 13 bits: the fixed code has 11000101 for "copy
// 258", 00000 for "from one byte before", 00110000 for a zero, 0000000 for the end; bits come from the lowest on.
std::string deflated_zeros(const std::string& begin, std::uint64_t zeros) {
  std::string out = deflated_as_is(begin);
  out[0] = 0;  // not the last block
  unsigned held = 0;
  int bits = 0;
  const auto put = [&](std::string_view code) {
    for (const char c : code) {
      held |= static_cast<unsigned>(c - '0') << bits;
      if (++bits == 8) out += static_cast<char>(held), held = 0, bits = 0;
    }
  };
  put("110");  // the last block; the fixed code
  if (zeros > 0) put("00110000"), --zeros;
  for (; zeros >= 258; zeros -= 258) put("1100010100000");
  for (; zeros > 0; --zeros) put("00110000");
  put("0000000");
  if (bits > 0) out += static_cast<char>(held);
  return out;
}

std::uint32_t crc_of_zeros_after(const std::string& begin, std::uint64_t zeros) {
  std::uint32_t crc = narrow::crc32_of(0, bytes_of(begin));
  const std::vector<std::byte> piece(1 << 20);
  for (; zeros > 0; zeros -= std::min<std::uint64_t>(zeros, piece.size()))
    crc = narrow::crc32_of(crc, std::span(piece).first(std::min<std::uint64_t>(zeros, piece.size())));
  return crc;
}

// An .npz member of zeros.
Member zeros_member(const std::string& name, const std::string& shape, std::uint64_t bytes, bool fortran) {
  const std::string begin = npy_of("<f4", shape, "", fortran);
  return {.name = name,
          .data = deflated_zeros(begin, bytes),
          .method = 8,
          .size = begin.size() + bytes,
          .crc = crc_of_zeros_after(begin, bytes)};
}

#if defined(__SANITIZE_THREAD__)
constexpr long most_kib = 3 << 19;  // the shadow of every byte that was read, four times as large, stays: 2^30 for 2^28
#elif defined(__SANITIZE_ADDRESS__)
constexpr long most_kib = 1 << 20;  // the shadow and the quarantine of a sanitizer
#else
// The program, pieces of 2^22 values, and 32 MiB of what is looked at; in builds with CUDA what cuBLASLt brings along.
constexpr long most_kib = (NARROW_HAS_CUDA ? 280 : 120) << 10;
#endif

Ran limited(const std::string& limits, const std::string& arguments) {
  return run_program({"/bin/sh", "-c", limits + "; exec '" NARROW_PROGRAM "' " + arguments});
}

}  // namespace

TEST_CASE("apps: the memory that an archive takes does not follow what it inflates to") {
  const Folder folder;
  const std::uint64_t bytes = std::uint64_t{1} << 27;  // in 0.9 MiB of file
  const std::string large = folder.write("f.npz", archive({zeros_member("a.npy", "(8192, 4096)", bytes, true)}));
  for (const std::vector<std::string>& request :
       {std::vector<std::string>{"cast", large, folder / "o.npy", "--to", "e4m3"}, {"compare", large, large}}) {
    // In memory where that is possible: what is inflated to is not what is measured.
    const Ran ran = run(request, with_environment("TMPDIR", std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp"));
    CAPTURE(request[0]);
    CAPTURE(ran.err);
    CHECK(ran.status == 0);
    CHECK(ran.peak_kib < most_kib);
  }
  CHECK(std::filesystem::file_size(folder / "o.npy") == bytes / 4 + 128);
  std::vector<Member> members(8000, zeros_member("a.npy", "(4096,)", 16384, false));  // 40 KiB each to inflate
  for (std::size_t i = 0; i < members.size(); ++i) members[i].name = std::to_string(i) + ".npy";
  const Ran many = run({"inspect", folder.write("many.npz", archive(members))});
  CHECK(many.status == 0);
  CHECK(many.peak_kib < most_kib);
}

TEST_CASE("apps: the time of inspect and cast and compare grows with the tensors and not with their square") {
  const Folder folder;
  constexpr std::size_t few = 1000, factor = 100;
  constexpr double most = 3;  // times the time a tensor; what grows with the square takes 100
  const auto make = [&](std::size_t count) {
    std::vector<Entry> entries;
    std::string metadata;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = "w" + std::to_string(i);
      entries.push_back({name, i % 2 == 0 ? "U16" : "F32", "[1]", std::string(i % 2 == 0 ? 2 : 4, '\0')});
      metadata += (i == 0 ? "{\"narrow.format." : ",\"narrow.format.") + name + "\":\"bf16\"";
    }
    return folder.write(std::to_string(count), safetensors_of(entries, metadata + "}"));
  };
  const std::string small = make(few), large = make(few * factor);
  const auto seconds = [&](const std::string& command, const std::string& file) {
    std::vector<std::string> words{command, file};
    if (command == "cast") words.insert(words.end(), {folder / "o.safetensors", "--to", "fp16"});
    if (command == "compare") words.push_back(file);
    const auto begin = std::chrono::steady_clock::now();
    CHECK(run(words).status == 0);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (const char* command : {"inspect", "cast", "compare"}) {
    CAPTURE(command);
    double short_time = 0, long_time = 1;
    for (int i = 0; i < 3 && long_time > most * factor * short_time; ++i) {  // again where the machine was busy
      short_time = std::min({seconds(command, small), seconds(command, small), seconds(command, small)});
      long_time = seconds(command, large);
    }
    CHECK(long_time <= most * factor * short_time);
  }
}

TEST_CASE("apps: a file that is cut while it is mapped is an error with its name and leaves nothing behind") {
  const Folder folder;
  const std::uint64_t bytes = std::uint64_t{1} << 28;
  const std::string header = npy_of("<f4", "(67108864,)", "");
  // Cut at twelfths of the time that a whole run takes, measured again for each: a busy machine is slower, and the
  // mapping begins later.
  const auto cast = [&](const std::string& path) { return run({"cast", path, folder / "o.npy", "--to", "fp16"}); };
  int cut = 0;
  for (int i = 0; i < 12; ++i) {
    const std::string path = folder.write("a.npy", header);
    std::filesystem::resize_file(path, header.size() + bytes);
    const auto begin = std::chrono::steady_clock::now();
    CHECK(cast(path).status == 0);
    const auto whole = std::chrono::steady_clock::now() - begin;
    std::filesystem::remove(folder / "o.npy");
    std::thread cutter([&] {
      std::this_thread::sleep_for(whole * i / 12);
      std::filesystem::resize_file(path, 4096);
    });
    const Ran ran = cast(path);
    cutter.join();
    CAPTURE(ran.err);
    CHECK((ran.status == 0 || ran.status == 2));
    if (ran.status == 2 && contains(ran.err, "became shorter while it was read")) ++cut;
    if (ran.status == 2) CHECK(contains(ran.err, "narrow: '" + path + "': "));
    CHECK(std::filesystem::exists(folder / "o.npy") == (ran.status == 0));
    std::filesystem::remove(folder / "o.npy");
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  }
  CHECK(cut > 0);
}

TEST_CASE("apps: a limit on the size of files is an error and leaves the old file") {
  const Folder folder;
  const std::string in = folder.write("in.safetensors", floats_file("a", std::vector<float>(100'000)));
  const std::string out = folder.write("out.safetensors", "old");
  const Ran ran = limited("ulimit -f 8", "cast '" + in + "' '" + out + "' --to fp16");
  CHECK(ran.status == 2);
  CHECK(contains(ran.err, "cannot write '" + out + "': File too large; what was there before is unchanged"));
  CHECK(read_file(out) == "old");
}
