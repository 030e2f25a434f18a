// The results of `narrow train` for people and for machines.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.hpp"
#include "narrow/train/run/trainer.hpp"

namespace app {

using RunResults = std::vector<narrow::train::RunResult>;

std::string train_heading(const narrow::train::RunRequest& request, std::size_t parameters);
TextTable train_table(const RunResults& results);  // one line a recipe, with the spread over its seeds
std::string train_json(const RunResults& results);
TextTable recipe_list();
std::string recipe_list_json();

}  // namespace app
