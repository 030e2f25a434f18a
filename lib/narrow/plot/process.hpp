// Another program, run without a shell: text in, bytes out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace narrow {

struct Finished {
  int status = 0;  // exit status; 1000 + the signal that ended it
  std::string out, err;
};

// Finds words[0] on PATH, gives it `input`, and collects what it writes. Throws Error when it cannot be started, or has
// not ended after `limit_seconds` (it is ended then).
Finished run_process(const std::vector<std::string>& words, std::string_view input, int limit_seconds);

// Whether a program of that name is on PATH.
bool is_on_path(std::string_view name);

}  // namespace narrow
