// The words of a recipe file: names of formats, rules and other choices, and the one way to refuse a wrong one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "narrow/text/text.hpp"
#include "narrow/train/policy/policy.hpp"

namespace narrow::train {

// Read back by find_format.
inline std::string format_word(const Format& format) { return name_of(format); }

// 'key' is unknown here, or 'word' is no value of it: both say what is accepted, and the closest of it.
[[noreturn]] void refuse(const std::string& where, std::string_view what, std::string_view word,
                         const std::vector<std::string_view>& accepted);

// The place of a word in a list of names.
std::size_t choose(const std::string& where, std::string_view what, std::string_view word,
                   std::span<const std::string_view> accepted);

ScaleRule require_scale_rule(const std::string& where, std::string_view word);
const DotModel* require_dot_model(const std::string& where, std::string_view word);

}  // namespace narrow::train
