// The index of a model in shards: which file has which tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace app {

inline constexpr const char* model_index_name = "model.safetensors.index.json";

using ShardOf = std::map<std::string, std::string>;  // tensor to file
// The text of an index of tensors of `total` bytes, with what else the metadata of the old one says.
std::string model_index_text(const ShardOf& shards, std::uint64_t total, const std::string& old_index);

}  // namespace app
