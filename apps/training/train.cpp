// narrow train: a small real model under several precision recipes, all from the same start, side by side.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <span>
#include <system_error>

#include "cli/crew.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/scale/scaler.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/train/policy/recipe_words.hpp"
#include "narrow/train/run/checkpoint.hpp"
#include "narrow/train/run/result_members.hpp"
#include "training/train_options.hpp"

namespace app {
namespace of_train {

namespace train = narrow::train;

// The files of -o DIR: RECIPE-seedS.csv and .safetensors of every run, the checkpoint before that one as
// RECIPE-seedS.previous.safetensors, reports and dumps of single steps.

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

// Before the work: whether --steps, --dump and --instrument ask for something that the checkpoints in the folder leave
// to be done, and whether they are whole. Throws narrow::Error; nothing is touched.
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

// One run's files. Each is written whole; what cannot be written throws narrow::Error.
class RunFiles {
 public:
  // Makes the folder and writes the first checkpoint, so that a folder that cannot be written shows before the work;
  // or, to resume, goes on from the checkpoint that is there.
  RunFiles(const std::string& folder, train::Trainer& trainer, bool resume)
      : base_(base_of(folder, trainer.request())), next_(std::chrono::steady_clock::now() + checkpoint_interval) {
    make_folder(folder);
    const std::string checkpoint = resume ? to_resume(base_) : "";
    if (!checkpoint.empty()) train::read_checkpoint(checkpoint, trainer);
    else write_checkpoint(trainer);
  }

  // After each step: a checkpoint every ten seconds, so that little is lost when the machine stops.
  void after_step(train::Trainer& trainer) {
    if (std::chrono::steady_clock::now() < next_) return;
    write_checkpoint(trainer);
    next_ = std::chrono::steady_clock::now() + checkpoint_interval;
  }
  void write_report(const train::StepReport& report) const {
    write_file(base_ + "-step" + std::to_string(report.step) + ".csv", report_csv(report));
  }
  void write_dump(train::Trainer& trainer, std::uint64_t step) const {
    if (writes()) train::write_dump(base_ + "-step" + std::to_string(step) + ".safetensors", trainer);
  }
  void finish(train::Trainer& trainer) {  // checkpoint and CSV
    write_checkpoint(trainer);
    write_file(base_ + ".csv", steps_csv(trainer.rows()));
  }

 private:
  void write_checkpoint(train::Trainer& trainer) const {
    if (writes()) train::write_checkpoint(base_ + ".safetensors", trainer);
  }

