// Any bytes as .npy. Input that begins with '{' is a header (up to a newline) and data.
#include "fuzz/read_all.hpp"
#include "narrow/tensor/npy.hpp"
#include "tensor/files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  if (file.starts_with('{')) {
    const std::size_t end = std::min(file.find('\n'), file.size());
    file = test::npy(file.substr(0, end), file.substr(std::min(end + 1, file.size())), 2);
  }
  fuzz::run([&] { return narrow::read_npy(test::in_memory(file)); });
  return 0;
}
