#include "narrow/train/run/trainer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "narrow/train/run/loss_summary.hpp"
#include "tensor/files.hpp"
#include "train/runs.hpp"

using namespace narrow::train;
using narrow::operator""_fmt;
using test::digits_request;
using test::error_of;
using test::same_state;
using test::small_lm_request;
using test::take_steps;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

Parameter<float>& parameter(Model<float>& model, const std::string& name) {
  for (Parameter<float>* p : model.parameters())
    if (p->name == name) return *p;
  throw narrow::Error("no parameter " + name);
}

Batch request_batch(const RunRequest& request) {
  return open_dataset(request.task, settings_of(request.task).shape)->training_batch(1, 0, 64);
}

std::uint64_t overflow_of(const StepReport& report, const std::string& tensor) {
  for (const TensorReport& t : report.tensors)
    if (t.tensor == tensor && t.role == Role::weights) return t.overflow;
  throw narrow::Error("no weights of " + tensor);
}

}  // namespace

// The step that found an Inf is computed again to see where; the running statistics must not see it twice.
TEST_CASE("train: a step that is traced changes the running statistics once") {
  RunRequest request = test::cnn_request("fp16-amp");
  request.recipe.loss_scaler = "torch:init=2^60";
  Trainer trainer(request);
  Batch first;
  trainer.step([&](Model<float>&, Batch& batch) { first = batch; });
  REQUIRE(trainer.rows()[0].found_inf);
  const auto model = make_model<float>(*trainer.request().shape, request.recipe.policy, request.seed);
  model->set_step(request.seed, 0);
  model->forward(first);
  const std::vector<LayerState> expected = model->states(), states = trainer.model().states();
  REQUIRE(states.size() == 4);
  for (std::size_t k = 0; k < 4; ++k) CHECK(test::same_bits(states[k].values, expected[k].values));
}

TEST_CASE("train: the MLP learns the digits in FP32") {
  const RunResult result = run_training(digits_request("fp32", 300));
  CHECK(result.rows.size() == 300);
  CHECK(result.final_loss < 0.1);
  CHECK(result.best_loss <= result.final_loss);
  CHECK(*result.held_out_accuracy > 0.95);
  CHECK(result.skipped == 0);
  CHECK_FALSE(result.first_nonfinite);
}

TEST_CASE("train: every recipe runs on both models and gives the same bits for any number of threads") {
  for (const RecipeRow& row : recipe_table())
    for (const bool lm : {false, true}) {
      CAPTURE(std::string(row.name));
      CAPTURE(lm);
      const auto run = [&](int threads) {
        RunRequest request = lm ? small_lm_request(std::string(row.name), 2) : digits_request(std::string(row.name), 3);
        request.threads = threads;
        Trainer trainer(request);
        while (!trainer.finished()) trainer.step();
        return trainer.state();
      };
      CHECK(same_state(run(1), run(3)));
    }
}

TEST_CASE("train: another seed gives another run") {
  RunRequest other = digits_request("fp32", 2);
  other.seed = 2;
  CHECK(run_training(digits_request("fp32", 2)).rows[0].loss != run_training(other).rows[0].loss);
}

// A model that has learned makes small errors, and its gradients are small. The scale is a power of two: in FP32 it
// changes no bit, in FP16 it lifts them out of the subnormals.
TEST_CASE("train: without a loss scale FP16 loses gradients that a loss scale keeps") {
  Trainer learned(digits_request("fp32", 300));
  take_steps(learned, 300);
  const std::vector<std::vector<float>> start = learned.state().parameters;
  const auto gradients = [&](const std::string& recipe) {
    RunRequest request = digits_request(recipe, 1);
    request.batch = 1024;  // each example has a share of a thousandth
    Trainer trainer(request);
    const std::vector<Parameter<float>*> parameters = trainer.model().parameters();
    for (std::size_t k = 0; k < start.size(); ++k) parameters[k]->value.data = start[k];
    CHECK_FALSE(trainer.step().skipped);
    std::vector<float> all;
    for (const Parameter<float>* p : parameters)
      all.insert(all.end(), p->gradient.data.begin(), p->gradient.data.end());
    return all;
  };
  const std::vector<float> exact = gradients("fp32"), scaled = gradients("fp16-amp"),
                           plain = gradients("fp16-amp-noscale");
  std::size_t nonzero = 0, lost_plain = 0, lost_scaled = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    nonzero += exact[i] != 0;
    lost_plain += exact[i] != 0 && plain[i] == 0;
    lost_scaled += exact[i] != 0 && scaled[i] == 0;
  }
  CAPTURE(nonzero);
  CAPTURE(lost_plain);
  CAPTURE(lost_scaled);
  CHECK(lost_plain > nonzero / 200);     // 220 of 21,260 when this was written
  CHECK(lost_scaled < lost_plain / 50);  // and none
}

