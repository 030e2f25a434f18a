// Any bytes as .gguf.
#include "fuzz/read_all.hpp"
#include "narrow/tensor/gguf.hpp"
#include "tensor/files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file(reinterpret_cast<const char*>(data), size);
  fuzz::run([&] { return narrow::read_gguf(test::in_memory(file)); });
  return 0;
}
