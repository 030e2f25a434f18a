// What is learned: the data, the model and the optimiser that belong to a task when nothing else is asked for.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "narrow/train/data/dataset.hpp"
#include "narrow/train/models/model.hpp"
#include "narrow/train/run/optimiser.hpp"

namespace narrow::train {

enum class Task : std::uint8_t { digits, lm, fashion, fashion_vit };
inline constexpr std::array<std::string_view, 4> task_names = {"digits", "lm", "fashion", "fashion-vit"};
constexpr std::string_view name_of(Task t) noexcept { return task_names[static_cast<std::size_t>(t)]; }
Task require_task(std::string_view name);  // throws Error with the names

struct TaskSettings {
  ModelShape shape;
  OptimiserSettings optimiser;
  std::uint64_t steps;
  std::size_t batch;  // images, or windows of text, a step
};
TaskSettings settings_of(Task task);
// With the model of this name: the task's own, or cnn for digits and fashion. Throws Error with the names.
TaskSettings settings_of(Task task, std::string_view model);

// text: the file that lm learns, empty for the one in the library. Throws Error when the data are not there.
std::shared_ptr<const Dataset> open_dataset(Task task, const ModelShape& shape, const std::string& text = {});

}  // namespace narrow::train
