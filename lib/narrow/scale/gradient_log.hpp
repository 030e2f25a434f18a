// Gradients of a run, recorded or made: would a step have overflowed at another loss scale, and how sure is that?
//
//   GradientLog log;
//   log.steps = {0, 1, 2};
//   log.amax = {0.5F, 2.0F, 0.25F};  // the largest unscaled gradient of each step
//   const OverflowModel model(log);
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace narrow {

// One entry a step. amax: largest unscaled gradient. found_inf: what the recorded run found at `scale`. A vector is
// empty when the log has no such column.
struct GradientLog {
  static constexpr float no_amax = -1;             // in amax: not recorded at this step
  static constexpr std::uint8_t not_recorded = 2;  // in found_inf, beside 0 and 1

  std::vector<std::int64_t> steps;
  std::vector<float> amax;
  std::vector<std::uint8_t> found_inf;
  std::vector<float> scale;
  // The run held its gradients in FP16. Else a good step says nothing: what fits FP32 or BF16 may not fit FP16.
  bool is_fp16 = true;
};

// How sure an answer is.
enum class Certainty : std::uint8_t {
  exact,      // follows from the step itself
  estimated,  // from another step, or from an amax that the log contradicts elsewhere
  unknown     // no step of the log tells
};

// Scales up to good_up_to pass, scales from overflow_from on overflow; -1 and Inf where nothing is known on that side.
struct ScaleBounds {
  float good_up_to = -1;
  float overflow_from = std::numeric_limits<float>::infinity();

  bool decide(float scale) const { return scale <= good_up_to || scale >= overflow_from; }
};

// What each kind of log tells, for the gradients of the recorded run:
//   amax                 a step overflows when FP16(amax * scale) is Inf: exact at every scale
//   scale and found_inf  an overflow is one at every larger scale, a good step is one at every smaller scale: exact
//   there;
//                        elsewhere estimated by the nearest step that decides, unknown where none does
//   scale alone          it falls after an overflow, and the other steps are taken as good
//   found_inf alone      nothing: at which scale it was found is not known
// Where amax and found_inf disagree at some step, amax is not that of all gradients: found_inf decides what it can, and
// amax is an estimate at every step.
class OverflowModel {
 public:
  explicit OverflowModel(GradientLog log);  // throws Error when all columns are empty, or their sizes differ

  struct Answer {
    bool found_inf;
    Certainty certainty;
  };
  Answer at(std::size_t step, float scale) const;
  // Of all steps together: strictly between the two no step tells.
  const ScaleBounds& known() const { return known_; }
  std::size_t steps() const { return log_.steps.size(); }
  const GradientLog& log() const { return log_; }
  bool has_recorded_run() const { return !log_.scale.empty() && !log_.found_inf.empty(); }
  std::string unknown_region() const;  // "scales above 2^17", "every scale"; empty when there is none
  std::string describe() const;        // on what the answers rest, and what is odd about the log

 private:
  void take_found_inf_from_scale();
  ScaleBounds bounds_by_amax(std::size_t step) const;
  ScaleBounds bounds_by_run(std::size_t step) const;
  void build_tree();
  std::size_t nearest(std::size_t step, float scale, bool left) const;  // a step that decides; steps() when none does

  GradientLog log_;
  bool from_falling_scale_ = false;
  std::size_t disagreements_ = 0, first_disagreement_ = 0;
  std::vector<ScaleBounds> tree_;  // steps at the leaves, from leaves_ on; a node has the widest bounds of its children
  std::size_t leaves_ = 1;
  ScaleBounds known_;
};

// Gradients that were not recorded: an amax per step made from the spread of a real tensor and a model of how it moves.
enum class GradientModel : std::uint8_t {
  growth,  // 2^16 times larger at the end than at the start
  decay,   // 2^16 times smaller
  spikes   // level, but one step in 200 is 2^4 to 2^12 times larger
};
GradientModel parse_gradient_model(std::string_view name);  // throws Error

// amax of step t: the level of the model at t times a factor drawn from `piece_amaxes` (the largest magnitudes of
// pieces of the tensor) relative to their largest. Zeros among them are not drawn. The same seed gives the same steps.
std::vector<float> model_amax(GradientModel model, std::span<const float> piece_amaxes, std::size_t steps,
                              std::uint64_t seed);

}  // namespace narrow
