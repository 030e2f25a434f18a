// A model on disk: a folder with config.json and .safetensors, in shards with an index or not, or one such file; and
// how another one is made of it, file by file.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cli/json_value.hpp"
#include "narrow/tensor/tensor_file.hpp"

namespace app {

// One file of tensors.
struct Shard {
  std::string path;                // "" of one that nobody wrote yet
  std::string name;                // within the folder
  std::vector<std::string> names;  // of the tensors as they lie in it, in the order of their data
  std::vector<std::pair<std::string, std::string>> metadata;
};

struct Model {
  std::string path;
  bool is_folder = false;
  std::vector<narrow::TensorFile> files;  // what is read as one: an index with its shards, or a file
  std::vector<Shard> shards;              // of all files
  std::string index;                      // "" where there is none

  // The tensor that begins with the one of this name in a file, or is the one; nullptr for a part of another.
  const narrow::Tensor* tensor_at(const std::string& stored_name) const;
  const narrow::Tensor* find(const std::string& name) const;  // nullptr when there is none

 private:
  friend Model open_model(const std::string& path, const char* command);
  std::unordered_map<std::string, const narrow::Tensor*> places_, names_;
};

// Error where a tensor cannot be read: what is made of a model is made of all of it.
Model open_model(const std::string& path, const char* command);

// What a tensor becomes: tensors under their names, and what writes their bytes, one after the other.
struct Converted {
  std::vector<narrow::TensorHeader> headers;
  std::function<void(const std::function<void(std::span<const std::byte>)>&, const narrow::BytesDone&)> write;
  bool is_changed = false;
  std::vector<std::pair<std::string, std::string>> metadata = {};
};
Converted copied(const narrow::Tensor& tensor);

struct ConvertedModel {
  std::uint64_t bytes_before = 0, bytes_after = 0;  // of the files of tensors
  std::size_t changed = 0, kept = 0, shards = 0, other_files = 0;
};

// Writes the model that `convert` makes of each tensor: shards under their names, then all other files of the folder as
// they are, then config.json as `edit` leaves it, extra files, and the index last, because it names files that are
// there.
struct Conversion {
  const char* command;
  std::function<Converted(const narrow::Tensor&)> convert;
  std::function<void(Json& config)> edit;
  std::vector<std::string> left_out = {};  // files that are true of the old model only
  std::function<std::vector<std::pair<std::string, std::string>>()> extra = {};  // files that are new, with their text
};
ConvertedModel convert_model(const Model& from, const std::string& to, const Conversion& how);

}  // namespace app
