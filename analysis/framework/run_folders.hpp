// What run= names: a folder that narrow.torch.watch wrote, or one of the recorded runs by its name.
#pragma once

#include <string>
#include <vector>

namespace analysis {

// data/gpt/runs/*, of the first place of data/ that has any; none where NARROW_DATA is set to nothing.
std::vector<std::string> recorded_folders();

// The folder of a recorded run; empty where there is none.
std::string recorded_folder(const std::string& name);

// The folder that run= names: one of the user's, or NAME for data/gpt/runs/NAME. Throws Error with the names.
std::string run_folder(const std::string& given);

}  // namespace analysis
