#include "narrow/train/run/task.hpp"

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "narrow/train/data/digits.hpp"
#include "narrow/train/data/fashion.hpp"
#include "narrow/train/data/text_corpus.hpp"

namespace narrow::train {

Task require_task(std::string_view name) {
  for (std::size_t i = 0; i < task_names.size(); ++i)
    if (task_names[i] == name) return static_cast<Task>(i);
  throw Error("task " + quote(name) + " is unknown; " + hint(name, {task_names.begin(), task_names.end()}) +
              "accepted: digits lm fashion fashion-vit");
}

TaskSettings settings_of(Task task) {
  switch (task) {
    case Task::digits: return {{.kind = ModelKind::mlp}, {.learning_rate = 2e-3}, 300, 64};
    case Task::lm:
      return {{.kind = ModelKind::transformer}, {.learning_rate = 1e-3, .weight_decay = 0.1, .clip = 1}, 200, 8};
    case Task::fashion:
      return {{.kind = ModelKind::mlp, .inputs = 784, .hidden = {256, 128}}, {.learning_rate = 1e-3}, 1000, 64};
    case Task::fashion_vit:
      return {{.kind = ModelKind::vision, .inputs = 784, .layers = 2, .width = 64, .heads = 4},
              {.learning_rate = 1e-3, .clip = 1},
              1000,
              64};
  }
  return {};
}

TaskSettings settings_of(Task task, std::string_view model) {
  TaskSettings settings = settings_of(task);
  const std::string own(name_of(settings.shape.kind));
  if (model == own) return settings;
  const bool may_convolve = task == Task::digits || task == Task::fashion;
  if (!may_convolve || model != name_of(ModelKind::cnn))
    throw Error("model " + quote(model) + " is none of " + std::string(name_of(task)) + "; accepted: " + own +
                (may_convolve ? " cnn" : ""));
  settings.shape = {.kind = ModelKind::cnn, .hidden = {8, 16}, .image = task == Task::digits ? 8u : 28u};
  return settings;
}

std::shared_ptr<const Dataset> open_dataset(Task task, const ModelShape& shape, const std::string& text) {
  switch (task) {
    case Task::digits: return image_dataset(split_digits());
    case Task::lm: return text_dataset(read_corpus(text), shape.context);
    case Task::fashion:
    case Task::fashion_vit: return image_dataset(read_fashion());
  }
  return nullptr;
}

}  // namespace narrow::train
