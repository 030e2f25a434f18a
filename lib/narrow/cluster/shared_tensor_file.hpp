// A .safetensors file that a crew writes together, each rank its part; it appears whole or not at all.
#pragma once

#include <memory>

#include "narrow/cluster/crew.hpp"
#include "narrow/tensor/new_file.hpp"
#include "narrow/tensor/tensor.hpp"

namespace narrow::cluster {

class SharedTensorFile {
 public:
  // All ranks alike; header order is data order.
  SharedTensorFile(Crew& crew, const std::string& path, std::span<const TensorHeader> headers,
                   std::span<const std::pair<std::string, std::string>> metadata);
  void write(std::uint64_t offset, std::span<const std::byte> bytes);  // offset: in the data
  void finish();                                                       // all ranks, when all is written

 private:
  Crew& crew_;
  std::uint64_t data_begin_ = 0;
  std::unique_ptr<NewFile> file_;
};

}  // namespace narrow::cluster