TEST_CASE("train: the norm of the gradients is that of the loss and not of the scaled loss") {
  const double exact = run_training(digits_request("fp32", 1)).rows[0].gradient_norm;
  // FP16 has eleven bits: each gradient is right to 2^-11 of itself.
  CHECK(run_training(digits_request("fp16-amp", 1)).rows[0].gradient_norm == doctest::Approx(exact).epsilon(0x1p-9));
}

TEST_CASE("train: BF16 parameters stall and stochastic rounding moves them") {
  const auto unmoved_share = [](const std::string& recipe) {
    RunRequest request = digits_request(recipe, 20);
    request.optimiser = settings_of(request.task).optimiser;
    request.optimiser->learning_rate = 1e-5;  // Adam's steps are this long; half an ulp of 0.1 is 2.4e-4 in BF16
    Trainer trainer(request);
    const std::vector<float> before = parameter(trainer.model(), "layers.1.weight").value.data;
    take_steps(trainer, 20);
    const std::vector<float>& after = parameter(trainer.model(), "layers.1.weight").value.data;
    std::size_t same = 0;
    for (std::size_t i = 0; i < before.size(); ++i) same += before[i] == after[i];
    return static_cast<double>(same) / static_cast<double>(before.size());
  };
  CHECK(unmoved_share("bf16-pure") > 0.9);
  CHECK(unmoved_share("bf16-pure-stochastic") < unmoved_share("bf16-pure") - 0.2);
  CHECK(unmoved_share("fp32") < 0.1);
}

TEST_CASE("train: an Inf in the data is skipped by the scaler and traced to the operation that read it") {
  Trainer trainer(digits_request("fp16-amp", 6));
  take_steps(trainer, 3);
  const std::vector<std::vector<float>> before = trainer.state().parameters;
  const StepRow row = trainer.step([](Model<float>&, Batch& batch) { batch.inputs[7] = inf; });
  CHECK(row.skipped);
  CHECK(row.update_ratio == 0);
  CHECK(trainer.state().parameters == before);
  CHECK(trainer.step().scale == row.scale / 2);
  trainer.step();
  const RunResult result = trainer.result();
  REQUIRE(result.first_nonfinite);
  CHECK(result.first_nonfinite->text() == "step 3: linear layers.0, activations");
  CHECK(result.skipped == 1);
  CHECK_FALSE(result.broke);
  CHECK(std::isfinite(result.rows.back().loss));
}

TEST_CASE("train: an Inf among the weights is traced to their layer") {
  Trainer trainer(digits_request("fp16-amp", 2));
  trainer.step([](Model<float>& model, Batch&) { parameter(model, "layers.1.weight").value.data[9] = inf; });
  CHECK(trainer.result().first_nonfinite->text() == "step 0: linear layers.1, weights");
}

TEST_CASE("train: a loss scale that is too large overflows in the gradients of the logits") {
  RunRequest request = digits_request("fp16-amp", 40);
  request.recipe.loss_scaler = "torch:init=2^40";
  const RunResult result = run_training(request);
  REQUIRE(result.first_nonfinite);
  CHECK(result.first_nonfinite->step == 0);
  CHECK(result.first_nonfinite->operation == Operation::logits);
  CHECK(result.first_nonfinite->role == Role::gradients);
  CHECK(result.skipped > 15);  // 2^40 -> about 2^22, one halving a skipped step
  CHECK(result.rows.back().scale < 0x1p25f);
  CHECK_FALSE(result.rows.back().skipped);
}

TEST_CASE("train: without a scaler an Inf ends the run and says where") {
  Trainer trainer(digits_request("fp32", 5));
  trainer.step();
  trainer.step([](Model<float>&, Batch& batch) { batch.inputs[0] = inf; });
  CHECK(trainer.finished());
  const RunResult result = trainer.result();
  CHECK(result.broke == 1);
  CHECK(result.first_nonfinite->step == 1);
  CHECK(std::isnan(result.final_loss));
  CHECK_FALSE(result.held_out_loss);
}

