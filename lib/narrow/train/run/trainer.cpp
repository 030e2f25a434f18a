#include "narrow/train/run/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/base/random.hpp"
#include "narrow/cluster/reduce.hpp"
#include "narrow/train/operations/quantiser.hpp"
#include "narrow/train/run/loss_summary.hpp"

namespace narrow::train {

namespace {

// Streams of random bits of a run, one for each purpose. The model draws its own from the seed.
enum Stream : std::uint64_t { batches = 1, updates, accumulation, reduction, clipping, norms };
std::uint64_t stream(std::uint64_t seed, Stream purpose, std::uint64_t step) {
  return random_bits(random_bits(~seed, purpose), step);
}

std::string first_broken(const Parameters& parameters) {
  for (const Parameter<float>* p : parameters)
    for (const float x : p->value.data)
      if (!std::isfinite(x)) return p->name;
  return "no parameter";
}

// A rank for each process, or all of them here.
void check_ranks(RunRequest& r) {
  if (r.messages == nullptr) return cluster::check_order(r.order);
  if (r.ranks == 1) r.ranks = r.messages->size();
  if (r.ranks != r.messages->size())
    throw Error(std::to_string(r.ranks) + " ranks in " + std::to_string(r.messages->size()) +
                " processes; as many of the one as of the other");
  if (r.ranks > 1 && r.shape->kind == ModelKind::cnn)
    throw Error(
        "the running statistics of batch norm go from rank to rank in one process; for ranks that are processes "
        "choose a model without batch norm");
  if (r.ranks > 1 && r.instrument_every != 0)
    throw Error(
        "each process sees its own part of a batch, so that no report is of the whole step; instrument a run of "
        "as many ranks in one process");
}

RunRequest with_defaults(RunRequest r) {
  const TaskSettings own = settings_of(r.task);
  if (!r.steps) r.steps = own.steps;
  if (!r.batch) r.batch = own.batch;
  if (!r.shape) r.shape = own.shape;
  if (!r.optimiser) r.optimiser = own.optimiser;
  if (*r.steps == 0) throw Error("a run of 0 steps; at least 1");
  check_ranks(r);
  check_batch(*r.batch, r.ranks, r.micro_batches);
  check(*r.shape);
  check(*r.optimiser);
  if (r.schedule.kind == ScheduleKind::constant) r.schedule.length = 0;
  else if (r.schedule.length == 0) r.schedule.length = *r.steps;
  check(r.schedule);
  check(r.recipe.policy);
  checked_loss_scaler(r.recipe.loss_scaler);
  if (!r.data) r.data = open_dataset(r.task, *r.shape, r.text);
  return r;
}

}  // namespace

void check_batch(std::size_t batch, std::size_t ranks, std::size_t micro_batches) {
  if (batch == 0) throw Error("a batch of 0; at least 1");
  if (micro_batches == 0 || ranks == 0) throw Error("0 micro-batches or ranks; at least 1 of each");
  const std::size_t parts = micro_batches * ranks;
  if (parts / ranks != micro_batches || batch % parts != 0)
    throw Error("a batch of " + std::to_string(batch) + " does not divide into " + std::to_string(ranks) +
                " ranks of " + std::to_string(micro_batches) + " micro-batches");
}

struct Trainer::Run {
  explicit Run(RunRequest asked)
      : request(with_defaults(std::move(asked))),
        model(make_model<float>(*request.shape, request.recipe.policy, request.seed)),
        parameters(model->parameters()),
        optimiser(*request.optimiser, request.recipe.policy.training),
        scaler(make_scaler(request.recipe.loss_scaler).scaler) {
    model->set_threads(request.threads);
    optimiser.begin(parameters);
  }

  double forward_backward(const Batch& batch, std::uint64_t number, float scale, Observer* observer);
  std::vector<double> compute_parts(const Batch& batch, std::uint64_t number, float scale, std::size_t first,
                                    std::size_t last, std::vector<std::vector<float>>& ranks);
  void share_step(std::vector<double>& losses);
  void keep_feedback(std::size_t ranks, std::size_t size, float scale);
  std::optional<FirstNonFinite> trace(const Batch& batch, std::uint64_t number, float scale);
  void evaluate(RunResult& result);

