// A run on disk: all of its state in one .safetensors file that appears whole or not at all.
#pragma once

#include <string>

#include "narrow/train/run/trainer.hpp"

namespace narrow::train {

// What makes two runs the same run: all of the request but steps, threads and instruments, as text. The data take part
// with a batch of theirs.
std::string run_identity(const RunRequest& request);

// What was there before stays as previous_checkpoint(path): at any moment at least one of the two is whole. Throws
// Error when it cannot be written; then path is as it was.
void write_checkpoint(const std::string& path, Trainer& trainer);
std::string previous_checkpoint(const std::string& path);  // a.safetensors: a.previous.safetensors
// Goes on where the file was written. Throws Error: no checkpoint, that of another run (and what differs), or damaged;
// then the trainer is as it was.
void read_checkpoint(const std::string& path, Trainer& trainer);

// How far the run got. Throws Error: no checkpoint, or a damaged one (a checksum covers every byte).
struct CheckpointProgress {
  std::uint64_t steps;
  bool broke;
};
CheckpointProgress read_progress(const std::string& path);

// Parameters, gradients (as the optimiser saw them: unscaled, clipped) and moments after the last step, for other
// tools.
void write_dump(const std::string& path, Trainer& trainer);

}  // namespace narrow::train