TEST_CASE("train: a scaler that gives up ends the run") {
  RunRequest request = digits_request("fp16-amp", 5);
  request.recipe.loss_scaler = "deepspeed:init=1:hysteresis=1";  // at its smallest scale an overflow is an error
  Trainer trainer(request);
  trainer.step();
  CHECK(trainer.step([](Model<float>&, Batch& batch) { batch.inputs[0] = inf; }).skipped);
  CHECK(trainer.finished());
  CHECK(trainer.result().broke == 1);
}

TEST_CASE("train: micro-batches and ranks in FP32 give the gradients of the whole batch") {
  RunRequest whole = digits_request("fp32", 1), parts = whole;
  parts.micro_batches = 4;
  parts.ranks = 2;
  const double norm = run_training(whole).rows[0].gradient_norm;
  // Sums of FP32 in another order.
  CHECK(run_training(parts).rows[0].gradient_norm == doctest::Approx(norm).epsilon(1e-5));
  CHECK(run_training(parts).rows[0].loss == doctest::Approx(run_training(whole).rows[0].loss).epsilon(1e-6));
  parts.recipe.policy.training.reduction.format = "e5m2"_fmt;
  CHECK(run_training(parts).rows[0].gradient_norm != doctest::Approx(norm).epsilon(1e-5));
}

TEST_CASE("train: instruments count what vanishes and change no bit") {
  RunRequest request = small_lm_request("fp8-noscale", 3), plain = request;
  request.instrument_every = 2;
  Trainer watched(request), unwatched(plain);
  take_steps(watched, 3);
  take_steps(unwatched, 3);
  CHECK(same_state(watched.state(), unwatched.state()));
  const RunResult result = watched.result();
  REQUIRE(result.reports.size() == 2);
  CHECK(result.reports[1].step == 2);
  CHECK(std::isnan(result.rows[1].underflow_share));
  CHECK(result.rows[2].underflow_share > 0);
  CHECK(result.rows[2].largest_logit > 0);
  for (const TensorReport& t : result.reports[0].tensors) {
    CAPTURE(t.tensor);
    CHECK(t.before.count() == t.count);
    CHECK(t.underflow <= t.count);
  }
  RunRequest scaled = small_lm_request("fp8-current", 1);
  scaled.instrument_every = 1;
  CHECK(run_training(scaled).rows[0].underflow_share < result.rows[0].underflow_share);
  RunRequest wide = small_lm_request("fp32", 1);
  wide.instrument_every = 1;
  CHECK(run_training(wide).rows[0].underflow_share == 0);
}

TEST_CASE("train: a step that throws leaves no observer behind") {
  RunRequest request = digits_request("fp32", 2);
  request.instrument_every = 1;
  Trainer trainer(request), plain(request);
  CHECK_THROWS(trainer.step([](Model<float>&, Batch& batch) { batch.targets[0] = 99; }));
  CHECK_NOTHROW(trainer.model().forward(request_batch(request)));
  take_steps(trainer, 2);
  take_steps(plain, 2);
  CHECK(same_state(trainer.state(), plain.state()));
}

// Delayed scales begin at 1: E4M3 ends at 448, and 464 is half a quantum above.
TEST_CASE("train: values above what a delayed scale allows for are counted as overflow") {
  RunRequest request = digits_request("fp8-delayed", 2);
  request.instrument_every = 1;
  Trainer trainer(request);
  trainer.step([](Model<float>& model, Batch&) {
    std::vector<float>& weights = parameter(model, "layers.0.weight").value.data;
    weights[0] = 464, weights[1] = -465, weights[2] = 1e6f;
  });
  take_steps(trainer, 1);
  const RunResult result = trainer.result();
  CHECK(overflow_of(result.reports[0], "layers.0") == 2);
  CHECK(result.rows[0].overflow_share > 0);
  CHECK(overflow_of(result.reports[1], "layers.0") == 0);  // the history has seen 1e6
}