  const RunRequest request;
  std::unique_ptr<Model<float>> model;
  Parameters parameters;
  Optimiser optimiser;
  std::unique_ptr<Scaler> scaler;
  std::vector<StepRow> rows;
  std::vector<StepReport> reports;
  std::optional<FirstNonFinite> first_nonfinite;
  std::optional<std::uint64_t> broke;
  std::vector<cluster::Feedback> feedback;  // of all ranks, or of this process
  float feedback_scale = 1;
};

// Parts [first, last) of a batch one after the other, a rank's micro-batches together; their losses, and what each
// rank's gradients add up to.
std::vector<double> Trainer::Run::compute_parts(const Batch& batch, std::uint64_t number, float scale,
                                                std::size_t first, std::size_t last,
                                                std::vector<std::vector<float>>& ranks) {
  const std::size_t parts = request.ranks * request.micro_batches, size = batch.size / parts;
  const bool is_mean = request.accumulate == AccumulateAs::mean;
  std::vector<double> losses;
  model->set_training(true);
  for (std::size_t part = first; part < last; ++part) {
    model->set_step(request.seed, number * parts + part);
    losses.push_back(
        static_cast<double>(model->forward(parts == 1 ? batch : rows_of(batch, part * size, (part + 1) * size))));
    model->backward(is_mean ? scale / static_cast<float>(request.micro_batches) : scale);
    if (parts == 1) break;
    const std::uint64_t seed = stream(request.seed, accumulation, number * parts + part);
    accumulate(ranks[part / request.micro_batches], parameters, request.recipe.policy.training.gradient_accumulation,
               seed, request.threads);
  }
  return losses;
}

// What one process would know of all parts: their losses, and the largest magnitudes that delayed scaling saw.
void Trainer::Run::share_step(std::vector<double>& losses) {
  cluster::Messages& messages = *request.messages;
  std::vector<double> all(request.ranks * losses.size());
  std::copy(losses.begin(), losses.end(), all.begin() + static_cast<std::ptrdiff_t>(messages.rank() * losses.size()));
  share(messages, std::as_writable_bytes(std::span(all)));
  losses = std::move(all);
  std::vector<LayerState> states = model->states();
  if (states.empty()) return;
  std::vector<float> largest(request.ranks * states.size());
  for (std::size_t k = 0; k < states.size(); ++k)
    largest[messages.rank() * states.size() + k] = states[k].values[state_amax];
  share(messages, std::as_writable_bytes(std::span(largest)));
  for (std::size_t i = 0; i < largest.size(); ++i) {
    float& amax = states[i % states.size()].values[state_amax];
    if (largest[i] > amax) amax = largest[i];
  }
  model->restore(states);
}

// What was held back is of gradients times the loss scale of its step.
void Trainer::Run::keep_feedback(std::size_t ranks, std::size_t size, float scale) {
  if (!request.error_feedback || request.ranks == 1) return;
  feedback.resize(ranks, cluster::Feedback(size));
  const float ratio = scale / std::exchange(feedback_scale, scale);
  for (cluster::Feedback& lost : feedback)
    for (float& x : lost) x *= ratio;
}

// The gradients that are left are those of all ranks, still scaled.
double Trainer::Run::forward_backward(const Batch& batch, std::uint64_t number, float scale, Observer* observer) {
  const std::size_t parts = request.ranks * request.micro_batches;
  const Watching watching(*model, observer);
  std::vector<std::vector<float>> ranks(request.ranks);
  const std::size_t own = request.messages != nullptr ? request.messages->rank() : 0;
  const bool is_alone = request.messages == nullptr || request.ranks == 1;
  std::vector<double> losses = compute_parts(batch, number, scale, is_alone ? 0 : own * request.micro_batches,
                                             is_alone ? parts : (own + 1) * request.micro_batches, ranks);
  if (!is_alone) share_step(losses);
  if (parts > 1) {
    const Precision& precision = request.recipe.policy.training.reduction;
    const cluster::ReduceRequest sum{request.order,
                                     {precision.format, precision.cast, request.reduce_blocks},
                                     true,
                                     stream(request.seed, reduction, number),
                                     request.threads};
    keep_feedback(is_alone ? request.ranks : 1, ranks[own].size(), scale);
    if (is_alone) ranks[0] = cluster::all_reduce(ranks, sum, feedback);
    else cluster::all_reduce(*request.messages, ranks[own], sum, feedback.empty() ? std::span<float>() : feedback[0]);
    scatter_gradients(ranks[is_alone ? 0 : own], parameters);
  }
  double loss = 0;
  for (const double x : losses) loss += x;
  return loss / static_cast<double>(parts);
}

// The same step once more, watched: the bits are the same, so the first Inf or NaN is in the same place; every process
// looks at all parts. What the layers remember has seen the step already.
std::optional<FirstNonFinite> Trainer::Run::trace(const Batch& batch, std::uint64_t number, float scale) {
  std::vector<std::vector<float>> gradients;
  for (Parameter<float>* p : parameters) gradients.push_back(p->gradient.data);
  const std::vector<LayerState> states = model->states();
  FiniteWatch watch;
  {
    const Watching watching(*model, &watch);
    std::vector<std::vector<float>> ranks(request.ranks);
    compute_parts(batch, number, scale, 0, request.ranks * request.micro_batches, ranks);
  }
  model->restore(states);
  for (std::size_t k = 0; k < parameters.size(); ++k) parameters[k]->gradient.data = std::move(gradients[k]);
  FirstNonFinite first = watch.first().value_or(FirstNonFinite{0, "sum of gradients", {}, {}, false});
  first.step = number;
  return first;
}

void Trainer::Run::evaluate(RunResult& result) {
  const std::vector<LayerState> states = model->states();
  double loss = 0;
  std::size_t examples = 0, targets = 0, right = 0;
  model->set_step(request.seed, ~std::uint64_t{0});
  model->set_training(false);
  for (const Batch& batch : request.data->held_out(*request.batch)) {
    loss += static_cast<double>(model->forward(batch)) * static_cast<double>(batch.size);
    right += count_right(model->logits(), batch.targets);
    examples += batch.size;
    targets += batch.targets.size();
  }
  model->restore(states);
  result.held_out_loss = loss / static_cast<double>(examples);
  if (request.data->has_classes()) result.held_out_accuracy = static_cast<double>(right) / static_cast<double>(targets);
}

Trainer::Trainer(RunRequest request) {
  const DefaultFloats guard;
  run_ = std::make_unique<Run>(std::move(request));
}
Trainer::~Trainer() = default;

bool Trainer::finished() const { return run_->broke || run_->rows.size() >= *run_->request.steps; }
const RunRequest& Trainer::request() const { return run_->request; }
Model<float>& Trainer::model() { return *run_->model; }
const Optimiser& Trainer::optimiser() const { return run_->optimiser; }

const std::vector<StepRow>& Trainer::rows() const { return run_->rows; }

const StepReport* Trainer::last_report() const {
  const std::vector<StepReport>& reports = run_->reports;
  return reports.empty() || reports.back().step + 1 != run_->rows.size() ? nullptr : &reports.back();
}

const StepRow& Trainer::step() {
  return step([](Model<float>&, Batch&) {});
}

// In the order of torch.amp: scaled backward, unscale, clip, step unless a gradient was Inf or NaN, update of the
// scale. Clipped before it is unscaled, an Inf stays one to be found: it is multiplied by 1 / Inf = 0, which is NaN.
const StepRow& Trainer::step(const std::function<void(Model<float>&, Batch&)>& spoil) {
  const DefaultFloats guard;
  Run& r = *run_;
  const TrainingPolicy& policy = r.request.recipe.policy.training;
  const std::uint64_t number = r.rows.size();
  Batch batch = r.request.data->training_batch(stream(r.request.seed, batches, 0), number, *r.request.batch);
  spoil(*r.model, batch);
  StepRow row;
  row.step = number;
  row.scale = r.scaler->scale();
  const Schedule& schedule = r.request.schedule;
  row.learning_rate = r.request.optimiser->learning_rate *
                      rate_factor(schedule, schedule.counts == ScheduleCounts::calls ? number : r.optimiser.steps());
  const auto norm = [&](const Precision& precision) {
    return static_cast<double>(gradient_norm(r.parameters, precision, stream(r.request.seed, norms, number)));
  };
  const auto clip_to = [&](double found) {
    row.clipped_norm = found;
    row.clip_factor =
        static_cast<double>(clip(r.parameters, static_cast<float>(found), r.request.optimiser->clip, policy.clipping,
                                 stream(r.request.seed, clipping, number), r.request.threads));
  };
  const bool clips = r.request.optimiser->clip > 0;
  const bool clips_scaled = clips && r.request.clip_order == ClipOrder::before_unscale;

  Instrument instrument;
  const bool is_watched = r.request.instrument_every != 0 && number % r.request.instrument_every == 0;
  row.loss = r.forward_backward(batch, number, row.scale, is_watched ? &instrument : nullptr);
  if (clips_scaled) {
    row.gradient_norm = norm({}) / static_cast<double>(row.scale);
    clip_to(norm(policy.clipping));
  }
  row.found_inf = unscale(r.parameters, row.scale);
  if (!clips_scaled) row.gradient_norm = norm(policy.clipping);
  if ((row.found_inf || !std::isfinite(row.loss)) && !r.first_nonfinite)
    r.first_nonfinite = r.trace(batch, number, row.scale);

  row.skipped = row.found_inf && r.scaler->skips_on_inf();
  if (row.skipped) {
    row.clipped_norm = row.clip_factor = not_measured;
  } else {
    if (clips && !clips_scaled) clip_to(row.gradient_norm);
    r.optimiser.set_learning_rate(row.learning_rate);
    const UpdateNorms norms =
        r.optimiser.step(r.parameters, stream(r.request.seed, updates, number), r.request.threads);
    row.update_ratio = norms.parameters > 0 ? norms.update / norms.parameters : 0;
    if (!std::isfinite(norms.update)) {
      r.broke = number;
      if (!r.first_nonfinite)
        r.first_nonfinite = FirstNonFinite{number, "update of " + first_broken(r.parameters), {}, {}, false};
    }
  }
  r.scaler->observe({row.found_inf});
  if (r.scaler->event() == ScaleEvent::ended) r.broke = number;
  r.model->end_step();
  if (is_watched) {
    StepReport report = instrument.take(number);
    row.underflow_share = report.underflow_share();
    row.overflow_share = report.overflow_share();
    row.largest_logit = static_cast<double>(report.largest_logit());
    r.reports.push_back(std::move(report));
  }
  r.rows.push_back(row);
  return r.rows.back();
}

RunResult Trainer::result() {
  const DefaultFloats guard;
  Run& r = *run_;
  RunResult result;
  result.recipe = r.request.recipe.name;
  result.task = name_of(r.request.task);
  result.seed = r.request.seed;
  result.steps = *r.request.steps;
  result.rows = r.rows;
  result.reports = r.reports;
  for (const StepRow& row : r.rows) result.skipped += row.skipped;
  const LossSummary losses = summarise_losses(r.rows);
  result.final_loss = r.broke ? not_measured : losses.last;
  result.best_loss = losses.best;
  result.first_nonfinite = r.first_nonfinite;
  result.broke = r.broke;
  result.was_stopped = !finished();
  if (finished() && !r.broke) r.evaluate(result);
  return result;
}

TrainingState Trainer::state() const {
  const Run& r = *run_;
  TrainingState state;
  for (const Parameter<float>* p : r.parameters) state.parameters.push_back(p->value.data);
  state.moments = r.optimiser.moments();
  state.optimiser_steps = r.optimiser.steps();
  state.layers = r.model->states();
  state.rows = r.rows;
  state.first_nonfinite = r.first_nonfinite;
  state.broke = r.broke;
  return state;
}

void Trainer::restore(TrainingState state) {
  Run& r = *run_;
  const auto require = [](bool holds) {
    if (!holds) throw Error("the state is that of another model");
  };
  require(state.parameters.size() == r.parameters.size() && state.moments.size() == r.parameters.size());
  for (std::size_t k = 0; k < r.parameters.size(); ++k) {
    const Moments &theirs = state.moments[k], &ours = r.optimiser.moments()[k];
    require(state.parameters[k].size() == r.parameters[k]->value.size() && theirs.first.size() == ours.first.size() &&
            theirs.second.size() == ours.second.size() && theirs.compensation.size() == ours.compensation.size());
  }
  // The scales and what was skipped follow from what the scaler saw.
  std::unique_ptr<Scaler> scaler = make_scaler(r.request.recipe.loss_scaler).scaler;
  std::uint64_t taken = 0;
  for (const StepRow& row : state.rows) {
    if (row.scale != scaler->scale() || row.skipped != (row.found_inf && scaler->skips_on_inf()))
      throw Error("step " + std::to_string(row.step) + " has not the scale, or was not skipped, as the scaler has it");
    taken += row.skipped ? 0 : 1;
    scaler->observe({row.found_inf});
  }
  if (state.optimiser_steps != taken)
    throw Error(std::to_string(state.optimiser_steps) + " steps of the optimiser where " + std::to_string(taken) +
                " were taken");
  const std::vector<LayerState> before = r.model->states();
  try {
    r.model->restore(state.layers);
  } catch (const Error&) {
    r.model->restore(before);
    throw;
  }
  for (std::size_t k = 0; k < r.parameters.size(); ++k) r.parameters[k]->value.data = std::move(state.parameters[k]);
  r.optimiser.restore(state.optimiser_steps, std::move(state.moments));
  r.scaler = std::move(scaler);
  r.rows = std::move(state.rows);
  r.first_nonfinite = std::move(state.first_nonfinite);
  r.broke = state.broke;
}

RunResult run_training(const RunRequest& request, const std::function<bool(const StepRow&)>& after_step) {
  Trainer trainer(request);
  while (!trainer.finished()) {
    const StepRow& row = trainer.step();
    if (after_step && !after_step(row)) break;
  }
  return trainer.result();
}

}  // namespace narrow::train
