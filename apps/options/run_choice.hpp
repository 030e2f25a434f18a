// What a request names in a folder that narrow.torch.watch wrote: its last complete step, or what --tensors matches in
// all steps, by names such as gradient/h.0.mlp.weight@50.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "narrow/tensor/watched_run.hpp"
#include "options/tensor_choice.hpp"

namespace app {

struct ChosenRun {
  narrow::WatchedRun run;
  std::vector<narrow::WatchedTensor> tensors;
  bool several_steps = false;
  std::string about;  // lines for standard error: which steps there are, and what the values were multiplied by
};

// The only argument, where it is such a folder; Error where one stands beside other files.
std::optional<std::string> run_folder_of(const std::vector<std::string>& arguments);
ChosenRun open_run(const std::string& folder, const TensorOptions& options);

std::string format_names(const narrow::WatchedRun& run);  // "fp16,e4m3": those that were watched

// --scale for counts: a power of two. Throws narrow::Error.
int parse_scale_log2(const std::string& text);

// The binades times 2^k, as floats would have them. Throws narrow::Error where the counts do not tell.
narrow::ExponentHistogram scaled_histogram(const narrow::WatchedTensor& tensor, int k);
// The fates of the values times 2^k in a format. Throws narrow::Error where the counts do not tell exactly.
narrow::BinadeFates watched_fates(const narrow::WatchedRun& run, const narrow::WatchedTensor& tensor,
                                  const std::string& name, const narrow::Format& format, int k);

}  // namespace app
