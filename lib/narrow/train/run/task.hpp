// What is learned: the data, the model and the optimiser that belong to a task when nothing else is asked for.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "narrow/train/data/dataset.hpp"
#include "narrow/train/models/model.hpp"
#include "narrow/train/run/optimiser.hpp"
#include "narrow/train/run/run.hpp"

namespace narrow::train {

// text: the file that lm learns, empty for the one in the library. Throws Error when the data are not there.
std::shared_ptr<const Dataset> open_dataset(Task task, const ModelShape& shape, const std::string& text = {});

}  // namespace narrow::train
