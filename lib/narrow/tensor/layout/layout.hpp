// Layouts: how the files of one system hold a quantised tensor. A layout is a row in a file of its own: how its parts
// are found and, where it is written, what they are called and what config.json says. layouts.cpp lists the rows.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "narrow/base/error.hpp"
#include "narrow/tensor/block_tensor.hpp"

namespace narrow {

// A part that is not there; every other Error of parts_of says that the parts do not fit each other.
class MissingPart : public Error {
 public:
  using Error::Error;
};

// What lies in a checkpoint, by name, and what the configuration beside it says of its quantisation.
class CheckpointParts {
 public:
  explicit CheckpointParts(const TensorFile& file, std::optional<nlohmann::json> config = {});

  const TensorFile& file() const { return file_; }
  const Tensor* find(const std::string& name) const;                                // nullptr when there is none
  const Tensor& require(const std::string& name, std::string_view for_what) const;  // Error names both
  const std::string* metadata(const std::string& key) const;  // of narrow's own keys; nullptr when there is none
  // quantization_config of config.json, or {}; read when it is first asked for. One that is no JSON says nothing here.
  const nlohmann::json& config() const;

 private:
  const TensorFile& file_;
  std::unordered_map<std::string_view, std::size_t> index_;
  std::unordered_map<std::string, std::string> metadata_;
  mutable std::optional<nlohmann::json> config_;
};

// quantization_config of the config.json in a folder ("" is the present one, else with its slash); {} where there is
// none.
nlohmann::json read_quantization_config(const std::string& folder);

// join_blocks of block_tensor.hpp, with a quantization_config instead of that in the folder of the file.
void join_blocks(TensorFile& file, nlohmann::json config);

struct Layout {
  std::string_view name;
  std::string_view what;  // where its files come from
  // The parts of the tensor whose codes these are; empty where this layout says nothing of it. Throws Error where they
  // do not fit.
  std::optional<BlockParts> (*parts_of)(const CheckpointParts&, const Tensor& codes);
  // Where the layout is written: the block formats with the rule that is taken when none is named, and for a tensor of
  // this shape the names, types and shapes of codes, scales and factor, in the order in which quantise_tensor writes
  // them. Error says why a shape has no place in the layout.
  std::span<const std::string_view> formats = {};
  std::vector<TensorHeader> (*headers)(const TensorHeader&, const BlockFormat&) = nullptr;
  // quantization_config; kept: the modules that stay as they are.
  nlohmann::ordered_json (*config)(const BlockFormat&, const std::vector<std::string>& kept) = nullptr;
  bool factor_is_divisor = false;  // of NVFP4
};

std::span<const Layout* const> layouts();
const Layout* find_layout(std::string_view name);  // nullptr when there is none

}  // namespace narrow
