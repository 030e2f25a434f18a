#include "narrow/tensor/sharded.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "narrow/base/error.hpp"
#include "narrow/tensor/json_events.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/tensor/safetensors.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

using WeightMap = std::map<std::string, std::string, std::less<>>;  // tensor to shard

// {"metadata": {anything}, "weight_map": {tensor: shard, ..}}
class IndexEvents : public JsonEvents {
 public:
  WeightMap weight_map;
  bool has_weight_map = false;

  void begin_object() override {
    if (depth_ == 1 && key_ == "weight_map") {
      if (std::exchange(has_weight_map, true)) throw Error("the key 'weight_map' comes twice");
      inside_ = true;
    } else if (inside_) {
      wrong("an object");
    }
    ++depth_;
  }
  void key(std::string name) override {
    if (name.size() > longest_name)
      throw Error("key " + quote(name) + " is longer than " + std::to_string(longest_name) + " bytes");
    if (depth_ == 1) key_ = std::move(name);
    else if (inside_) tensor_ = std::move(name);
  }
  void end_object() override {
    if (--depth_ == 1) inside_ = false;
  }
  void begin_array() override {
    if (inside_ || depth_ == 0 || (depth_ == 1 && key_ == "weight_map")) wrong("an array");
    ++depth_;
  }
  void end_array() override { --depth_; }
  void text(std::string value) override {
    if (!inside_) return other("text");
    if (weight_map.size() == most_tensors) throw Error("more than " + std::to_string(most_tensors) + " tensors");
    if (!weight_map.emplace(tensor_, std::move(value)).second)
      throw Error("weight_map: the key " + quote(tensor_) + " comes twice");
  }
  void number(std::uint64_t value) override { other("the number " + std::to_string(value)); }
  void other(std::string_view what) override {
    if (inside_ || depth_ == 0 || (depth_ == 1 && key_ == "weight_map")) wrong(what);
  }

 private:
  [[noreturn]] void wrong(std::string_view what) const {
    if (inside_)
      throw Error("weight_map: " + std::string(what) + " at " + quote(tensor_) + "; the name of a file is right");
    throw Error(std::string(what) + " where an object { } is right");
  }

  int depth_ = 0;
  bool inside_ = false;
  std::string key_, tensor_;
};

// A path in a shard name would let an index read any file of the machine.
void check_plain(const std::string& shard) {
  const bool plain = !shard.empty() && shard.size() <= 255 && shard != "." && shard != ".." &&
                     std::none_of(shard.begin(), shard.end(),
                                  [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20; });
  if (!plain) throw Error("weight_map: " + quote(shard) + " is no plain file name; shards lie beside the index");
}

WeightMap parse_index(std::span<const std::byte> bytes) {
  if (bytes.size() > largest_safetensors_header)
    throw Error("an index of " + std::to_string(bytes.size()) + " bytes; at most " +
                std::to_string(largest_safetensors_header) + " are read");
  IndexEvents events;
  read_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 0, events);
  if (!events.has_weight_map) throw Error("no 'weight_map'; this is not the index of a sharded .safetensors model");
  if (events.weight_map.empty()) throw Error("an empty weight_map");
  return std::move(events.weight_map);
}

TensorFile open_shard(const std::string& folder, const std::string& shard) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(folder + shard);
  try {
    TensorFile part = read_safetensors(file);
    part.bytes = file->size();
    return part;
  } catch (const Error& error) {
    throw Error("shard " + quote(shard) + ": " + error.what());
  }
}

// Every tensor of a shard is listed for it, and every tensor that is listed for it is there.
void check_listed(const TensorFile& part, const std::string& shard, const WeightMap& weight_map, std::size_t expected) {
  std::set<std::string_view> held;
  for (const Tensor& tensor : part.tensors) {
    const auto listed = weight_map.find(tensor.name);
    if (listed == weight_map.end())
      throw Error("shard " + quote(shard) + " holds " + quote(tensor.name) + ", which weight_map does not list");
    if (listed->second != shard)
      throw Error("shard " + quote(shard) + " holds " + quote(tensor.name) + ", which weight_map puts into " +
                  quote(listed->second));
    held.insert(tensor.name);
  }
  if (held.size() == expected) return;
  const auto missing = std::find_if(weight_map.begin(), weight_map.end(), [&](const auto& entry) {
    return entry.second == shard && !held.contains(entry.first);
  });
  throw Error("weight_map puts " + quote(missing->first) + " into shard " + quote(shard) + ", which does not hold it");
}

}  // namespace

TensorFile read_sharded(std::shared_ptr<const MappedFile> index) {
  const WeightMap weight_map = parse_index(index->bytes());
  std::map<std::string, std::size_t> shards;  // and how many tensors each should hold
  for (const auto& [tensor, shard] : weight_map) {
    check_plain(shard);
    ++shards[shard];
  }
  if (shards.size() > most_shards) throw Error("more than " + std::to_string(most_shards) + " shards");
  TensorFile all;
  all.path = index->path();
  all.kind = FileKind::sharded_safetensors;
  const std::string folder = index->path().substr(0, index->path().rfind('/') + 1);
  std::set<std::string> metadata_keys;  // each shard repeats the metadata of the model: the first one counts
  for (const auto& [shard, expected] : shards) {
    TensorFile part = open_shard(folder, shard);
    check_listed(part, shard, weight_map, expected);
    all.bytes += part.bytes;
    all.shards.push_back(folder + shard);
    std::move(part.tensors.begin(), part.tensors.end(), std::back_inserter(all.tensors));
    for (auto& entry : part.metadata)
      if (metadata_keys.insert(entry.first).second) all.metadata.push_back(std::move(entry));
  }
  return all;
}

}  // namespace narrow
