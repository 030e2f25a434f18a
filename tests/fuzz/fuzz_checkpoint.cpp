// Changes to a good checkpoint of a tiny run, with the checksum made right again, so that the checks of its fields are
// reached: 'P' and a text instead of its progress; '{', a header up to a zero byte, and data; else edits of three
// bytes: where (16 bits, once around the file) and what. 'R' and any bytes are a file as they are.
#include <sys/mman.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "fuzz/read_all.hpp"
#include "narrow/tensor/crc32.hpp"
#include "narrow/train/run/checkpoint.hpp"
#include "tensor/files.hpp"

namespace {

using namespace narrow::train;

RunRequest tiny_run() {
  RunRequest request;
  request.recipe = require_recipe("fp8-delayed");
  request.recipe.loss_scaler = "torch:init=2^24:growth-interval=2";
  request.steps = 1000;
  request.batch = 2;
  request.threads = 1;
  request.shape = settings_of(request.task).shape;
  request.shape->hidden = {2};
  return request;
}

std::string good_checkpoint() {
  Trainer trainer(tiny_run());
  for (int i = 0; i < 4; ++i) trainer.step();
  const test::Folder folder;
  write_checkpoint(folder / "a.safetensors", trainer);
  return test::read_file(folder / "a.safetensors");
}

std::string with_checksum(std::string file) {
  const std::string key = "\"checksum\":\"";
  const std::size_t at = file.find(key) + key.size();
  if (file.find(key) == std::string::npos || at + 8 > file.size()) return file;
  file.replace(at, 8, "00000000");
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", narrow::crc32_of(0, std::as_bytes(std::span(file))));
  return file.replace(at, 8, digits);
}

std::string input_file(std::string input, const std::string& good) {
  const std::size_t header = static_cast<unsigned char>(good[0]) | static_cast<unsigned char>(good[1]) << 8;
  if (input.starts_with('R')) return input.substr(1);
  if (input.starts_with('{')) {
    const std::size_t end = std::min(input.find('\0'), input.size());
    return with_checksum(test::safetensors(input.substr(0, end), input.substr(std::min(end + 1, input.size()))));
  }
  if (input.starts_with('P')) {
    auto json = nlohmann::ordered_json::parse(good.substr(8, header));
    json["__metadata__"]["progress"] = input.substr(1);
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;
    return with_checksum(test::safetensors(json.dump(-1, ' ', false, replace), good.substr(8 + header)));
  }
  std::string file = good;
  for (std::size_t i = 0; i + 2 < input.size(); i += 3) {
    const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(input[i + k]); };
    file[(byte(0) | static_cast<std::size_t>(byte(1)) << 8) % file.size()] = input[i + 2];
  }
  return with_checksum(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string good = good_checkpoint();
  static Trainer trainer(tiny_run());
  static const int file = memfd_create("checkpoint", 0);
  const std::string bytes = input_file(std::string(reinterpret_cast<const char*>(data), size), good);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  fuzz::require(ftruncate(file, 0) == 0 && pwrite(file, bytes.data(), bytes.size(), 0) == ssize_t(bytes.size()));
  try {
    read_checkpoint(path, trainer);
  } catch (const narrow::Error& error) {
    fuzz::check_message(error.what());
    return 0;
  }
  fuzz::require(read_progress(path).steps == trainer.rows().size());
  if (!trainer.finished()) trainer.step();
  return 0;
}
