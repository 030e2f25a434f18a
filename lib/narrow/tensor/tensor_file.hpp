// Opens .safetensors, sharded .safetensors, .npy and .npz. Every number in a header is checked against the file before
// it is used; data is mapped or inflated only when read.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "narrow/tensor/tensor.hpp"

namespace narrow {

enum class FileKind : std::uint8_t { safetensors, sharded_safetensors, npy, npz };
std::string_view file_kind_name(FileKind kind);

struct TensorFile {
  std::string path;
  FileKind kind = FileKind::safetensors;
  std::vector<Tensor> tensors;                                // in the order of their data
  std::vector<std::pair<std::string, std::string>> metadata;  // of .safetensors

  const Tensor* find(std::string_view name) const;  // nullptr when there is none
};

// path: a file, a folder's model.safetensors.index.json, or "-" for standard input (read whole, kind by content).
// Throws Error of one line: the file, what is wrong, the byte offset or key where known, and what would be right.
TensorFile open_tensor_file(const std::string& path);

// "FILE" or "FILE:TENSOR". The one tensor of a file that holds one; else Error that lists (some of) the names.
Tensor open_tensor(const std::string& file_and_name);
// The same, split: a colon that is part of an existing file name is not taken for a separator.
std::pair<std::string, std::string> split_file_and_name(const std::string& file_and_name);

}  // namespace narrow
