#include "options/model_choice.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = narrow::detail::lower(c);
  return out;
}

bool is_front(std::string_view front, std::string_view name) {
  if (!front.empty() && front.back() == '.') front.remove_suffix(1);
  return name.starts_with(front) && (name.size() == front.size() || name[front.size()] == '.');
}

[[noreturn]] void refuse(std::string_view name) {
  std::vector<std::string_view> all;
  std::vector<std::string> longer;
  for (const narrow::DotModel& m : narrow::dot_models()) {
    all.push_back(m.name.view());
    if (!name.empty() && is_front(name, m.name.view())) longer.emplace_back(m.name.view());
  }
  const std::string what = "no model is called " + narrow::quote(name);
  if (!longer.empty())
    throw narrow::Error(what + "; " + std::to_string(longer.size()) + " names begin so, the first is " +
                        longer.front() + "; see narrow models " + std::string(name));
  throw narrow::Error(what + "; " + narrow::hint(name, all) +
                      "a name is like hopper.wgmma.f32.e4m3.e4m3; see narrow models");
}

}  // namespace

const narrow::DotModel& choose_model(std::string_view name) {
  const narrow::DotModel* model = narrow::find_dot_model(lower(name));
  if (model == nullptr) refuse(name);
  return *model;
}

std::vector<const narrow::DotModel*> models_named(std::string_view front) {
  const std::string word = lower(front);
  if (const narrow::DotModel* model = narrow::find_dot_model(word)) return {model};
  std::vector<const narrow::DotModel*> found;
  for (const narrow::DotModel& m : narrow::dot_models())
    if (!word.empty() && is_front(word, m.name.view())) found.push_back(&m);
  if (found.empty()) refuse(front);
  return found;
}

bool is_type(const narrow::DotType& type, std::string_view name) {
  if (type.name == lower(name)) return true;
  const auto format = narrow::find_format(name);
  return format && *format == type.format;
}

bool is_type_name(std::string_view name) {
  return std::ranges::any_of(narrow::dot_models(), [&](const narrow::DotModel& m) {
    return is_type(m.a, name) || is_type(m.b, name) || is_type(m.accumulator, name);
  });
}

std::string_view rounding_text(narrow::Rounding rounding) {
  return rounding == narrow::Rounding::toward_zero ? "toward zero" : "to nearest even";
}

}  // namespace app
