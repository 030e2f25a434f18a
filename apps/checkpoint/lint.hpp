// What lint knows of a checkpoint, and what it says of it. Nothing here trusts the index or the configuration: both are
// what is checked.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/names.hpp"
#include "cli/json_value.hpp"
#include "cli/progress.hpp"
#include "narrow/tensor/layout/layout.hpp"

namespace app::lint {

enum class Severity { note, warning, error };

// A row: adding a rule is adding one to the table in lint.cpp, and the line that finds it.
struct Rule {
  std::string_view name;
  Severity severity;
  std::string_view what;
};
std::span<const Rule> rules();

struct Finding {
  const Rule* rule;
  std::string file, tensor, text;  // file: within the folder; tensor: "" where it is about the file
};

// A quantised tensor, or one whose parts do not fit.
struct Quantised {
  narrow::BlockParts parts;
  std::string file;
};

struct Checkpoint {
  std::string folder;  // "" or with its slash
  bool is_folder = false;
  Json config, other_config, index;  // null where there is none
  narrow::TensorFile all;            // every tensor that could be read, as it lies in its file, once
  std::unordered_map<std::string, std::string> file_of;
  std::vector<Quantised> quantised;
  std::set<std::string> parts;  // names of all tensors that belong to a quantised one, or would

  const narrow::Tensor* find(const std::string& name) const;
  // quantization_config, or {}.
  Json quantization() const;
  bool is_said_to_be_quantised() const;  // by config.json or hf_quant_config.json
  std::map<std::string, std::size_t, std::less<>> places = {};
};

class Report {
 public:
  explicit Report(std::set<std::string, std::less<>> silenced) : silenced_(std::move(silenced)) {}
  void add(std::string_view rule, std::string file, std::string tensor, std::string text);
  const std::vector<Finding>& findings() const { return findings_; }

 private:
  std::set<std::string, std::less<>> silenced_;
  std::vector<Finding> findings_;
};

// The questions, in the order in which they build on each other.
Checkpoint read_checkpoint(const std::string& path, Report& report);  // lint_files.cpp: shards and index
void check_parts(Checkpoint& checkpoint, Report& report);  // lint_parts.cpp: codes, scales, and what belongs together
void check_config(const Checkpoint& checkpoint,
                  Report& report);  // lint_config.cpp: what config.json says against what is there
void check_data(const Checkpoint& checkpoint, Report& report,
                Progress& progress);  // lint_data.cpp: the values of codes and scales

}  // namespace app::lint
