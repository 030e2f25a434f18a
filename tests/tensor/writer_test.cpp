// Do files come back as they were written, and does an unfinished one leave what was there before?
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "files.hpp"
#include "narrow/array/pack.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/new_file.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "support/inputs.hpp"

using namespace narrow;
namespace fs = std::filesystem;

namespace {

// Told of every fsync and rename of this program before it happens; what it returns, if not 0, is the failure.
std::function<int(const std::string& call)> on_call;

int told(const std::string& call) {
  errno = on_call ? on_call(call) : 0;
  return errno;
}

}  // namespace

// These stand in for those of the C library.
extern "C" int fsync(int file) {
  struct stat about {};
  fstat(file, &about);
  if (told(S_ISDIR(about.st_mode) ? "sync folder" : "sync " + std::to_string(about.st_size)) != 0) return -1;
  return static_cast<int>(syscall(SYS_fsync, file));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  if (told("rename") != 0) return -1;
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace {

// Writes in pieces of all sizes.
void write_pieces(TensorWriter& writer, const std::string& data) {
  const std::vector<std::byte> bytes = test::bytes_of(data);
  std::size_t size = 0;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    size = std::min(bytes.size() - at, size % 13 + 1);
    writer.write(std::span(bytes).subspan(at, size));
  }
}

std::string text_in(const Tensor& tensor) {
  std::string bytes(tensor.bytes(), '\0');
  tensor.source->read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::size_t files_in(const test::Folder& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
}

TensorHeader header_of(const std::string& name, std::string_view type, std::vector<std::uint64_t> shape) {
  return {name, *find_element_type(type), std::move(shape)};
}

}  // namespace

TEST_CASE("tensor: a .safetensors of every type comes back with names and metadata and shapes") {
  const test::Folder folder;
  std::vector<TensorHeader> headers;
  std::string data;
  for (const ElementType& type : element_types()) {
    headers.push_back(header_of("layer.\"" + std::string(type.name) + "\"\n\\\xC3\xA4", type.name, {4, 6}));
    data += test::random_bytes(headers.back().bytes(), headers.size());
  }
  headers.push_back(header_of("scalar", "F32", {}));
  headers.push_back(header_of("empty", "F64", {3, 0}));
  data += test::random_bytes(4, 77);
  const std::vector<std::pair<std::string, std::string>> metadata = {{"format", "pt"}, {"\x01", "\"\xE2\x82\xAC\""}};
  const std::string path = folder / "all.safetensors";
  TensorWriter writer(path, headers, metadata);
  write_pieces(writer, data);
  writer.finish();
  const TensorFile file = open_tensor_file(path);
  CHECK(file.metadata == metadata);
  REQUIRE(file.tensors.size() == headers.size());
  std::string back;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    CHECK(file.tensors[i].name == headers[i].name);
    CHECK(file.tensors[i].type.name == headers[i].type.name);
    CHECK(file.tensors[i].shape == headers[i].shape);
    back += text_in(file.tensors[i]);
  }
  CHECK(back == data);
  CHECK(files_in(folder) == 1);
  const std::string bytes = test::read_file(path);
  CHECK(static_cast<unsigned char>(bytes[0]) % 8 == 0);
}

TEST_CASE("tensor: a .npy of every type comes back with shape and order and codes") {
  const test::Folder folder;
  for (const ElementType& type : element_types())
    for (const std::vector<std::uint64_t>& shape : {std::vector<std::uint64_t>{4, 6}, {24}, {}, {0, 2}, {2, 3, 4}}) {
      if (shape.empty() && type.bits < 8) continue;
      CAPTURE(std::string(type.name));
      const TensorHeader header{"x", type, shape};
      const std::string data = test::random_bytes(header.bytes(), 5);
      TensorWriter writer(folder / "x.npy", {header}, {}, shape.size() == 2);
      write_pieces(writer, data);
      writer.finish();
      const Tensor back = open_tensor(folder / "x.npy");
      CHECK(back.shape == shape);
      CHECK(back.column_major == (shape.size() == 2));
      // What .npy has no type for comes back as integers that hold the codes.
      const bool kept = type.kind == back.type.kind;
      const Tensor typed = kept ? back : with_format(back, type.format);
      const Tensor there = make_tensor(header, test::bytes_of(data));
      std::vector<std::uint64_t> expected(there.values()), found(typed.values());
      read_codes(there, 0, std::span(expected));
      read_codes(typed, 0, std::span(found));
      CHECK(found == expected);
      CHECK((test::read_file(folder / "x.npy").size() -
             typed.elements() * static_cast<std::uint64_t>(back.type.bits) / 8) %
                64 ==
            0);
    }
}

