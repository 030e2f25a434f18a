// Are zip archives of arrays read, stored and deflated, and is every lie in them noticed?
#include "narrow/tensor/npz.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "archive.hpp"
#include "narrow/tensor/crc32.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "support/inputs.hpp"

using namespace narrow;
using test::archive;
using test::deflated;
using test::Member;
using test::npy_of;
using test::stored;

namespace {

// Data that differ everywhere: value i is i.
std::string ramp(std::uint32_t count) {
  std::string data;
  for (std::uint32_t i = 0; i < count; ++i) data += test::little_endian(i, 4);
  return data;
}
std::string array(std::uint32_t count) { return npy_of("<u4", "(" + std::to_string(count) + ",)", ramp(count)); }

TensorFile read(const std::string& file) { return read_npz(test::in_memory(file, "a.npz")); }

std::vector<std::uint32_t> all_of(const Tensor& tensor) {
  std::vector<std::uint32_t> codes(tensor.values());
  read_codes(tensor, 0, std::span(codes));
  return codes;
}
bool is_ramp(const std::vector<std::uint32_t>& codes, std::uint64_t first = 0) {
  for (std::size_t i = 0; i < codes.size(); ++i)
    if (codes[i] != first + i) return false;
  return true;
}

// Opening or reading everything; the first error.
std::string error_in(const std::string& file) {
  return test::error_of([&] {
    for (const Tensor& tensor : read(file).tensors) all_of(tensor);
  });
}

Member lie(Member member, void (*change)(Member&)) {
  change(member);
  return member;
}

}  // namespace

TEST_CASE("tensor: the checksum is that of zip") {
  CHECK(crc32_of(0, test::bytes_of("123456789")) == 0xCBF43926);
  for (std::size_t size = 0; size < 70; ++size) {
    const std::string text = ramp(20).substr(3, size);
    CHECK(crc32_of(0, test::bytes_of(text)) == test::slow_crc32(text));
    const std::vector<std::byte> bytes = test::bytes_of(text);
    CHECK(crc32_of(crc32_of(0, std::span(bytes).first(size / 3)), std::span(bytes).subspan(size / 3)) ==
          test::slow_crc32(text));
  }
}

TEST_CASE("tensor: stored members of .npz are read by name") {
  for (const bool zip64 : {false, true}) {
    Member second = stored("b/c.npy", array(5));
    second.zip64 = zip64;
    const TensorFile file =
        read(archive({stored("a.npy", array(3)), second}, {.comment = "a comment", .zip64_end = zip64}));
    CHECK(file.kind == FileKind::npz);
    REQUIRE(file.tensors.size() == 2);
    CHECK(file.tensors[0].name == "a");
    CHECK(file.tensors[1].name == "b/c");
    CHECK(is_ramp(all_of(file.tensors[1])));
    CHECK(file.tensors[1].source->mapped().size() == 20);
  }
  CHECK(read(archive({})).tensors.empty());
}

