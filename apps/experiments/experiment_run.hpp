// Runs an experiment for a command: effort flags, the progress bar, and the answer as files or as JSON.
#pragma once

#include <string>
#include <vector>

#include "analysis/framework/experiment.hpp"
#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/write_file.hpp"
#include "narrow/plot/draw.hpp"
#include "narrow/report/page.hpp"

namespace app {

// --fast, --full.
struct EffortOptions {
  bool fast = false, full = false;
  void declare(Arguments& arguments);
  analysis::Effort effort() const;  // throws narrow::Error when both are given
};

// label: what stands before the progress bar.
analysis::Outcome run_with_bar(const analysis::Experiment& experiment, const analysis::Parameters& parameters,
                               const std::string& label);

// EXPERIMENT_TABLE.csv; EXPERIMENT.csv where the two have one name.
std::string file_stem(const analysis::Experiment& experiment, const std::string& part);

std::vector<ReadyFile> csv_files(const analysis::Experiment& experiment, const analysis::Outcome& outcome,
                                 const std::string& command, const std::string& folder);

// The section of a page: its texts and tables, pictures drawn for a page where with_pictures is set.
narrow::report::PageSection page_section(const analysis::Experiment& experiment, const analysis::Outcome& outcome,
                                 const std::string& command, bool with_pictures);

Json outcome_json(const analysis::Experiment& experiment, const analysis::Parameters& parameters,
                  const analysis::Outcome& outcome);

}  // namespace app
