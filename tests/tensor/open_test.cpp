// Does opening say what a file is, what it is not, and which of its tensors was meant?
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "archive.hpp"
#include "narrow/tensor/tensor_file.hpp"

using namespace narrow;
namespace fs = std::filesystem;

namespace {

const std::string u8 = R"({"dtype":"U8","shape":[2],"data_offsets":)";
std::string one_tensor() { return test::safetensors(R"({"w":)" + u8 + "[0,2]}}", "ab"); }
std::string two_tensors() {
  return test::safetensors(R"({"layer.weight":)" + u8 + R"([0,2]},"layer:bias":)" + u8 + "[2,4]}}", "abcd");
}

std::string open_error(const std::string& path) {
  return test::error_of([&] { open_tensor_file(path); });
}

// Runs body with standard input from a file or a pipe.
template <class Body>
void with_input(int file, const Body& body) {
  const int old = dup(STDIN_FILENO);
  dup2(file, STDIN_FILENO);
  close(file);
  try {
    body();
  } catch (...) {
    dup2(old, STDIN_FILENO);
    close(old);
    throw;
  }
  dup2(old, STDIN_FILENO);
  close(old);
}

}  // namespace

TEST_CASE("tensor: what is no tensor file is named for what it is") {
  const test::Folder folder;
  struct Wrong {
    std::string name, content, message;
  };
  const std::vector<Wrong> all = {
      {"empty.safetensors", "", "an empty file"},
      {"empty.npy", "", "an empty file"},
      {"text.safetensors", "1.0, 2.0\n3.0, 4.0\n", "text, not a tensor file: it begins with '1.0, 2.0"},
      {"text.npy", "# a table\n1 2 3\n", "text, not a tensor file"},
      {"page.safetensors", "<!DOCTYPE html><html>\xC3\xA4</html>",
       "text, not a tensor file: it begins with '<!DOCTYPE html>"},
      {"json.safetensors", R"({"w":[1,2,3], "v": 4})", "text, not a tensor file"},
      {"pointer.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "git lfs pull"},
      {"model.gguf", std::string("GGUF\x03\0\0\0\x09", 9) + std::string(100, '\0'),
       "9 tensors, more than the file can have"},
      {"data.h5", "\x89HDF\r\n\x1a\n" + std::string(100, '\0'), "an HDF5 file"},
      {"a.safetensors.gz", "\x1f\x8b\x08" + std::string(100, '\0'), "compressed with gzip"},
      {"old.pt", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "safetensors.torch.save_file"},
      {"old.safetensors", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "a PyTorch pickle"},
      {"new.pth", test::archive({test::stored("archive/data.pkl", "\x80\x02}")}), "safetensors.torch.save_file"},
      {"strange.pt", "\x01\x02\x03\x04\x05\x06\x07\x08\x09", "a PyTorch pickle"},
      {"strange.npy", "\x01\x02\x03\x04\x05\x06\x07\x08\x09", "does not begin with \\x93NUMPY"},
      {"strange.npz", "\x01\x02\x03\x04\x05\x06\x07\x08\x09", "does not begin with PK"},
      {"strange.bin", "\x01\x02\x03\x04\x05\x06\x07\x08\x09", "neither .safetensors nor .npy nor .npz"},
      {"short.safetensors", "\x01\x02\x03", "only 3 bytes"},
  };
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.name);
    const std::string path = folder.write(wrong.name, wrong.content), message = open_error(path);
    CAPTURE(message);
    CHECK(message.starts_with("'" + path + "': "));
    CHECK(test::is_one_line(message));
    CHECK(message.find(wrong.message) != std::string::npos);
  }
}

TEST_CASE("tensor: files that cannot be opened say why and pipes do not block") {
  const test::Folder folder;
  CHECK(open_error(folder / "none.npy") == "'" + (folder / "none.npy") + "': no such file");
  CHECK(open_error("").find("a file without a name") == 0);
  CHECK(open_error(std::string("a\0b", 3)).find("no such file") != std::string::npos);
  CHECK(open_error(folder / "none\n.npy").find("none\\x0A.npy': no such file") != std::string::npos);
  CHECK(open_error(folder.path()).find("a folder, not a file") != std::string::npos);
  folder.write("model.safetensors.index.json", "{}");
  CHECK(open_error(folder.path()).find("give the file in it: '" + (folder / "model.safetensors.index.json") + "'") !=
        std::string::npos);
  CHECK(open_error(folder / "model.safetensors.index.json/x").find("no such file") != std::string::npos);
  REQUIRE(mkfifo((folder / "pipe.npy").c_str(), 0600) == 0);
  CHECK(open_error(folder / "pipe.npy").find("a pipe or a device, not a file; to read from a pipe give -") !=
        std::string::npos);
  CHECK(open_error("/dev/null").find("a pipe or a device") != std::string::npos);
  const std::string path = folder.write("locked.npy", "x");
  fs::permissions(path, fs::perms::none);
  // Root reads everything: as nobody, for a moment.
  const bool root = geteuid() == 0;
  if (root) REQUIRE(seteuid(65534) == 0);
  const std::string message = open_error(path);
  if (root) REQUIRE(seteuid(0) == 0);
  CHECK(message.find("cannot be read: permission denied") != std::string::npos);
}

