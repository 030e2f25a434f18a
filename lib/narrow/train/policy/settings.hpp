// What a run is asked for beside its precision, as data: the sizes of a model, an optimiser, a schedule, and how the
// gradients of micro-batches and ranks become one.
//
//   const train::OptimiserSettings adam{.kind = train::OptimiserKind::adamw, .learning_rate = 3e-4, .clip = 1};
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace narrow::train {

// The models that can be trained, and the words for them.
enum class ModelKind : std::uint8_t { mlp, transformer, vision, cnn };
inline constexpr std::array<std::string_view, 4> model_names = {"mlp", "transformer", "vision", "cnn"};
constexpr std::string_view name_of(ModelKind k) noexcept { return model_names[static_cast<std::size_t>(k)]; }

// Sizes of a model; each kind reads its own.
struct ModelShape {
  ModelKind kind = ModelKind::mlp;

  // mlp: inputs, hidden layers with ReLU, classes. vision: classes. cnn: channels of its convolutions, classes.
  std::size_t inputs = 64;
  std::vector<std::size_t> hidden = {128, 128};
  std::size_t classes = 10;

  // transformer and vision
  std::size_t layers = 2, width = 128, heads = 4;
  bool rms_norm = false;  // RMSNorm (no bias) instead of LayerNorm
  bool qk_norm = false;   // RMSNorm of every query and key over the width of a head
  double soft_cap = 0;    // cap * tanh(scores / cap); 0: none

  // transformer
  std::size_t context = 128, vocabulary = 256;

  // vision, cnn: square images. vision: cut into square patches
  std::size_t image = 28, patch = 4;
};

// Throws Error for sizes that are zero or do not divide.
void check(const ModelShape& shape);

// The optimisers.
enum class OptimiserKind : std::uint8_t { sgd, adamw };

// The numbers of an optimiser.
struct OptimiserSettings {
  OptimiserKind kind = OptimiserKind::adamw;
  double learning_rate = 1e-3;
  double momentum = 0.9;                             // sgd
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // adamw
  double weight_decay = 0.01;                        // of parameters that decay
  double clip = 0;                                   // largest norm of all gradients together; 0: any
};
// Throws Error for numbers that no optimiser takes.
void check(const OptimiserSettings& settings);

// What the learning rate does, and the words for it.
enum class ScheduleKind : std::uint8_t { constant, linear, cosine };  // after the warmup
inline constexpr std::array<std::string_view, 3> schedule_names = {"constant", "linear", "cosine"};

// calls: scheduler.step() in every iteration, also after an optimiser step that was skipped, so that the skipped ones
// use up the schedule. steps: only those that were taken.
enum class ScheduleCounts : std::uint8_t { steps, calls };
inline constexpr std::array<std::string_view, 2> schedule_count_names = {"steps", "calls"};

// A schedule of the learning rate.
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  std::uint64_t warmup = 0;  // the rate rises by equal parts over so many: 1/warmup, 2/warmup, .. 1
  ScheduleCounts counts = ScheduleCounts::steps;
  std::uint64_t length = 0;  // warmup and decay; a constant rate has none
};

// Whether the norm that is clipped is that of the gradients or that of the scaled ones, scale times as large: then a
// limit of 1 at a scale of 65536 leaves true gradients of norm 1/65536.
enum class ClipOrder : std::uint8_t { after_unscale, before_unscale };
inline constexpr std::array<std::string_view, 2> clip_order_names = {"after-unscale", "before-unscale"};

// Whether the loss of a micro-batch is divided by their number. sum: it is forgotten, and n of them give n times the
// gradient.
enum class AccumulateAs : std::uint8_t { mean, sum };
inline constexpr std::array<std::string_view, 2> accumulate_names = {"mean", "sum"};

}  // namespace narrow::train
