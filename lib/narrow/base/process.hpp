// Another program, run without a shell: text in, bytes out.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace narrow {

struct Finished {
  int status = 0;  // exit status; 1000 + the signal that ended it
  std::string out, err;
  std::string stopped;  // why it had to be ended: "did not end within 5 s"; empty when it ended by itself
};

constexpr std::size_t most_output_bytes = std::size_t{64} << 20;  // of each of out and err

// Finds words[0] on PATH (entries that are not absolute are skipped), gives it `input`, and collects what it writes. A
// program that has not ended after `limit_seconds`, that writes more than most_output_bytes, or that still runs when
// should_stop() is true (how a caller that handles signals passes them on), is ended with all that it started; what
// came until then is in the result. Throws Error when it cannot be started.
Finished try_process(const std::vector<std::string>& words, std::string_view input, int limit_seconds,
                     const std::function<bool()>& should_stop = {});

// The same; throws Error also when the program had to be ended.
Finished run_process(const std::vector<std::string>& words, std::string_view input, int limit_seconds);

// Where a program of that name is on PATH; empty when no folder of it has it. A name with a slash is a place already.
std::string place_on_path(const std::string& name);
bool is_on_path(std::string_view name);

}  // namespace narrow
