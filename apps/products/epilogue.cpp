#include "products/epilogue.hpp"

#include <algorithm>

#include "narrow/special/operation.hpp"
#include "narrow/text/quote.hpp"

namespace app {
namespace of_epilogue {

std::string accepted() {
  std::string functions;
  for (const narrow::EpilogueFunction& f : narrow::epilogue_functions())
    functions += (functions.empty() ? "" : ", ") + std::string(f.name);
  return "accepted: bias, then round, then one of " + functions + ", joined by +; for example bias+gelu";
}

const narrow::EpilogueFunction* find_function(std::string_view name) {
  for (const narrow::EpilogueFunction& f : narrow::epilogue_functions())
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace of_epilogue

void read_epilogue(const ProductOptions& options, ProductInputs& in) {
  using namespace of_epilogue;
  if (!options.epilogue) return;
  const std::string& text = *options.epilogue;
  enum Place { nothing, bias, round, function } last = nothing;  // words come in this order
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const narrow::EpilogueFunction* f = find_function(word);
    const Place place = word == "bias" ? bias : word == "round" ? round : f != nullptr ? function : nothing;
    if (place <= last)
      throw narrow::Error("--epilogue: " + narrow::quote(place == nothing ? word : text) + "; " + accepted());
    if (place == bias && (!in.c || !in.c->one_row_for_all))
      throw narrow::Error("--epilogue: " + narrow::quote(text) + " has a bias, and " +
                          (in.c ? "--c is a matrix; a bias has one number for each column" : "there is no --c"));
    if (place == round) in.options.rounds_before = true;
    if (f != nullptr) in.options.function = *f;
    last = place, begin = end + 1;
  }
  if (last == round)
    throw narrow::Error("--epilogue: " + narrow::quote(text) + " ends with round, and D is rounded without it; " +
                        accepted());
}

}  // namespace app
