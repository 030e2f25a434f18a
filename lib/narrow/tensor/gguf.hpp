// GGUF, as llama.cpp writes it: a list of keys, a list of tensors, and data in blocks with their scales inside.
#pragma once

#include <memory>

namespace narrow {

class MappedFile;
struct TensorFile;

// Types whose blocks are not read become unreadable tensors. Throws Error without the name of the file.
TensorFile read_gguf(std::shared_ptr<const MappedFile> file);

}  // namespace narrow