TEST_CASE("tensor: a writer that is destroyed or fails leaves the old file and nothing else") {
  const test::Folder folder;
  const std::string path = folder.write("a.npy", "old");
  const std::vector<TensorHeader> headers = {header_of("x", "U8", {1'000'000})};
  const std::vector<std::byte> bytes(1'000'000);
  {
    TensorWriter writer(path, headers);
    writer.write(std::span(bytes).first(900'000));
    CHECK(test::read_file(path) == "old");
  }
  CHECK(test::read_file(path) == "old");
  CHECK(files_in(folder) == 1);
  {
    TensorWriter writer(path, headers);
    writer.write(std::span(bytes).first(999'999));
    CHECK(test::error_of([&] { writer.finish(); }).find("999999 of 1000000 bytes came") != std::string::npos);
    CHECK(test::error_of([&] { writer.write(std::span(bytes).first(2)); }).find("more data than the 1000000 bytes") !=
          std::string::npos);
  }
  CHECK(test::read_file(path) == "old");
  TensorWriter writer(path, headers);
  writer.write(bytes);
  writer.finish();
  CHECK(test::read_file(path).size() == 1'000'128);
  CHECK(files_in(folder) == 1);
  CHECK_THROWS_AS(writer.finish(), Error);
}

TEST_CASE("tensor: a writer that is killed leaves the old file") {
  const test::Folder folder;
  const std::string path = folder.write("a.safetensors", "old");
  int ready[2] = {-1, -1};
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    TensorWriter writer(path, {header_of("x", "U8", {1'000'000})});
    writer.write(std::vector<std::byte>(900'000));
    (void)!write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char ignored = 0;
  REQUIRE(read(ready[0], &ignored, 1) == 1);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(test::read_file(path) == "old");
  // Where the file system has files without names, nothing is left at all.
  if (files_in(folder) != 1) MESSAGE("a temporary file is left: this file system has no files without names");
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("tensor: a disk that is full is an error and leaves the old file") {
  const test::Folder folder;
  const std::string path = folder.write("a.npy", "old");
  // A limit on the size of files stands for a full disk; in a child, because limits stay.
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = test::error_of([&] {
      TensorWriter writer(path, {header_of("x", "U8", {1'000'000})});
      writer.write(std::vector<std::byte>(1'000'000));
      writer.finish();
    });
    _exit(message.find("cannot write '" + path + "': ") == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(test::read_file(path) == "old");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("tensor: what cannot be written is refused before a file appears") {
  const test::Folder folder;
  const auto error = [&](const std::string& name, std::vector<TensorHeader> headers,
                         std::vector<std::pair<std::string, std::string>> metadata = {}, bool column_major = false) {
    return test::error_of([&] { TensorWriter(folder / name, std::move(headers), std::move(metadata), column_major); });
  };
  const TensorHeader x = header_of("x", "F32", {2});
  CHECK(error("x.txt", {x}).find("must end in .safetensors or .npy") != std::string::npos);
  CHECK(error("x.npy", {x, x}).find("2 tensors, but .npy holds one") != std::string::npos);
  CHECK(error("x.npy", {}).find("0 tensors, but .npy holds one") != std::string::npos);
  CHECK(error("x.safetensors", {x, x}).find("the key 'x' comes twice") != std::string::npos);
  CHECK(error("x.safetensors", {x}, {{"a", "1"}, {"a", "2"}}).find("__metadata__: the key 'a' comes twice") !=
        std::string::npos);
  CHECK(error("x.safetensors", {x}, {}, true).find("row-major") != std::string::npos);
  CHECK(error("x.safetensors", {header_of("__metadata__", "U8", {1})}).find("cannot be called") != std::string::npos);
  CHECK(error("x.safetensors", {header_of("\xFF", "U8", {1})}).find("not UTF-8") != std::string::npos);
  CHECK(error("x.safetensors", {x}, {{"a", "\xC0\x80"}}).find("not UTF-8") != std::string::npos);
  CHECK(error("x.safetensors", {header_of("x", "F4", {3})}).find("does not fill whole bytes") != std::string::npos);
  CHECK(error("x.safetensors", {header_of("x", "U8", {1ull << 32, 1ull << 32})}).find("is too large") !=
        std::string::npos);
  std::vector<TensorHeader> eight;
  for (const char* name : {"1", "2", "3", "4", "5", "6", "7", "8"})
    eight.push_back(header_of(name, "U8", {1ull << 60}));
  CHECK(error("x.safetensors", eight).find("more data than 2^63 bytes") != std::string::npos);
  CHECK(error("x.safetensors", {header_of(std::string(5000, 'n'), "U8", {1})}).find("a name of more than 4096 bytes") !=
        std::string::npos);
  CHECK(error("x.npy", {header_of("x", "U8", std::vector<std::uint64_t>(17, 1))}).find("more than 16 dimensions") !=
        std::string::npos);
  CHECK(error("none/x.npy", {x}).find("No such file or directory; give a file in a folder that exists") !=
        std::string::npos);
  CHECK(files_in(folder) == 0);
}

TEST_CASE("tensor: a new file keeps permissions and links and never replaces a device") {
  const test::Folder folder;
  const auto write_text = [](const std::string& path, std::string_view text) {
    NewFile file(path);
    file.write(text);
    file.finish();
  };
  const std::string path = folder.write("a.txt", "old");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  write_text(path, "new");
  CHECK(test::read_file(path) == "new");
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read));
  fs::create_symlink("a.txt", folder / "link");
  write_text(folder / "link", "newer");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(test::read_file(path) == "newer");
  fs::create_symlink("nothing", folder / "dangling");
  write_text(folder / "dangling", "x");
  CHECK(fs::is_symlink(folder / "dangling"));
  CHECK(test::read_file(folder / "nothing") == "x");
  fs::create_symlink("circle", folder / "circle");
  CHECK(test::error_of([&] { write_text(folder / "circle", "x"); }).find("symbolic links") != std::string::npos);
  CHECK(fs::is_symlink(folder / "circle"));
  write_text("/dev/null", "x");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_THROWS_AS(NewFile{folder.path()}, Error);
  CHECK_THROWS_AS(NewFile{""}, Error);
  CHECK(test::error_of([&] { write_text("/dev/full", "x"); }).find("cannot write '/dev/full': No space left") == 0);
  write_text(folder / "fresh", "");
  CHECK(fs::file_size(folder / "fresh") == 0);
  struct stat about {};
  REQUIRE(stat((folder / "fresh").c_str(), &about) == 0);
  const mode_t mask = umask(0);
  umask(mask);
  CHECK((about.st_mode & 0777) == (0666 & ~mask));
}

TEST_CASE("tensor: data are on the disk before they get their name and the name before success is told") {
  const test::Folder folder;
  const std::string path = folder.write("a.txt", "old");
  unsetenv("NARROW_NO_SYNC");
  std::vector<std::string> calls;
  std::string fails;
  on_call = [&](const std::string& call) {
    calls.push_back(call);
    return call == fails ? EIO : 0;
  };
  const auto error = [&] {
    calls.clear();
    return test::error_of([&] {
      NewFile file(path);
      file.write("news");
      file.finish();
    });
  };
  CHECK(error() == "");
  CHECK(calls == std::vector<std::string>{"sync 4", "rename", "sync folder"});
  folder.write("a.txt", "old");
  for (const std::string call : {"sync 4", "rename"}) {
    CAPTURE(call);
    fails = call;
    CHECK(error() == "cannot write '" + path + "': Input/output error; what was there before is unchanged");
    CHECK(test::read_file(path) == "old");
    CHECK(files_in(folder) == 1);
  }
  fails = "sync folder";
  CHECK(error().find("it is whole, but its folder cannot be synced: Input/output error") != std::string::npos);
  CHECK(test::read_file(path) == "news");
  CHECK(files_in(folder) == 1);
  // What a signal handler removes on the way out is the temporary file and nothing else.
  folder.write("a.txt", "old");
  on_call = [&](const std::string& call) {
    if (call == "rename") NewFile::remove_temporaries();
    return 0;
  };
  CHECK(error().find("No such file") != std::string::npos);
  CHECK(test::read_file(path) == "old");
  CHECK(files_in(folder) == 1);
  fails = "";
  on_call = [&](const std::string& call) { return calls.push_back(call), 0; };
  setenv("NARROW_NO_SYNC", "1", 1);
  CHECK(error() == "");
  CHECK(calls == std::vector<std::string>{"rename"});
  on_call = nullptr;
}
