#include "options/run_choice.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/number_text.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/tensor/watched_counts.hpp"
#include "narrow/text/quote.hpp"
#include "options/number_option.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace {

// "steps 0, 50 and 100", "201 steps from 0 to 10000".
std::string steps_text(const std::vector<std::int64_t>& steps) {
  constexpr std::size_t most = 8;
  if (steps.size() > most)
    return std::to_string(steps.size()) + " steps from " + std::to_string(steps.front()) + " to " +
           std::to_string(steps.back());
  std::string text = steps.size() == 1 ? "step " : "steps ";
  for (std::size_t i = 0; i < steps.size(); ++i)
    text += (i == 0 ? "" : i + 1 == steps.size() ? " and " : ", ") + std::to_string(steps[i]);
  return text;
}

std::string about_scales(const std::vector<narrow::WatchedTensor>& tensors) {
  std::set<double> scales;
  for (const narrow::WatchedTensor& t : tensors) scales.insert(t.scale);
  scales.erase(1);
  if (scales.empty()) return "";
  return "binades and counts of gradients are of what was in memory: times " +
         (scales.size() == 1
              ? "the loss scale, " + scale_text(*scales.begin())
              : "the loss scales, " + scale_text(*scales.begin()) + " to " + scale_text(*scales.rbegin())) +
         "\n";
}

}  // namespace

std::optional<std::string> run_folder_of(const std::vector<std::string>& arguments) {
  const auto found = std::find_if(arguments.begin(), arguments.end(), narrow::is_watched_run);
  if (found == arguments.end()) return {};
  if (arguments.size() > 1)
    throw narrow::Error(narrow::quote(*found) + " is the folder of a watched run, which stands alone; leave out " +
                        narrow::quote(arguments[found == arguments.begin() ? 1 : 0]));
  return *found;
}

ChosenRun open_run(const std::string& folder, const TensorOptions& options) {
  if (options.format) throw narrow::Error("--format goes with tensor files, not with the folder of a watched run");
  ChosenRun chosen{narrow::WatchedRun(folder), {}, false, ""};
  std::optional<NamePattern> pattern;
  if (options.pattern) pattern.emplace(*options.pattern);
  narrow::LastStep last;
  std::vector<std::int64_t> steps;
  std::string one_name;
  chosen.run.for_each_tensor([&](narrow::WatchedTensor& t) {
    if (steps.empty() || steps.back() != t.step) steps.push_back(t.step);
    if (!pattern) return last.add(t);
    if (one_name.empty()) one_name = t.label();
    if (!pattern->matches(t.label())) return;
    if (chosen.tensors.size() == narrow::most_tensors)
      throw narrow::Error("--tensors: more than " + std::to_string(narrow::most_tensors) +
                          " tensors match; choose fewer");
    chosen.several_steps = chosen.several_steps || (!chosen.tensors.empty() && chosen.tensors.back().step != t.step);
    chosen.tensors.push_back(std::move(t));
  });
  if (steps.empty()) throw narrow::Error(narrow::quote(folder) + " has no tensors: no step was watched to its end");
  if (pattern && chosen.tensors.empty())
    throw narrow::Error("--tensors: no name in " + narrow::quote(folder) + " matches " +
                        narrow::quote(*options.pattern) + "; one of its names is " + narrow::quote(one_name));
  if (!pattern) {
    chosen.tensors = last.tensors();
    const std::int64_t shown = chosen.tensors.front().step;
    chosen.about =
        printable(folder) + ": watched at " + steps_text(steps) + "; shown is step " + std::to_string(shown) +
        (last.is_cut() ? ", the last with all its tensors" : "") +
        (steps.size() > 1 ? " (--tensors '@" + std::to_string(steps.front()) + "$' takes another, . all)" : "") + "\n";
  }
  chosen.about += about_scales(chosen.tensors);
  if (std::ranges::any_of(chosen.tensors, [](const narrow::WatchedTensor& t) { return !t.has_signs; }))
    chosen.about += "signs were not recorded: counts of both signs are under positive\n";
  if (std::ranges::any_of(chosen.tensors, [](const narrow::WatchedTensor& t) { return !t.has_extremes; }))
    chosen.about += "largest and smallest values were not recorded: they are given as the ends of their binades\n";
  return chosen;
}

std::string format_names(const narrow::WatchedRun& run) {
  std::string list;
  for (const narrow::WatchedFormat& f : run.formats()) list += (list.empty() ? "" : ",") + f.name;
  return list;
}

int parse_scale_log2(const std::string& text) {
  const double scale = parse_scale(text);
  const int k = std::ilogb(scale);
  if (std::ldexp(1.0, k) == scale && std::abs(k) <= 253) return k;
  throw narrow::Error("--scale: " + narrow::quote(text) +
                      " is no power of two from 2^-253 to 2^253; counts of binades can be multiplied by no other");
}

narrow::ExponentHistogram scaled_histogram(const narrow::WatchedTensor& tensor, int k) {
  const narrow::ExponentHistogram h = tensor.histogram();
  const auto scaled = narrow::times_power_of_two(h, k);
  // A float below the binades is rounded once more, and may become zero.
  if (k == 0 || (scaled && h.subnormal.total() == 0 && scaled->subnormal.total() == 0)) return *scaled;
  throw narrow::Error("--scale: times 2^" + std::to_string(k) + " values of " + narrow::quote(tensor.label()) +
                      " are below 2^-126, or were before: their count alone does not tell what they become");
}

narrow::BinadeFates watched_fates(const narrow::WatchedRun& run, const narrow::WatchedTensor& tensor,
                                  const std::string& name, const narrow::Format& format, int k) {
  const narrow::WatchedFormat* watched = k == 0 ? run.find(name) : nullptr;
  const narrow::WatchedCounts* counted =
      watched == nullptr ? nullptr : &tensor.formats[static_cast<std::size_t>(watched - run.formats().data())];
  if (const auto fates = narrow::fates_of(scaled_histogram(tensor, k), {format, {}}, counted)) return *fates;
  const std::string watched_list = run.formats().empty() ? "none" : format_names(run);
  throw narrow::Error(
      counted != nullptr ? "the counts of " + name + " do not fit the binades of " + narrow::quote(tensor.label())
                         : name + (k == 0 ? "" : " at 2^" + std::to_string(k)) +
                               " was not watched, and a limit of it " + "cuts a binade of " +
                               narrow::quote(tensor.label()) + ": only watch can count that; watched: " + watched_list);
}

}  // namespace app