TEST_CASE("tensor: lies and damage in .npz are refused with one line that says what is wrong") {
  struct Broken {
    std::string name, file, message;
  };
  const std::string good = archive({stored("a.npy", array(3))});
  const auto patched = [&](std::size_t from_end, char byte) {
    std::string file = good;
    file[file.size() - from_end] = byte;
    return file;
  };
  const Member a = stored("a.npy", array(3));
  const std::vector<Broken> all = {
      {"cut before the directory", good.substr(0, good.size() - 30), "without its directory"},
      {"only a local header", "PK\x03\x04", "without its directory"},
      {"bytes after the end", good + "x", "without its directory"},
      {"volumes", patched(18, 1), "several volumes"},
      {"directory begins elsewhere", archive({a}, {.directory_begin = 3}), "does not end where its end record begins"},
      {"directory beyond the file", archive({a}, {.directory_begin = 0xFFFFFFF0}), "does not end where"},
      {"directory of another length", archive({a}, {.directory_bytes = 3}), "does not end where"},
      {"more members than the directory holds", archive({a}, {.members = 2}), "cannot hold 2 members"},
      {"fewer members than the directory holds", archive({a, stored("b.npy", array(1))}, {.members = 1}),
       "longer than its 1 members"},
      {"65534 members in 51 bytes", archive({a}, {.members = 65534}), "cannot hold 65534 members"},
      {"zip64: 2^60 members", archive({a}, {.zip64_end = true, .members = 1ull << 60}), "more than 1048576 members"},
      {"zip64: directory that wraps", archive({a}, {.zip64_end = true, .directory_begin = ~0ull - 4}),
       "does not end where"},
      {"encrypted", archive({lie(a, [](Member& m) { m.flags = 1; })}), "'a.npy': encrypted"},
      {"bzip2", archive({lie(a, [](Member& m) { m.method = 12; })}), "compression method 12"},
      {"data reach into the directory", archive({lie(a, [](Member& m) { m.central_compressed = m.size += 9; })}),
       "reach into the directory"},
      {"data beyond the file", archive({lie(a, [](Member& m) { m.central_compressed = m.size = 0xFFFFFFF0; })}),
       "reach into the directory"},
      {"stored and compressed sizes differ", archive({lie(a, [](Member& m) { m.size += 4; })}), "stored, but"},
      {"no local header", archive({lie(a, [](Member& m) { m.central_local = 1; })}), "no local header at byte 1"},
      {"local header beyond the file", archive({lie(a, [](Member& m) { m.central_local = 0xFFFFFF00; })}),
       "no local header at byte"},
      {"local header of another name", archive({lie(a, [](Member& m) { m.local_name = "b.npy"; })}),
       "says something else"},
      {"local header of another size",
       archive({lie(a,
                    [](Member& m) {
                      m.central_compressed = m.data.size() - 1;
                      m.size = m.data.size();
                    })}),
       "stored, but"},
      {"two names for one member", archive({a, lie(a, [](Member& m) { m.central_local = 0; })}), "overlap"},
      {"duplicate name", archive({a, a}), "'a.npy' comes twice"},
      {"no name", archive({stored("", array(3))}), "a bad name"},
      {"name that is not UTF-8", archive({stored("\xFF.npy", array(3))}), "a bad name"},
      {"name that is too long", archive({stored(std::string(5000, 'n') + ".npy", array(3))}), "a bad name"},
      {"not .npy", archive({stored("readme.txt", "hello")}), "'readme.txt' is no .npy"},
      {"not .npy inside", archive({stored("a.npy", "hello")}), "member 'a.npy': byte 0: no .npy file"},
      {"empty member", archive({stored("a.npy", "")}), "member 'a.npy': byte 0"},
      {"objects inside", archive({stored("a.npy", npy_of("|O", "(1,)", "12345678"))}), "member 'a.npy': type '|O'"},
      {"shape larger than the member", archive({stored("a.npy", npy_of("<u4", "(9,)", "abcd"))}),
       "takes 36 bytes, but 4 follow"},
      {"wrong checksum", archive({lie(a, [](Member& m) { m.crc ^= 1; })}),
       "member 'a.npy': the checksum does not match"},
      {"wrong checksum of no values",
       archive({lie(stored("a.npy", npy_of("<u4", "(0,)", "")), [](Member& m) { m.crc ^= 1; })}),
       "member 'a.npy': the checksum does not match"},
      {"damaged data", archive({lie(a, [](Member& m) { m.data.back() ^= 1; })}),
       "member 'a.npy': the checksum does not match"},
      {"torch", archive({stored("model/data.pkl", "\x80\x02}q"), stored("model/data/0", "x")}),
       "safetensors.torch.save_file"},
      {"torch at the top", archive({stored("data.pkl", "\x80\x02}q")}), "PyTorch pickle"},
  };
  CHECK(error_in(good).empty());
  for (const Broken& broken : all) {
    CAPTURE(broken.name);
    const std::string message = error_in(broken.file);
    CAPTURE(message);
    CHECK(test::is_one_line(message));
    CHECK(message.find(broken.message) != std::string::npos);
  }
}

