#include "narrow/cluster/shared_tensor_file.hpp"

#include "narrow/tensor/safetensors_json.hpp"

namespace narrow::cluster {

SharedTensorFile::SharedTensorFile(Crew& crew, const std::string& path, std::span<const TensorHeader> headers,
                                   std::span<const std::pair<std::string, std::string>> metadata)
    : crew_(crew) {
  const std::string beginning = safetensors_header_text(headers, metadata);
  data_begin_ = beginning.size();
  std::uint64_t size = data_begin_;
  for (const TensorHeader& header : headers) size += header.bytes();
  crew.together([&] {
    if (crew.rank() != 0) return;
    file_ = std::make_unique<NewFile>(path, size);
    file_->write_at(0, std::as_bytes(std::span(beginning)));
  });
  const auto name = from_bytes<std::string>(crew.from_first(to_bytes(file_ ? file_->temporary() : std::string())));
  crew.together([&] {
    if (crew.rank() != 0) file_ = std::make_unique<NewFile>(path, name);
  });
}

void SharedTensorFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  file_->write_at(data_begin_ + offset, bytes);
}

void SharedTensorFile::finish() {
  crew_.together([&] {
    if (crew_.rank() != 0) file_->leave();
  });
  crew_.together([&] {
    if (crew_.rank() == 0) file_->finish();
  });
}

}  // namespace narrow::cluster
