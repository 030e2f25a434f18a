// The index of a sharded model and its shards 'a' and 'b': the text of the index, the headers of both, each ended by a
// zero byte, one byte that says how many bytes of data 'a' has, and the data.
#include <array>
#include <fstream>

#include "fuzz/read_all.hpp"
#include "tensor/files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string folder = fuzz::scratch_folder();
  std::string rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string, 3> texts;
  for (std::string& text : texts) {
    text = rest.substr(0, rest.find('\0'));
    rest.erase(0, std::min(rest.size(), text.size() + 1));
  }
  const std::size_t in_a = rest.empty() ? 0 : static_cast<unsigned char>(rest[0]);
  rest.erase(0, 1);
  const auto write = [&](const char* name, const std::string& content) {
    std::ofstream(folder + "/" + name, std::ios::binary) << content;
  };
  write("model.safetensors.index.json", texts[0]);
  write("a", test::safetensors(texts[1], rest.substr(0, in_a)));
  write("b", test::safetensors(texts[2], rest.substr(std::min(in_a, rest.size()))));
  fuzz::run([&] { return narrow::open_tensor_file(folder + "/model.safetensors.index.json"); });
  return 0;
}
