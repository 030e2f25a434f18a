// Any bytes as .safetensors. Input that begins with '{' is a header (up to a zero byte) and data: the length in front
// of them is made right, so that the fuzzer does not spend its time on guessing it.
#include "fuzz/read_all.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/safetensors.hpp"
#include "tensor/files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  if (file.starts_with('{')) {
    const std::size_t end = std::min(file.find('\0'), file.size());
    file = test::safetensors(file.substr(0, end), file.substr(std::min(end + 1, file.size())));
  }
  fuzz::run([&] {
    narrow::TensorFile opened = narrow::read_safetensors(test::in_memory(file));
    narrow::join_blocks(opened);
    return opened;
  });
  return 0;
}