  std::string base_;  // folder/RECIPE-seedS
  std::chrono::steady_clock::time_point next_;
};

// The results for people and for machines.

using RunResults = std::vector<train::RunResult>;
using Runs = std::span<const train::RunResult>;

// Runs of one recipe follow each other.
std::vector<Runs> by_recipe(const RunResults& results) {
  std::vector<Runs> groups;
  for (std::size_t begin = 0; begin < results.size();) {
    std::size_t end = begin;
    while (end < results.size() && results[end].recipe == results[begin].recipe) ++end;
    groups.push_back(Runs(results).subspan(begin, end - begin));
    begin = end;
  }
  return groups;
}

// "0.1234", or "0.1234 +- 0.0021" (half the distance of the extremes) over several seeds; "-" where there is none,
// "nan" where a run that did not break has no other.
std::string spread_text(Runs runs, int decimals, const std::function<double(const train::RunResult&)>& value) {
  double least = value(runs[0]), most = least, sum = 0;
  for (const train::RunResult& run : runs) {
    const double x = value(run);
    if (std::isnan(x)) return run.broke || run.was_stopped ? "-" : "nan";
    least = std::min(least, x);
    most = std::max(most, x);
    sum += x;
  }
  const std::string mean = decimal_text(sum / static_cast<double>(runs.size()), decimals);
  return runs.size() == 1 ? mean : mean + " +- " + decimal_text((most - least) / 2, decimals);
}

double value_or_nan(const std::optional<double>& x) { return x.value_or(train::not_measured); }

std::string remarks(Runs runs) {
  std::string text;
  const auto say = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  for (const train::RunResult& run : runs) {
    const std::string seed = runs.size() > 1 ? "seed " + std::to_string(run.seed) + " " : "";
    if (run.first_nonfinite) say(seed + "Inf or NaN at " + run.first_nonfinite->text());
    if (run.broke) say(seed + "broke at step " + std::to_string(*run.broke));
    if (run.was_stopped)
      say(seed + "stopped after " + std::to_string(run.rows.size()) + (run.rows.size() == 1 ? " step" : " steps"));
  }
  return text.empty() ? "-" : text;
}

// "3", or "2 to 4" over several seeds that differ; "-" without a value.
std::string range_text(std::span<const double> values, std::string (*text)(double)) {
  if (values.empty()) return "-";
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *least == *most ? text(*least) : text(*least) + " to " + text(*most);
}
std::string skipped_text(Runs runs) {
  std::vector<double> counts;
  for (const train::RunResult& run : runs) counts.push_back(static_cast<double>(run.skipped));
  return range_text(counts, [](double count) { return decimal_text(count, 0); });
}
std::string last_scale(Runs runs) {
  std::vector<double> scales;
  for (const train::RunResult& run : runs)
    if (!run.rows.empty()) scales.push_back(static_cast<double>(run.rows.back().scale));
  return range_text(scales, narrow::detail::scale_text);  // 65536 reads better as 2^16
}

std::string model_text(const train::ModelShape& s) {
  if (s.kind == train::ModelKind::mlp) {
    std::string text = "MLP " + std::to_string(s.inputs);
    for (const std::size_t n : s.hidden) text += "-" + std::to_string(n);
    return text + "-" + std::to_string(s.classes);
  }
  if (s.kind == train::ModelKind::cnn) {
    std::string text = "CNN of " + std::to_string(s.image) + "x" + std::to_string(s.image) + " images, channels 1";
    for (const std::size_t n : s.hidden) text += "-" + std::to_string(n);
    return text;
  }
  std::string sizes = std::to_string(s.layers) + " layers, width " + std::to_string(s.width) + ", " +
                      std::to_string(s.heads) + " heads";
  if (s.rms_norm) sizes += ", RMSNorm";
  if (s.qk_norm) sizes += ", QK-norm";
  if (s.soft_cap > 0) sizes += ", soft cap " + digits_text(s.soft_cap, 6);
  if (s.kind == train::ModelKind::vision)
    return "vision transformer, " + sizes + ", patches of " + std::to_string(s.patch);
  return "transformer, " + sizes + ", context " + std::to_string(s.context);
}

// ", clipped at 1 before unscaling; cosine schedule, warmup 20, counting calls": what is not as usual.
std::string order_text(const train::RunRequest& r) {
  std::string text;
  if (r.optimiser->clip > 0)
    text += ", clipped at " + digits_text(r.optimiser->clip, 6) +
            (r.clip_order == train::ClipOrder::before_unscale ? " before unscaling" : "");
  const train::Schedule& s = r.schedule;
  if (s.kind == train::ScheduleKind::constant && s.warmup == 0) return text;
  text += ", " + std::string(train::schedule_names[static_cast<std::size_t>(s.kind)]) + " learning rate";
  if (s.warmup > 0) text += " after a warmup of " + std::to_string(s.warmup);
  return text + (s.counts == train::ScheduleCounts::calls ? " counting calls" : " counting steps taken");
}

std::string train_heading(const train::RunRequest& r, std::size_t parameters) {
  std::string text = std::string(name_of(r.task)) + ": " + model_text(*r.shape) + ", " + std::to_string(parameters) +
                     " parameters, batch " + std::to_string(*r.batch);
  if (r.ranks > 1) text += " on " + std::to_string(r.ranks) + " ranks (" + std::string(name_of(r.order)) + ")";
  if (r.micro_batches > 1) text += " in " + std::to_string(r.micro_batches) + " micro-batches";
  if (r.micro_batches > 1 && r.accumulate == train::AccumulateAs::sum) text += " that are summed";
  return text + ", " + std::to_string(*r.steps) + (*r.steps == 1 ? " step of " : " steps of ") +
         (r.optimiser->kind == train::OptimiserKind::adamw ? "AdamW" : "SGD") + order_text(r) + "\n\n";
}

// One line a recipe, with the spread over its seeds.
TextTable train_table(const RunResults& results) {
  constexpr Align l = Align::left, r = Align::right;
  const bool has_classes =
      std::any_of(results.begin(), results.end(), [](const auto& run) { return run.held_out_accuracy.has_value(); });
  TextTable table{{"recipe", "final loss", "best loss", "held out"}, {l, r, r, r}, {}};
  if (has_classes) table.header.push_back("right %"), table.align.push_back(r);
  for (const char* title : {"skipped", "last scale"}) table.header.push_back(title), table.align.push_back(r);
  table.header.push_back("where it broke");
  table.align.push_back(l);
  for (const Runs runs : by_recipe(results)) {
    std::vector<TextCell> row{runs[0].recipe, spread_text(runs, 4, [](const auto& run) { return run.final_loss; }),
                          spread_text(runs, 4, [](const auto& run) { return run.best_loss; }),
                          spread_text(runs, 4, [](const auto& run) { return value_or_nan(run.held_out_loss); })};
    if (has_classes)
      row.emplace_back(spread_text(runs, 1, [](const auto& run) { return 100 * value_or_nan(run.held_out_accuracy); }));
    row.emplace_back(skipped_text(runs));
    row.emplace_back(last_scale(runs));
    row.emplace_back(remarks(runs));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string train_json(const RunResults& results) {
  const auto number = [](const std::optional<double>& x) { return x ? json_number(*x) : Json(); };
  Json list = Json::array();
  for (const train::RunResult& run : results) {
    Json row = Json::object();
    row["recipe"] = run.recipe;
    row["task"] = run.task;
    row["seed"] = run.seed;
    row["steps"] = run.rows.size();
    row["final_loss"] = json_number(run.final_loss);
    row["best_loss"] = json_number(run.best_loss);
    row["skipped"] = run.skipped;
    row["first_nonfinite"] = run.first_nonfinite ? Json(run.first_nonfinite->text()) : Json();
    row["broke"] = run.broke ? Json(*run.broke) : Json();
    row["held_out_loss"] = number(run.held_out_loss);
    row["held_out_accuracy"] = number(run.held_out_accuracy);
    row["last_scale"] = run.rows.empty() ? Json() : json_number(static_cast<double>(run.rows.back().scale));
    list.push_back(std::move(row));
  }
  return json_text(list);
}

TextTable recipe_list() {
  TextTable table{{"recipe", "loss scale", "what"}, {Align::left, Align::left, Align::left}, {}};
  for (const train::RecipeRow& row : train::recipe_table())
    table.rows.push_back({std::string(row.name), std::string(row.loss_scaler), std::string(row.what)});
  return table;
}

std::string recipe_list_json() {
  Json list = Json::array();
  for (const train::RecipeRow& row : train::recipe_table())
    list.push_back({{"name", row.name}, {"loss_scaler", row.loss_scaler}, {"what", row.what}});
  return json_text(list);
}

std::size_t count_parameters(train::Trainer& trainer) {
  std::size_t count = 0;
  for (const train::Parameter<float>* p : trainer.model().parameters()) count += p->value.size();
  return count;
}

// One run to its end, or to Ctrl-C.
train::RunResult run_one(train::Trainer& trainer, const TrainOptions& options, const std::optional<std::uint64_t>& dump,
                         const Interrupt& interrupt, Progress& progress) {
  std::optional<RunFiles> files;
  if (options.folder) files.emplace(*options.folder, trainer, options.resume);
  progress.add(trainer.rows().size());
  // Ranks of one run stop at the same step.
  const bool shared = trainer.request().messages != nullptr;
  const auto goes_on = [&] { return !(shared ? crew()->any(interrupt.came()) : interrupt.came()); };
  if (shared) crew()->at(trainer.request().recipe.name + ", seed " + std::to_string(trainer.request().seed));
  for (bool go_on = true; go_on && !trainer.finished(); go_on = goes_on()) {
    const train::StepRow row = trainer.step();
    progress.note(trainer.request().recipe.name + " loss " + decimal_text(row.loss, 3) + " scale " +
                  digits_text(static_cast<double>(row.scale), 6));
    progress.add();
    if (!files) continue;
    if (const train::StepReport* report = trainer.last_report()) files->write_report(*report);
    if (dump && *dump == row.step) files->write_dump(trainer, row.step);
    files->after_step(trainer);
  }
  if (files) files->finish(trainer);
  if (dump && !interrupt.came() && trainer.rows().size() <= *dump)
    complain("--dump: " + trainer.request().recipe.name + " broke before step " + std::to_string(*dump) +
             ", so there is no dump of it");
  return trainer.result();
}

// A queue of runs, each done by one rank. What a run has to say is said by the first.
RunResults share_runs(const TrainPlan& plan, const TrainOptions& options, const Interrupt& interrupt,
                      Progress& progress) {
  std::vector<narrow::cluster::Item> items;
  for (const train::RunRequest& r : plan.runs)
    items.push_back({*r.steps, r.recipe.name + ", seed " + std::to_string(r.seed)});
  using Said = std::pair<train::RunResult, std::string>;
  const std::vector<narrow::Bytes> done = crew()->share(items, [&](std::size_t i) {
    if (interrupt.came()) throw narrow::Error("stopped by a signal");
    const OwnWork own;
    const Captured words;
    train::Trainer trainer(plan.runs[i]);
    train::RunResult result = run_one(trainer, options, plan.dump, interrupt, progress);
    result.reports.clear();  // written, and not shown
    return narrow::to_bytes(Said(std::move(result), words.err));
  });
  RunResults results;
  for (const narrow::Bytes& bytes : done) {
    Said said = narrow::from_bytes<Said>(bytes);
    print_error(said.second);
    results.push_back(std::move(said.first));
  }
  return results;
}

constexpr const char* other_recipes =
    "\nand other frameworks' own settings, for example\n"
    "  --recipe ds_config.json\n"
    "  --recipe fsdp:param_dtype=bfloat16,reduce_dtype=float32   (or such keys in a .json file)\n"
    "  --recipe 'megatron:--fp16 --initial-loss-scale 65536 --hysteresis 4'   (or megatron:FILE of such flags)\n";

// Whether the ranks of a crew are those of the training, each with its part of every batch. Else each run is one
// rank's.
bool is_data_parallel(TrainOptions& options) {
  if (crew() == nullptr || crew()->size() == 1) return false;
  const std::string ranks = std::to_string(crew()->size());
  if (options.text == "-")
    throw narrow::Error("--text: standard input reaches one rank only; give a file that all of them can read");
  const bool asked = options.order || options.reduce || options.error_feedback;
  if (!options.ranks && (asked || plan_training(options).runs.size() == 1)) {
    options.ranks = ranks;
    blame("the " + ranks + " ranks of narrow-mpi share every batch of one run", [&] { return plan_training(options); });
  }
  return options.ranks == ranks;
}

int run(const TrainOptions& given) {
  TrainOptions options = given;
  if (options.list_recipes) {
    print(options.json ? recipe_list_json() : recipe_list().to_text(use_colour(1)) + other_recipes);
    return 0;
  }
  if (options.print_recipe) {
    const auto recipe = blame("--print-recipe", [&] { return train::require_recipe(*options.print_recipe); });
    for (const std::string& note : recipe.notes) complain("note: " + note);
    print(recipe_json(recipe));
    return 0;
  }
  const bool data_parallel = is_data_parallel(options);
  TrainPlan plan = plan_training(options);
  for (train::RunRequest& request : plan.runs)
    if (data_parallel) request.messages = &crew()->messages();
  if (options.resume && crew() == nullptr) check_resumed(*options.folder, plan);
  if (options.resume && crew() != nullptr)  // before a rank goes on from there
    crew()->together([&] {
      if (speaks()) check_resumed(*options.folder, plan);
    });
  for (const std::string& note : plan.notes) complain("note: " + note);
  const Interrupt interrupt;
  RunResults results;
  std::string heading;
  {
    Progress progress("train", plan.runs.size() * *plan.runs.front().steps);
    const bool queue = crew() != nullptr && !data_parallel;
    if (queue) results = share_runs(plan, options, interrupt, progress);
    for (const train::RunRequest& request : plan.runs) {
      if (interrupt.came() || (queue && !heading.empty())) break;
      train::Trainer trainer(request);
      if (heading.empty()) heading = train_heading(trainer.request(), count_parameters(trainer));
      if (!queue) results.push_back(run_one(trainer, options, plan.dump, interrupt, progress));
    }
  }
  print(options.json ? train_json(results)
                     : heading + train_table(results).to_text(use_colour(1)) +
                           "final, best loss: means of 20 steps in a row, of all where there are fewer\n");
  if (data_parallel && interrupt.came()) crew()->together([] { flush_output(); });  // all is said and written
  interrupt.pass_on();
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<TrainOptions>();
  options->declare(arguments);
  return [options] { return run(*options); };
}

}  // namespace of_train

const Command train_command{
    "train", "train a small real model under precision recipes, from the same start",
    "narrow train --task digits --recipe fp32,fp16-amp,fp16-amp-noscale --seed 1,2", of_train::declare,
    "Every recipe starts from the same parameters and sees the same batches; its arithmetic is emulated "
    "operation by operation. Several seeds give a spread. With -o a run that is interrupted (Ctrl-C, SIGTERM) "
    "saves a checkpoint, and --resume goes on to the same bits. --print-recipe gives a recipe as JSON, to "
    "change and to pass to --recipe."};

}  // namespace app
