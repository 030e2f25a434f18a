#include "narrow/train/policy/recipe_words.hpp"

#include "narrow/base/error.hpp"
#include "narrow/dot/model.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace narrow::train {

void refuse(const std::string& where, std::string_view what, std::string_view word,
            const std::vector<std::string_view>& accepted) {
  std::string message = where + ": " + std::string(what) + " " + quote(word) + " is unknown; " +
                        hint(word, accepted) + "accepted:";
  for (const std::string_view name : accepted) message += " " + std::string(name);
  throw Error(message);
}

std::size_t choose(const std::string& where, std::string_view what, std::string_view word,
                   std::span<const std::string_view> accepted) {
  for (std::size_t i = 0; i < accepted.size(); ++i)
    if (accepted[i] == word) return i;
  refuse(where, what, word, {accepted.begin(), accepted.end()});
}

ScaleRule require_scale_rule(const std::string& where, std::string_view word) {
  std::vector<std::string_view> names;
  for (const ScaleRuleRow& row : scale_rule_table) {
    if (row.name == word) return row.rule;
    names.push_back(row.name);
  }
  refuse(where, "rule", word, names);
}

const DotModel* require_dot_model(const std::string& where, std::string_view word) {
  if (const DotModel* model = find_dot_model(word)) return model;
  throw Error(where + ": model " + quote(word) + " is unknown; narrow models lists them");
}

}  // namespace narrow::train
