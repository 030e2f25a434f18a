#include "options/model_index.hpp"

#include "cli/json_value.hpp"
#include "narrow/tensor/file_text.hpp"

namespace app {

std::string model_index_text(const ShardOf& shards, std::uint64_t total, const std::string& old_index) {
  Json about = Json::object(), map = Json::object();
  if (const Json old = Json::parse(narrow::read_text(old_index), nullptr, false);
      old.is_object() && old.contains("metadata") && old["metadata"].is_object())
    about = old["metadata"];
  about["total_size"] = total;
  for (const auto& [name, shard] : shards) map[name] = shard;
  return json_text(Json{{"metadata", std::move(about)}, {"weight_map", std::move(map)}});
}

}  // namespace app
