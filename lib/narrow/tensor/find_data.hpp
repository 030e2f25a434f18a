// Where a file of data/ lies: one answer for the program, the experiments and the lessons.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace narrow {

// The folders that are searched. The one that the environment variable NARROW_DATA names, and then no other: recordings
// of two runs must not meet in one answer. Without it, in this order: the data that was installed beside this program,
// wherever the installation has been moved to; the sources that the library was built from; where it was to be
// installed. Throws Error when NARROW_DATA names no folder.
std::vector<std::string> data_folders();

// The path of a file such as "torch/logs.json". Empty only when NARROW_DATA is set to nothing, which asks for numbers
// made here in place of the recordings. Throws Error with the folders that were searched when none has it.
std::optional<std::string> find_data(std::string_view name);

// The same for whoever can do nothing without the file: always a path.
std::string require_data(std::string_view name);

}  // namespace narrow
