// A model in several .safetensors files and the model.safetensors.index.json that says which tensor is where.
#pragma once

#include "narrow/tensor/mapped_file.hpp"

namespace narrow {

struct TensorFile;
// The shards lie beside the index; the index and the shards must agree on every name.
TensorFile read_sharded(std::shared_ptr<const MappedFile> index);

}  // namespace narrow
