// narrow train: a small real model under several precision recipes, all from the same start, side by side.
#include "cli/interrupt.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "training/train_folder.hpp"
#include "training/train_options.hpp"
#include "training/train_text.hpp"

namespace app {
namespace of_train {

namespace train = narrow::train;

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
  for (bool go_on = true; go_on && !trainer.finished(); go_on = !interrupt.came()) {
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

constexpr const char* other_recipes =
    "\nand other frameworks' own settings, for example\n"
    "  --recipe ds_config.json\n"
    "  --recipe fsdp:param_dtype=bfloat16,reduce_dtype=float32   (or such keys in a .json file)\n"
    "  --recipe 'megatron:--fp16 --initial-loss-scale 65536 --hysteresis 4'   (or megatron:FILE of such flags)\n";

int run(const TrainOptions& options) {
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
  const TrainPlan plan = plan_training(options);
  if (options.resume) check_resumed(*options.folder, plan);
  for (const std::string& note : plan.notes) complain("note: " + note);
  const Interrupt interrupt;
  RunResults results;
  std::string heading;
  {
    Progress progress("train", plan.runs.size() * *plan.runs.front().steps);
    for (const train::RunRequest& request : plan.runs) {
      if (interrupt.came()) break;
      train::Trainer trainer(request);
      if (heading.empty()) heading = train_heading(trainer.request(), count_parameters(trainer));
      results.push_back(run_one(trainer, options, plan.dump, interrupt, progress));
    }
  }
  print(options.json ? train_json(results)
                     : heading + train_table(results).to_text(use_colour(1)) +
                           "final, best loss: means of 20 steps in a row, of all where there are fewer\n");
  interrupt.pass_on();
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<TrainOptions>();
  options->declare(arguments);
  return [options] { return run(*options); };
}

}  // namespace of_train

const Command train_command{"train", "train a small real model under precision recipes, from the same start",
                            "narrow train --task digits --recipe fp32,fp16-amp,fp16-amp-noscale --seed 1,2", of_train::declare};

}  // namespace app
