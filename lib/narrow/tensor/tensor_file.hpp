// Opens .safetensors, sharded .safetensors, .npy, .npz and .gguf. Every number in a header is checked against the file
// before it is used; data is mapped or inflated only when read.
//
//   const TensorFile file = open_tensor_file("model.safetensors");
//   for (const Tensor& tensor : file.tensors) std::puts(tensor.name.c_str());
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "narrow/tensor/tensor.hpp"

namespace narrow {

// The kinds of file that are read.
enum class FileKind : std::uint8_t { safetensors, sharded_safetensors, npy, npz, gguf };
// As messages call it.
std::string_view file_kind_name(FileKind kind);

// A tensor that the file has and that cannot be read, and why.
struct Unreadable {
  std::string name, why;
};

// What a file holds.
struct TensorFile {
  std::string path;
  FileKind kind = FileKind::safetensors;
  std::uint64_t bytes = 0;                                    // of the file, shards included
  std::vector<Tensor> tensors;                                // in the order of their data
  std::vector<std::pair<std::string, std::string>> metadata;  // of .safetensors
  std::vector<Tensor> parts = {};           // the scales of block-quantised tensors, which `tensors` holds as a whole
  std::vector<Unreadable> unreadable = {};  // left out of `tensors`; a file of nothing else is an Error
  std::vector<std::string> shards = {};     // of an index: the files beside it

  const Tensor* find(std::string_view name) const;  // parts by name as well; nullptr when there is none
};

// path: a file, a folder's model.safetensors.index.json, or "-" for standard input (read whole, kind by content).
// One broken tensor of several is left out and told in `unreadable`. Throws Error of one line: the file, what is wrong,
// the byte offset or key where known, and what would be right.
TensorFile open_tensor_file(const std::string& path);

// "FILE" or "FILE:TENSOR". The one tensor of a file that holds one; else Error that lists (some of) the names.
Tensor open_tensor(const std::string& file_and_name);
// The same, split: a colon that is part of an existing file name is not taken for a separator.
std::pair<std::string, std::string> split_file_and_name(const std::string& file_and_name);

// While it lives, what opens files in this thread finds these by name, before any file: for callers whose tensors lie
// in memory and whose requests name files. One that lives inside another hides it.
class TensorsInMemory {
 public:
  explicit TensorsInMemory(std::vector<Tensor> tensors);
  ~TensorsInMemory();
  TensorsInMemory(const TensorsInMemory&) = delete;
  TensorsInMemory& operator=(const TensorsInMemory&) = delete;

 private:
  std::vector<Tensor> tensors_;
  const std::vector<Tensor>* outer_;
};

}  // namespace narrow