// MX scales are powers of two below amax / 256: 1.9 * 2^8 = 486 is cut to 448, 1.75 * 2^8 is not. Each direction
// counts.
TEST_CASE("train: values above what an MX block allows for are counted as overflow") {
  RunRequest request = digits_request("mxfp8", 1);
  request.instrument_every = 1;
  for (const auto& [large, expected] : {std::pair{1.75f, 0u}, {1.9f, 2u}}) {
    Trainer trainer(request);
    trainer.step([x = large](Model<float>& model, Batch&) {
      std::vector<float>& weights = parameter(model, "layers.1.weight").value.data;
      std::fill(weights.begin(), weights.end(), 1.0f);
      weights[40] = x;
    });
    CHECK(overflow_of(trainer.result().reports[0], "layers.1") == expected);
  }
  for (const char* recipe : {"fp8-current", "int8", "fp8-block"}) {
    CAPTURE(recipe);
    RunRequest fitting = small_lm_request(recipe, 1);
    fitting.instrument_every = 1;
    const RunResult ran = run_training(fitting);
    REQUIRE_FALSE(ran.reports[0].tensors.empty());
    for (const TensorReport& t : ran.reports[0].tensors) CHECK(t.overflow == 0);
  }
}

TEST_CASE("train: scores that overflowed give an infinite largest logit") {
  RunRequest request = small_lm_request("fp16-amp-noscale", 1);
  request.instrument_every = 1;
  Trainer trainer(request);
  trainer.step([](Model<float>& model, Batch&) {
    for (const char* name : {"blocks.0.attention.query.bias", "blocks.0.attention.key.bias"})
      for (float& x : parameter(model, name).value.data) x = 1000;
  });
  CHECK(trainer.rows()[0].largest_logit == std::numeric_limits<double>::infinity());
  CHECK(std::isfinite(run_training(request).rows[0].largest_logit));
}

TEST_CASE("train: a run can be stopped and keeps what it did") {
  const RunResult result = run_training(digits_request("fp32", 10), [](const StepRow& row) { return row.step < 3; });
  CHECK(result.was_stopped);
  CHECK(result.rows.size() == 4);
  CHECK_FALSE(result.held_out_loss);
}

TEST_CASE("train: requests that cannot be met are refused") {
  RunRequest zero = digits_request("fp32", 0);
  CHECK(error_of([&] { Trainer t(zero); }) == "a run of 0 steps; at least 1");
  RunRequest parts = digits_request("fp32");
  parts.ranks = 5;
  CHECK(error_of([&] { Trainer t(parts); }) == "a batch of 64 does not divide into 5 ranks of 1 micro-batches");
  RunRequest heads = small_lm_request("fp32");
  heads.shape->heads = 5;
  CHECK(error_of([&] { Trainer t(heads); }) != "");
  RunRequest scaler = digits_request("fp32");
  scaler.recipe.loss_scaler = "te-delayed";
  CHECK(error_of([&] { Trainer t(scaler); }).find("scales tensors") != std::string::npos);
}

TEST_CASE("train: the summary of a curve is the mean of twenty losses") {
  std::vector<StepRow> rows(60);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].loss = i < 30 ? 1 : 2;
  CHECK(summarise_losses(rows).last == 2);
  CHECK(summarise_losses(rows).best == 1);
  rows[59].loss = std::nan("");
  CHECK(std::isnan(summarise_losses(rows).last));
  CHECK(summarise_losses(rows).best == 1);
  CHECK(summarise_losses(std::span(rows).first(1)).best == 1);
  CHECK(std::isnan(summarise_losses({}).best));
}

namespace {

std::vector<float> gradients_of(Trainer& trainer) { return gather_gradients(trainer.model().parameters()); }

RunRequest clipped_request(ClipOrder order, double limit) {
  RunRequest request = digits_request("fp16-amp", 2);
  request.optimiser = OptimiserSettings{.kind = OptimiserKind::sgd, .clip = limit};
  request.clip_order = order;
  return request;
}

}  // namespace

