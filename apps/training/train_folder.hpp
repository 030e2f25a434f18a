// The files of `narrow train -o DIR`: RECIPE-seedS.csv and .safetensors of every run, the checkpoint before that one as
// RECIPE-seedS.previous.safetensors, reports and dumps of single steps.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "training/train_options.hpp"

namespace app {

// Before the work: whether --steps, --dump and --instrument ask for something that the checkpoints in the folder leave
// to be done, and whether they are whole. Throws narrow::Error; nothing is touched.
void check_resumed(const std::string& folder, const TrainPlan& plan);

// One run's files. Each is written whole; what cannot be written throws narrow::Error.
class RunFiles {
 public:
  // Makes the folder and writes the first checkpoint, so that a folder that cannot be written shows before the work;
  // or, to resume, goes on from the checkpoint that is there.
  RunFiles(const std::string& folder, narrow::train::Trainer& trainer, bool resume);

  // After each step: a checkpoint every ten seconds, so that little is lost when the machine stops.
  void after_step(narrow::train::Trainer& trainer);
  void write_report(const narrow::train::StepReport& report) const;
  void write_dump(narrow::train::Trainer& trainer, std::uint64_t step) const;
  void finish(narrow::train::Trainer& trainer);  // checkpoint and CSV

 private:
  std::string base_;  // folder/RECIPE-seedS
  std::chrono::steady_clock::time_point next_;
};

std::string steps_csv(const std::vector<narrow::train::StepRow>& rows);
std::string report_csv(const narrow::train::StepReport& report);

}  // namespace app
