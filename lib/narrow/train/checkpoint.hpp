// A run on disk: all of its state in one .safetensors file that appears whole or not at all.
#pragma once

#include <string>

#include "narrow/train/trainer.hpp"

namespace narrow::train {

// What makes two runs the same run: all of the request but steps, threads and instruments, as text. The data take part
// with a batch of theirs.
std::string run_identity(const RunRequest& request);

// Throws Error when it cannot be written; what was there before stays.
void write_checkpoint(const std::string& path, Trainer& trainer);
// Goes on where the file was written. Throws Error: no checkpoint, that of another run (and what differs), or damaged.
void read_checkpoint(const std::string& path, Trainer& trainer);

// How far the run got, without reading its tensors. Throws Error: no checkpoint.
struct CheckpointProgress {
  std::uint64_t steps;
  bool broke;
};
CheckpointProgress read_progress(const std::string& path);

// Parameters, gradients (as the optimiser saw them: unscaled, clipped) and moments after the last step, for other
// tools.
void write_dump(const std::string& path, Trainer& trainer);

}  // namespace narrow::train
