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
  const auto name = from_bytes<std::string>(crew.from_first(to_bytes(NewFile::temporary_of(path))));
  file_ = std::make_unique<NewFile>(path, name);
  crew.together([&] {
    if (crew.rank() != 0) return;
    file_->make(size);
    file_->write_at(0, std::as_bytes(std::span(beginning)));
  });
  crew.together([&] {
    if (crew.rank() != 0) file_->join();
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
  if (crew_.rank() != 0) file_->forget();
}

}  // namespace narrow::cluster
