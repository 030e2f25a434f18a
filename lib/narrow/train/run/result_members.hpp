// A run's results, member by member, for another process of the same program.
#pragma once

#include "narrow/base/archive.hpp"
#include "narrow/train/run/run.hpp"

namespace narrow::train {

template <class Archive>
void members(Archive& archive, FirstNonFinite& f) {
  archive(f.step, f.tensor, f.operation, f.role, f.in_model);
}
template <class Archive>
void members(Archive& archive, TensorReport& t) {
  archive(t.tensor, t.operation, t.role, t.format, t.count, t.underflow, t.overflow, t.nonfinite, t.amax, t.before);
}
template <class Archive>
void members(Archive& archive, StepReport& r) {
  archive(r.step, r.tensors);
}
template <class Archive>
void members(Archive& archive, RunResult& r) {
  archive(r.recipe, r.task, r.seed, r.steps, r.rows, r.reports, r.skipped, r.final_loss, r.best_loss, r.first_nonfinite,
          r.broke, r.held_out_loss, r.held_out_accuracy, r.was_stopped);
}

}  // namespace narrow::train
