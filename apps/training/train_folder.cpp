#include "training/train_folder.hpp"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "cli/write_file.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/train/policy/recipe_words.hpp"
#include "narrow/train/run/checkpoint.hpp"

namespace app {
namespace {

namespace train = narrow::train;

constexpr auto checkpoint_interval = std::chrono::seconds(10);

// The fewest digits that read back as x; nothing for what was not measured.
std::string cell(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  char digits[40];
  return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}
std::string cell_if_measured(double x) { return std::isnan(x) ? "" : cell(x); }

std::string base_of(const std::string& folder, const train::RunRequest& request) {
  return folder + "/" + request.recipe.name + "-seed" + std::to_string(request.seed);
}

// The checkpoint to go on from: that before the last where the last was removed; empty where there is none.
std::string to_resume(const std::string& base) {
  const std::string last = base + ".safetensors", previous = train::previous_checkpoint(last);
  std::error_code error;
  return std::filesystem::exists(last, error) ? last : std::filesystem::exists(previous, error) ? previous : "";
}

// What to do about a checkpoint that cannot be read, where the one before it can.
std::string way_out(const std::string& file) {
  const std::string previous = train::previous_checkpoint(file);
  try {
    const std::uint64_t steps = train::read_progress(previous).steps;
    return "; the one before it is " + narrow::quote_path(previous) + " with " + std::to_string(steps) +
           (steps == 1 ? " step" : " steps") + ": to go on from it, remove the damaged one";
  } catch (const narrow::Error&) {
    return "";
  }
}

}  // namespace

void check_resumed(const std::string& folder, const TrainPlan& plan) {
  for (const train::RunRequest& run : plan.runs) {
    const std::string file = to_resume(base_of(folder, run));
    if (file.empty()) continue;
    const auto [done, broke] = [&] {
      try {
        return train::read_progress(file);
      } catch (const narrow::Error& error) {
        throw narrow::Error(error.what() + way_out(file));
      }
    }();
    const auto refuse = [&, steps = done](const char* flag, const std::string& what) {
      throw narrow::Error(std::string(flag) + ": " + narrow::quote_path(file) + " has " + std::to_string(steps) +
                          (steps == 1 ? " step already" : " steps already") + what);
    };
    if (done > *run.steps) refuse("--steps", "; give at least as many, or start again without --resume");
    const std::uint64_t end = broke ? done : *run.steps;  // no step from here on
    if (plan.dump && (*plan.dump < done || *plan.dump >= end))
      refuse("--dump", (broke ? ", the last of which broke" : "") +
                           std::string("; only a step that is still to come can be written"));
    const std::uint64_t every = run.instrument_every;
    if (every != 0 && (done + every - 1) / every * every >= end)
      refuse("--instrument",
             std::string(broke ? ", the last of which broke" : "") + "; no step that is still to come is watched");
  }
}

RunFiles::RunFiles(const std::string& folder, train::Trainer& trainer, bool resume)
    : next_(std::chrono::steady_clock::now() + checkpoint_interval) {
  make_folder(folder);
  const train::RunRequest& request = trainer.request();
  base_ = base_of(folder, request);
  const std::string checkpoint = resume ? to_resume(base_) : "";
  if (!checkpoint.empty()) train::read_checkpoint(checkpoint, trainer);
  else train::write_checkpoint(base_ + ".safetensors", trainer);
}

void RunFiles::after_step(train::Trainer& trainer) {
  if (std::chrono::steady_clock::now() < next_) return;
  train::write_checkpoint(base_ + ".safetensors", trainer);
  next_ = std::chrono::steady_clock::now() + checkpoint_interval;
}

void RunFiles::write_report(const train::StepReport& report) const {
  write_file(base_ + "-step" + std::to_string(report.step) + ".csv", report_csv(report));
}

void RunFiles::write_dump(train::Trainer& trainer, std::uint64_t step) const {
  train::write_dump(base_ + "-step" + std::to_string(step) + ".safetensors", trainer);
}

void RunFiles::finish(train::Trainer& trainer) {
  train::write_checkpoint(base_ + ".safetensors", trainer);
  write_file(base_ + ".csv", steps_csv(trainer.rows()));
}

std::string steps_csv(const std::vector<train::StepRow>& rows) {
  std::string text =
      "step,loss,scale,skipped,gradient_norm,update_ratio,underflow_share,overflow_share,largest_logit,found_inf,"
      "learning_rate,clipped_norm,clip_factor\n";
  for (const train::StepRow& r : rows)
    text += std::to_string(r.step) + "," + cell(r.loss) + "," + cell(static_cast<double>(r.scale)) + "," +
            (r.skipped ? "1," : "0,") + cell(r.gradient_norm) + "," + cell(r.update_ratio) + "," +
            cell_if_measured(r.underflow_share) + "," + cell_if_measured(r.overflow_share) + "," +
            cell_if_measured(r.largest_logit) + (r.found_inf ? ",1," : ",0,") + cell(r.learning_rate) + "," +
            cell_if_measured(r.clipped_norm) + "," + cell_if_measured(r.clip_factor) + "\n";
  return text;
}

// One line a tensor; the histogram as exponent:count pairs of the binades that occur.
std::string report_csv(const train::StepReport& report) {
  std::string text = "tensor,operation,role,format,count,underflow,overflow,nonfinite,amax,zeros,exponents\n";
  for (const train::TensorReport& t : report.tensors) {
    text += t.tensor + "," + std::string(name_of(t.operation)) + "," + std::string(name_of(t.role)) + "," +
            train::format_word(t.format) + "," + std::to_string(t.count) + "," + std::to_string(t.underflow) + "," +
            std::to_string(t.overflow) + "," + std::to_string(t.nonfinite) + "," + cell(static_cast<double>(t.amax)) +
            "," + std::to_string(t.before.zero.total()) + ",";
    bool is_first = true;
    for (int e = narrow::ExponentHistogram::min_exponent; e <= narrow::ExponentHistogram::max_exponent; ++e) {
      const std::uint64_t count = t.before.binade(e).total();
      if (count == 0) continue;
      text += (is_first ? "" : " ") + std::to_string(e) + ":" + std::to_string(count);
      is_first = false;
    }
    text += "\n";
  }
  return text;
}

}  // namespace app
