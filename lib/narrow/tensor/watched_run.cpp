#include "narrow/tensor/watched_run.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/tensor/watched_record.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/strict_json.hpp"

namespace narrow {
namespace {

using Json = nlohmann::json;
using detail::LogObject;

// Every whole line of a file as an object; nothing where the file is not there.
template <class Each>
void for_each_object(const std::string& path, const Each& each) {
  if (!file_exists(path)) return;
  for_each_line(path, [&](std::string_view line, std::uint64_t number) {
    const std::string where = visible(path) + ": line " + std::to_string(number);
    const Json json = parse_strict_json<Json>(line, where);
    each(LogObject(json, where), where);
  });
}

}  // namespace

std::string WatchedTensor::series() const {
  return role + "/" + name + (occurrence > 1 ? "#" + std::to_string(occurrence) : "");
}
std::string WatchedTensor::label() const { return series() + "@" + std::to_string(step); }

double WatchedTensor::unscaled(double x) const { return scale > 0 && std::isfinite(scale) ? x / scale : std::nan(""); }

ExponentHistogram WatchedTensor::histogram() const {
  ExponentHistogram h;
  h.zero = zero, h.subnormal = subnormal, h.inf = inf, h.nan = nan;
  for (std::size_t k = 0; k < binades.size(); ++k) h.binade(first + static_cast<int>(k)) = binades[k];
  return h;
}

// Dumps of a run may lie beside a run.json of somebody else's.
bool is_watched_run(const std::string& path) {
  std::error_code error;  // a pipe would not end
  const std::string head = path + "/run.json";
  return std::filesystem::is_regular_file(head, error) && read_text(head).find("\"narrow_run\"") != std::string::npos;
}

WatchedRun::WatchedRun(const std::string& folder) : folder_(folder) {
  while (folder_.size() > 1 && folder_.ends_with('/')) folder_.pop_back();
  if (!file_exists(path("run.json")))
    throw Error(quote_path(folder) + " is no folder that narrow.torch.watch wrote: it has no run.json");
  const std::string where = visible(path("run.json"));
  const Json json = parse_strict_json<Json>(read_text(path("run.json")), where);
  const LogObject in(json, where);
  if (in.integer("narrow_run", largest_number) != 1) in.refuse("narrow_run", in.at("narrow_run"), "1");
  if (in.has("model")) model_ = in.text("model");
  for (const Json& name : in.list("formats")) {
    const std::string word = name.is_string() ? name.get<std::string>() : "";
    const NamedFormat* row = find_row(word);
    const std::optional<Format> format = find_format(word);
    if (!format) in.refuse("formats", name, "formats of narrow (narrow formats)");
    if (find(row != nullptr ? row->name : word) != nullptr) in.fail("formats has " + quote(word) + " twice");
    formats_.push_back({row != nullptr ? std::string(row->name) : word, *format});
  }
}

std::string WatchedRun::path(const char* file) const {
  const std::string plain = folder_ + "/" + file, packed = plain + ".gz";
  std::string path = !file_exists(plain) && file_exists(packed) ? packed : plain;
  std::error_code unknown;  // a pipe that nobody writes to would not end
  if (file_exists(path) && !std::filesystem::is_regular_file(path, unknown))
    throw Error(quote_path(path) + " is no file of a run");
  return path;
}

const WatchedFormat* WatchedRun::find(std::string_view format) const {
  for (const WatchedFormat& f : formats_)
    if (detail::same_word(f.name, format)) return &f;
  return nullptr;
}

void WatchedRun::for_each_tensor(const std::function<void(WatchedTensor&)>& each) const {
  std::int64_t step = 0;
  std::map<std::string, std::size_t> seen;  // in this step
  const auto add = [&](const LogObject& in, WatchedTensor& t) {
    if (t.step < step)
      in.fail("step " + std::to_string(t.step) + " follows step " + std::to_string(step) + "; steps ascend");
    if (t.step != step) seen.clear();
    step = t.step;
    t.occurrence = ++seen[t.series()];
    if (seen.size() > most_tensors) in.fail("more than " + std::to_string(most_tensors) + " tensors in one step");
    each(t);
  };
  detail::PackedSteps packed;
  for_each_object(path("tensors.jsonl"), [&](const LogObject& in, const std::string& where) {
    if (!in.has("tensors")) {
      WatchedTensor t = detail::tensor_of(in, formats_, where);
      return add(in, t);
    }
    if (!formats_.empty()) in.fail("run.json has formats, and a line with a whole step has none");
    packed.for_each_tensor(in, where, add);
  });
}

bool WatchedRun::has_scaler() const { return file_exists(path("scale.jsonl")); }

std::optional<ScaleLog> WatchedRun::log_of_scaler() const {
  std::string text = read_text(path("scale.jsonl"));
  text.erase(text.rfind('\n') + 1);  // npos + 1 is 0: the first line has no end yet
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return {};
  try {
    return parse_scale_log(text, path("scale.jsonl"));
  } catch (const Error&) {  // a scale that became 0 or Inf is the end of a log, and no mistake in it
    std::optional<std::int64_t> step;
    std::uint64_t lines = 0;
    for_each_object(path("scale.jsonl"), [&](const LogObject& in, const std::string&) {
      if (step) return;
      const double scale = in.any_number("scale");
      if (scale == 0 || std::isinf(scale)) step = in.step();
      else ++lines;
    });
    if (!step || lines == 0) throw;
    std::size_t end = 0;
    while (lines-- > 0) end = text.find('\n', end) + 1;
    ScaleLog log = parse_scale_log(text.substr(0, end), path("scale.jsonl"));
    log.what = "up to step " + std::to_string(*step) + ", where the loss scale became 0 or Inf";
    return log;
  }
}

std::optional<ScaleLog> WatchedRun::scale_log() const {
  if (has_scaler()) return log_of_scaler();
  GradientLog log;
  for_each_tensor([&](const WatchedTensor& t) {
    if (!t.is_gradient()) return;
    if (log.steps.empty() || log.steps.back() != t.step) log.steps.push_back(t.step), log.amax.push_back(0);
    // What is not finite in FP16 may be the scale's doing; in a wider type it overflows at every scale.
    const bool is_finite = t.finite() == t.count;
    if (is_finite && !t.has_extremes) log.amax.back() = GradientLog::no_amax;
    const double unscaled = is_finite ? t.unscaled(t.amax) : HUGE_VAL;
    float& amax = log.amax.back();
    if (amax == GradientLog::no_amax || std::isnan(unscaled) || (t.dtype == "fp16" && !is_finite))
      amax = GradientLog::no_amax;
    else amax = std::max(amax, unscaled > 0x1.fffffep+127 ? HUGE_VALF : static_cast<float>(unscaled));
  });
  if (std::ranges::all_of(log.amax, [](float x) { return x == GradientLog::no_amax; })) return {};  // none, or unknown
  const std::string what = "the largest of all gradients of " + std::to_string(log.steps.size()) + " watched steps";
  return ScaleLog{std::move(log), what};
}

std::vector<WatchedLoss> WatchedRun::losses() const {
  std::vector<WatchedLoss> all;
  for_each_object(path("loss.jsonl"), [&](const LogObject& in, const std::string&) {
    all.push_back({in.step(), in.any_number("loss")});
  });
  std::ranges::stable_sort(all, {}, &WatchedLoss::step);  // whoever logs may give the step
  return all;
}

void LastStep::add(const WatchedTensor& tensor) {
  if (!last_.empty() && last_.front().step != tensor.step) {
    before_ = std::move(last_);
    last_.clear();
  }
  last_.push_back(tensor);
}

}  // namespace narrow