TEST_CASE("tensor: deflated members of .npz are read in any order and from any thread") {
  constexpr std::uint32_t count = 2'000'000;  // 8 MB: several saved places
  for (const int flags : {0, 8}) {
    Member member = deflated("a.npy", array(count));
    member.flags = flags;
    const TensorFile file = read(archive({member}));
    REQUIRE(file.tensors.size() == 1);
    const Tensor& tensor = file.tensors[0];
    CHECK(tensor.source->mapped().empty());
    CHECK(is_ramp(all_of(tensor)));
    std::vector<std::uint32_t> piece(1000);
    for (std::uint32_t i = 0; i < 50; ++i) {
      const std::uint64_t first = test::mix(i) % (count - piece.size());
      read_codes(tensor, first, std::span(piece));
      CHECK(is_ramp(piece, first));
    }
    std::vector<std::thread> threads;
    std::vector<int> right(4, 0);
    for (std::size_t t = 0; t < right.size(); ++t)
      threads.emplace_back([&, t] {
        std::vector<std::uint32_t> mine(50'000);
        bool all = true;
        for (std::uint64_t first = t * mine.size(); first < count; first += right.size() * mine.size()) {
          read_codes(tensor, first, std::span(mine));
          all = all && is_ramp(mine, first);
        }
        right[t] = all ? 1 : 0;
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(right == std::vector<int>(4, 1));
  }
}

TEST_CASE("tensor: damage in deflated members is refused with one line") {
  struct Broken {
    std::string name, file, message;
  };
  const Member a = deflated("a.npy", array(1000));
  const std::vector<Broken> all = {
      {"wrong checksum", archive({lie(a, [](Member& m) { m.crc ^= 1; })}), "the checksum does not match"},
      {"wrong checksum of no values",
       archive({lie(deflated("a.npy", npy_of("<u4", "(0,)", "")), [](Member& m) { m.crc ^= 1; })}),
       "the checksum does not match"},
      {"damaged values", archive({lie(a, [](Member& m) { m.data.back() ^= 1; })}), "the checksum does not match"},
      {"damaged block", archive({lie(a, [](Member& m) { m.data[0] = 7; })}), "damaged deflated data near byte"},
      {"cut stream", archive({lie(a, [](Member& m) { m.data.resize(m.data.size() - 100); })}), "its data end after"},
      {"stream without its end", archive({lie(a, [](Member& m) { m.data[0] = 0; })}), "do not end where they should"},
      {"bytes after the stream", archive({lie(a, [](Member& m) { m.data += "xyz"; })}), "do not end where they should"},
      {"a bomb by declaration", archive({lie(a, [](Member& m) { m.size = 0xFFFFFF00; })}),
       "cannot inflate to 4294967040"},
      {"declared larger than it is", archive({lie(deflated("a.npy", array(9000)), [](Member& m) { m.size += 400; })}),
       "takes 36000 bytes, but 36400 follow"},
      {"declared and shaped larger than it is",
       archive({lie(deflated("a.npy", npy_of("<u4", "(2000,)", ramp(1000))), [](Member& m) { m.size += 4000; })}),
       "its data end after"},
      {"inflates to more than declared",
       archive({lie(deflated("a.npy", npy_of("<u4", "(1000,)", ramp(2000))), [](Member& m) { m.size -= 4000; })}),
       "inflates to more than"},
      {"no stream",
       archive({lie(a,
                    [](Member& m) {
                      m.data = "";
                      m.size = 100;
                    })}),
       "its data end after 0 of 100"},
  };
  for (const Broken& broken : all) {
    CAPTURE(broken.name);
    const std::string message = error_in(broken.file);
    CAPTURE(message);
    CHECK(test::is_one_line(message));
    CHECK(message.starts_with(
        broken.message.starts_with("cannot") || broken.message.starts_with("takes") ? "member" : "'a.npz': member"));
    CHECK(message.find(broken.message) != std::string::npos);
  }
}

TEST_CASE("tensor: an error in the middle of a deflated member comes again when it is read again") {
  const TensorFile file =
      read(archive({lie(deflated("a.npy", array(100'000)), [](Member& m) { m.data[200'000] ^= 1; })}));
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(all_of(file.tensors[0]), Error);
}

