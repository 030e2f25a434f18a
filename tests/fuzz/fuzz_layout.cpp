// Quantised tensors in the layouts of checkpoints: a line of JSON that is quantization_config, a header of .safetensors (up to a zero
// byte) and data.
#include <nlohmann/json.hpp>

#include "fuzz/read_all.hpp"
#include "narrow/tensor/layout/layout.hpp"
#include "narrow/tensor/safetensors.hpp"
#include "tensor/files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  nlohmann::json config = nlohmann::json::parse(input.substr(0, line), nullptr, false);
  if (!config.is_object()) config = nlohmann::json::object();
  const std::string rest = input.substr(std::min(line + 1, input.size()));
  const std::size_t end = std::min(rest.find('\0'), rest.size());
  const std::string file = test::safetensors(rest.substr(0, end), rest.substr(std::min(end + 1, rest.size())));
  fuzz::run([&] {
    narrow::TensorFile opened = narrow::read_safetensors(test::in_memory(file));
    narrow::join_blocks(opened, config);
    return opened;
  });
  return 0;
}