// Scale 2^16 and power-of-two arithmetic: the scaled norm is that of the gradients times 2^16, bit for bit.
TEST_CASE("train: clipping before unscaling clips the norm of the scaled gradients") {
  Trainer right(clipped_request(ClipOrder::after_unscale, 0.25)),
      wrong(clipped_request(ClipOrder::before_unscale, 0.25));
  const StepRow a = right.step(), b = wrong.step();
  REQUIRE(a.scale == 65536);
  CHECK(a.gradient_norm == b.gradient_norm);
  CHECK(a.clipped_norm == a.gradient_norm);
  CHECK(b.clipped_norm == 65536 * a.gradient_norm);
  // The limit over the norm and 1e-6, as torch has it, in FP32.
  const auto factor = [](double norm) { return static_cast<double>(0.25f / (static_cast<float>(norm) + 1e-6f)); };
  CHECK(a.clip_factor == factor(a.clipped_norm));
  CHECK(b.clip_factor == factor(b.clipped_norm));
  const std::vector<float> large = gradients_of(right), small = gradients_of(wrong);
  double squares[2] = {};
  for (std::size_t i = 0; i < large.size(); ++i)
    for (const int k : {0, 1}) squares[k] += std::pow(static_cast<double>(k == 0 ? large[i] : small[i]), 2);
  constexpr double rounding = 1e-4;  // of the products in FP32, and of 1e-6 beside the norm
  CHECK(std::sqrt(squares[0]) == doctest::Approx(0.25).epsilon(rounding));
  CHECK(std::sqrt(squares[1]) == doctest::Approx(0.25 / 65536).epsilon(rounding));
}

TEST_CASE("train: an Inf that is clipped before unscaling is still found and its step has no clip factor") {
  for (const ClipOrder order : {ClipOrder::after_unscale, ClipOrder::before_unscale}) {
    Trainer trainer(clipped_request(order, 1));
    const std::vector<std::vector<float>> before = trainer.state().parameters;
    const StepRow row = trainer.step([](Model<float>&, Batch& batch) { batch.inputs[3] = inf; });
    CHECK(row.skipped);
    CHECK(std::isnan(row.clip_factor));
    CHECK(std::isnan(row.clipped_norm));
    CHECK(trainer.state().parameters == before);
    CHECK(trainer.step().clip_factor <= 1);
  }
  CHECK(std::isnan(run_training(digits_request("fp32", 1)).rows[0].clip_factor));
}

TEST_CASE("train: summed micro-batches give so many times the gradient and the same loss") {
  RunRequest mean = digits_request("fp32", 1), sum = mean;
  mean.micro_batches = sum.micro_batches = 4;
  sum.accumulate = AccumulateAs::sum;
  Trainer a(mean), b(sum);
  const StepRow x = a.step(), y = b.step();
  CHECK(x.loss == y.loss);
  CHECK(y.gradient_norm == 4 * x.gradient_norm);  // a power of two changes no bit
}

// Three steps overflow at the start: the wrong schedule has used up its warmup of three when the first step is taken.
TEST_CASE("train: a schedule counts the steps taken or all calls") {
  RunRequest request = digits_request("fp16-amp", 6);
  request.schedule.warmup = 3;
  for (const ScheduleCounts counts : {ScheduleCounts::steps, ScheduleCounts::calls}) {
    request.schedule.counts = counts;
    Trainer trainer(request);
    const double full = trainer.request().optimiser->learning_rate;
    std::vector<double> rates;
    for (int i = 0; i < 6; ++i)
      rates.push_back(
          trainer.step([&](Model<float>&, Batch& batch) { batch.inputs[0] = i < 3 ? inf : 0; }).learning_rate / full);
    const std::vector<double> by_steps = {1.0 / 3, 1.0 / 3, 1.0 / 3, 1.0 / 3, 2.0 / 3, 1},
                              by_calls = {1.0 / 3, 2.0 / 3, 1, 1, 1, 1};
    for (std::size_t i = 0; i < 6; ++i)
      CHECK(rates[i] == doctest::Approx((counts == ScheduleCounts::steps ? by_steps : by_calls)[i]).epsilon(1e-12));
    CHECK(trainer.optimiser().steps() == 3);
  }
}

TEST_CASE("train: the learning rate of a row is the one the optimiser used") {
  RunRequest request = digits_request("fp32", 3), rate = request;
  request.optimiser = rate.optimiser = OptimiserSettings{.learning_rate = 0.01};
  request.schedule.warmup = 4;
  rate.optimiser->learning_rate = 0.0025;
  Trainer warming(request), slow(rate);
  warming.step(), slow.step();
  CHECK(test::same_bits(warming.state().parameters[0], slow.state().parameters[0]));
  CHECK(warming.step().learning_rate == 0.005);
  RunRequest decaying = digits_request("fp32", 3);
  decaying.schedule.kind = ScheduleKind::linear;
  CHECK(Trainer(decaying).request().schedule.length == 3);
  decaying.schedule.warmup = 3;
  CHECK(error_of([&] { Trainer t(decaying); }).find("leaves nothing to decay") != std::string::npos);
}