TEST_CASE("tensor: kinds are recognised by content whatever the file is called") {
  const test::Folder folder;
  CHECK(open_tensor_file(folder.write("a.bin", one_tensor())).kind == FileKind::safetensors);
  CHECK(open_tensor_file(folder.write("b.dat", test::npy_of("|u1", "(2,)", "ab"))).kind == FileKind::npy);
  CHECK(open_tensor_file(folder.write("c", test::archive({test::stored("x.npy", test::npy_of("|u1", "(2,)", "ab"))})))
            .kind == FileKind::npz);
  // 640 bytes of header: the file begins with 80 02, as a pickle does.
  std::string json = "{}";
  json.resize(640, ' ');
  CHECK(open_tensor_file(folder.write("d.safetensors", test::safetensors(json))).tensors.empty());
  for (const FileKind kind : {FileKind::safetensors, FileKind::sharded_safetensors, FileKind::npy, FileKind::npz})
    CHECK(!file_kind_name(kind).empty());
}

TEST_CASE("tensor: FILE:TENSOR names one tensor and a file of one needs no name") {
  const test::Folder folder;
  const std::string one = folder.write("one.safetensors", one_tensor()),
                    two = folder.write("two.safetensors", two_tensors());
  CHECK(open_tensor(one).name == "w");
  CHECK(open_tensor(two + ":layer.weight").name == "layer.weight");
  CHECK(open_tensor(two + ":layer:bias").name == "layer:bias");
  CHECK(test::error_of([&] {
          open_tensor(two);
        }).find("holds 2 tensors; name one as FILE:TENSOR: 'layer.weight', 'layer:bias'") != std::string::npos);
  const std::string wrong = test::error_of([&] { open_tensor(two + ":layer.weigth"); });
  CHECK(wrong.find("no tensor 'layer.weigth'; did you mean 'layer.weight'?") != std::string::npos);
  CHECK(test::error_of([&] { open_tensor(folder / "none.npy:x"); }) == "'" + (folder / "none.npy") + "': no such file");
  CHECK(test::error_of([&] {
          open_tensor(folder.write("no.safetensors", test::safetensors("{}")));
        }).find("holds no tensor") != std::string::npos);
  const std::string colon = folder.write("a:b.safetensors", one_tensor());
  CHECK(open_tensor(colon).name == "w");
  CHECK(open_tensor(colon + ":w").name == "w");
  CHECK(split_file_and_name(colon + ":w") == std::pair(colon, std::string("w")));
  CHECK(split_file_and_name("-") == std::pair(std::string("-"), std::string()));
  CHECK(split_file_and_name("-:a:b").second.size() == 3);
  CHECK(split_file_and_name("nowhere").first == "nowhere");
  CHECK(split_file_and_name(":").first == ":");
}

TEST_CASE("tensor: standard input is read whole from a file and from a pipe") {
  const test::Folder folder;
  const std::string path = folder.write("two.safetensors", two_tensors());
  const auto check = [] {
    const Tensor tensor = open_tensor("-:layer:bias");
    std::vector<std::uint8_t> codes(2);
    read_codes(tensor, 0, std::span(codes));
    CHECK(codes == std::vector<std::uint8_t>{'c', 'd'});
  };
  with_input(open(path.c_str(), O_RDONLY), check);
  const auto with_pipe = [](const std::string& content, const auto& body) {
    int ends[2] = {-1, -1};
    REQUIRE(pipe(ends) == 0);
    std::thread writer([&] {
      for (const char c : content) (void)!write(ends[1], &c, 1);
      close(ends[1]);
    });
    with_input(ends[0], body);
    writer.join();
  };
  with_pipe(two_tensors(), check);
  with_pipe("", [] { CHECK(open_error("-") == "'standard input': an empty file"); });
  with_pipe("hello", [] { CHECK(open_error("-").find("text, not a tensor file") != std::string::npos); });
  with_pipe(std::string(1001, 'x'), [] {
    CHECK(test::error_of([] { MappedFile::standard_input(1000); }) ==
          "standard input: more than 1000 bytes came through a pipe; save them to a file and give that");
  });
  with_input(open("/dev/zero", O_RDONLY), [] { CHECK(open_error("-").find("a device") != std::string::npos); });
  with_input(open(folder.path().c_str(), O_RDONLY),
             [] { CHECK(open_error("-").find("a folder") != std::string::npos); });
}

TEST_CASE("tensor: a file that is cut while it is read is an error and not a crash") {
  const test::Folder folder;
  std::string data(100'000, 'x');
  const std::string path = folder.write("a.npy", test::npy_of("|u1", "(100000,)", data));
  const Tensor tensor = open_tensor(path);
  std::vector<std::uint8_t> codes(100'000);
  read_codes(tensor, 0, std::span(codes));
  fs::resize_file(path, 5000);
  CHECK(test::error_of([&] {
          read_codes(tensor, 0, std::span(codes));
        }).find("became shorter while it was read (5000 of") != std::string::npos);
}
