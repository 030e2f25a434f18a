// Does numpy read what is written here, and is everything read that numpy writes? Says when numpy is absent.
#include <doctest/doctest.h>

#include "files.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "support/run_program.hpp"

using namespace narrow;

namespace {

// A Python that has numpy; empty when there is none. Debian's packages belong to /usr/bin/python3.
const std::string& python() {
  static const std::string found = [] {
    std::vector<std::string> candidates = {"/usr/bin/python3"};
    const char* path = getenv("PATH");
    std::string folders = path != nullptr ? path : "";
    for (std::size_t at = 0; at < folders.size();
         at = folders.find(':', at) == std::string::npos ? folders.size() : folders.find(':', at) + 1)
      candidates.push_back(folders.substr(at, folders.find(':', at) - at) + "/python3");
    for (const std::string& candidate : candidates)
      if (std::filesystem::exists(candidate) && test::run_program({candidate, "-c", "import numpy"}).status == 0)
        return candidate;
    return std::string();
  }();
  return found;
}

std::string run(const std::string& what, const std::string& folder) {
  const test::Ran ran = test::run_program({python(), NARROW_TEST_SOURCE "/with_numpy.py", what, folder});
  if (!ran.out.empty()) MESSAGE(ran.out);
  return ran.status == 0 ? "" : ran.err;
}

std::string pattern(std::size_t number, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>((31 * i + 17 * number) % 256);
  return bytes;
}

void write_file(const std::string& path, const std::vector<TensorHeader>& headers, const std::string& data,
                std::vector<std::pair<std::string, std::string>> metadata = {}, bool column_major = false) {
  TensorWriter writer(path, headers, std::move(metadata), column_major);
  writer.write(std::as_bytes(std::span(data)));
  writer.finish();
}

// Value k in row-major order is k^2 mod 120, or whether that is not 0.
std::size_t wrong_values(const Tensor& tensor) {
  std::vector<double> values(tensor.values());
  read_values(tensor, 0, std::span(values));
  const auto each = static_cast<std::size_t>(tensor.type.values());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t p = i / each, k = tensor.column_major ? p % 5 * 7 + p / 5 : p;
    const auto whole = static_cast<double>(k * k % 120);
    const double real = tensor.type.kind == ElementKind::boolean ? (whole != 0 ? 1 : 0) : whole;
    wrong += values[i] != (i % each == 0 ? real : 0);
  }
  return wrong;
}

}  // namespace

TEST_CASE("tensor: numpy reads every .npy that is written here and .safetensors follow the rules") {
  if (python().empty()) {
    MESSAGE("skipped: no Python with numpy (Debian: python3-numpy)");
    return;
  }
  const test::Folder folder;
  std::vector<TensorHeader> headers;
  std::string data;
  for (const ElementType& type : element_types()) {
    const TensorHeader header{std::string(type.name), type, {4, 6}};
    const std::string bytes = pattern(headers.size(), header.bytes());
    write_file(folder / (header.name + "_C.npy"), {header}, bytes);
    write_file(folder / (header.name + "_F.npy"), {header}, bytes, {}, true);
    headers.push_back(header);
    data += bytes;
  }
  headers.push_back({"scalar", *find_element_type("F32"), {}});
  headers.push_back({"empty", *find_element_type("F64"), {3, 0}});
  write_file(folder / "all.safetensors", headers, data + "abcd", {{"format", "pt"}, {"quote\"", "\xE2\x82\xAC\n"}});
  CHECK(run("check", folder.path()) == "");
}

TEST_CASE("tensor: every plain array of numpy is read in all versions and orders") {
  if (python().empty()) {
    MESSAGE("skipped: no Python with numpy (Debian: python3-numpy)");
    return;
  }
  const test::Folder folder;
  REQUIRE(run("write", folder.path()) == "");
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string path = entry.path().string();
    if (entry.path().filename().string().find("_v") == std::string::npos) continue;
    CAPTURE(path);
    const Tensor tensor = open_tensor(path);
    CHECK(tensor.shape == std::vector<std::uint64_t>{5, 7});
    CHECK(wrong_values(tensor) == 0);
    ++count;
  }
  CHECK(count == 13 * 2 * 2 * 3);
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    CAPTURE(std::string(name));
    const TensorFile file = open_tensor_file(folder / name);
    CHECK(file.tensors.size() == 13 * 2 * 2);
    for (const Tensor& tensor : file.tensors) {
      CHECK(tensor.column_major == (tensor.name[3] == 'F'));
      CHECK(wrong_values(tensor) == 0);
    }
  }
  CHECK(open_tensor(folder / "scalar.npy").shape.empty());
  CHECK(open_tensor(folder / "empty.npy").elements() == 0);
  CHECK(test::error_of([&] { open_tensor(folder / "object.npy"); }).find("pickled Python code") != std::string::npos);
  CHECK(test::error_of([&] { open_tensor(folder / "structured.npy"); }).find("a structured type") != std::string::npos);
  const Tensor ramp = open_tensor(folder / "large.npz:ramp"), zeros = open_tensor(folder / "large.npz:zeros");
  std::vector<std::uint32_t> codes(1'000'000);
  read_codes(ramp, 0, std::span(codes));
  std::size_t wrong = 0;
  for (std::uint32_t i = 0; i < codes.size(); ++i) wrong += codes[i] != i;
  CHECK(wrong == 0);
  std::vector<float> values(3'000'000, 1.0f);
  read_values(zeros, 0, std::span(values));
  CHECK(values == std::vector<float>(3'000'000, 0.0f));
}
