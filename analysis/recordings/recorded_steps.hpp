// Whole training steps and memory-bound operations as a GPU ran them: data/end-to-end, made by record.py there.
#pragma once

#include <string>
#include <vector>

namespace analysis {

struct RecordedStep {
  std::string model, recipe, recompute;  // recipe: as `narrow train` names it
  std::string mode = "eager";            // or compiled
  double parameters = 0, batch = 0, context = 0, milliseconds = 0, tokens_per_second = 0, bytes = 0;
  double layers = 0, width = 0, heads = 0, vocabulary = 0;  // 0: the file does not say
};

struct RecordedOperation {
  std::string name, format;
  double microseconds = 0, gigabytes_per_second = 0;
};

// Which format a product of FP32 operands really used, by its bits.
struct RecordedSwitch {
  std::string operation, setting, used;
};

// `gpu` is that of the comment lines; empty where the file is not there.
template <class Row>
struct RecordedRows {
  std::string gpu;
  std::vector<Row> rows;
};
// No rows where made numbers are asked for, nor when the file is not there (`missing` says where it was searched); throws
// Error when it cannot be read.
RecordedRows<RecordedStep> load_steps(std::string& missing);
RecordedRows<RecordedOperation> load_operations(std::string& missing);
RecordedRows<RecordedSwitch> load_switches(std::string& missing);

// The step of that model under that recipe, everything else as in `like`; nullptr when it was not recorded.
const RecordedStep* find_step(const std::vector<RecordedStep>& steps, const RecordedStep& like,
                              std::string_view recipe);

}  // namespace analysis
