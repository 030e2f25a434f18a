// Models and plans as users name them, with the closest name where there is none.
#pragma once

#include <string_view>
#include <vector>

#include "narrow/dot/model.hpp"

namespace app {

const narrow::DotModel& choose_model(std::string_view name);  // throws narrow::Error

// A model's full name, or the front of names up to a dot: "hopper.wgmma". Throws narrow::Error when there is none.
std::vector<const narrow::DotModel*> models_named(std::string_view front);

// The format as PTX spells it ("f16"), as the table does ("fp16") or an alias.
bool is_type(const narrow::DotType& type, std::string_view name);
bool is_type_name(std::string_view name);  // of an operand or accumulator of some model

std::string_view rounding_text(narrow::Rounding rounding);  // "toward zero"

}  // namespace app
