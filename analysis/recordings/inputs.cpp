// Reads the recordings, checks them as any file from outside, and makes numbers where there is no file.
#include "analysis/recordings/inputs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>

#include "narrow/base/error.hpp"
#include "narrow/base/random.hpp"
#include "narrow/report/table.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/tensor.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/text/strict_json.hpp"

namespace analysis {

using Json = nlohmann::json;

std::string no_recordings_note(std::string_view instead) {
  return "NARROW_DATA is set to nothing, so " + std::string(instead) + " instead of the recordings.";
}

Source recorded_text(std::string_view what) {
  if (const char* chosen = std::getenv("NARROW_DATA"))
    return {"the recordings in " + std::string(chosen), {narrow::Evidence::assumed, "those recordings"}};
  return {"recorded: " + std::string(what), {narrow::Evidence::measured, "the recording on an H200"}};
}

std::string file_text(const std::string& file) { return file.substr(file.find_last_of('/') + 1); }

namespace {

Values values_of(const narrow::Tensor& stored) {
  const narrow::Tensor tensor = narrow::row_major(stored);
  Values v{tensor.name, 1, static_cast<std::size_t>(tensor.values()), {}};
  v.shape.assign(tensor.shape.begin(), tensor.shape.end());
  if (!v.shape.empty()) v.shape.back() *= static_cast<std::size_t>(tensor.type.values());  // complex: two values
  if (tensor.shape.size() > 1 && tensor.shape.back() > 0) {
    v.cols = static_cast<std::size_t>(tensor.shape.back()) * static_cast<std::size_t>(tensor.type.values());
    v.rows = static_cast<std::size_t>(tensor.values()) / v.cols;
  }
  v.data.resize(v.rows * v.cols);
  if (tensor.type.format.width() <= 32) {
    narrow::read_values(tensor, 0, std::span<float>(v.data));
    return v;
  }
  std::vector<double> wide(v.data.size());
  narrow::read_values(tensor, 0, std::span<double>(wide));
  for (std::size_t i = 0; i < wide.size(); ++i) {
    v.data[i] = static_cast<float>(wide[i]);
    v.beyond_fp32 += std::isfinite(wide[i]) && !std::isfinite(v.data[i]);
    v.below_fp32 += wide[i] != 0 && v.data[i] == 0;
  }
  return v;
}

void append_name(std::string& names, const narrow::Tensor& tensor) {
  constexpr std::size_t enough = 200;
  if (names.size() < enough)
    names += (names.empty() ? "" : ", ") + tensor.name + " (" + std::string(tensor.type.name) +
             (tensor.values() == 0 ? ", no values)" : ")");
  else if (!names.ends_with(" ...")) names += " ...";
}

}  // namespace

std::vector<Values> read_values_of(const std::string& file, std::string_view part, std::string* unread) {
  const auto [path, only] = narrow::split_file_and_name(file);
  if (!only.empty()) {
    const narrow::Tensor tensor = narrow::open_tensor(file);
    if (!tensor.type.has_format())
      throw narrow::Error(file + ": elements are " + std::string(tensor.type.name) + ", not floating");
    if (tensor.values() == 0) throw narrow::Error(file + ": the tensor has no values");
    return {values_of(tensor)};
  }
  const narrow::TensorFile opened = narrow::open_tensor_file(path);
  std::vector<Values> found;
  std::string names, skipped;
  for (const narrow::Tensor& tensor : opened.tensors) {
    const bool readable = tensor.type.has_format() && tensor.values() > 0;
    if (readable && tensor.name.find(part) != std::string::npos) found.push_back(values_of(tensor));
    append_name(names, tensor);
    if (!readable) append_name(skipped, tensor);
  }
  for (const auto& [name, why] : opened.unreadable) skipped += (skipped.empty() ? "" : ", ") + name + " (" + why + ")";
  if (found.empty())
    throw narrow::Error(path + ": no floating tensor with values" +
                        (part.empty() ? "" : " whose name contains '" + std::string(part) + "'") + "; it has " +
                        (names.empty() ? "no tensors" : names));
  std::uint64_t below = 0;
  for (const Values& v : found) below += v.below_fp32;
  if (unread == nullptr) return found;
  if (!skipped.empty()) *unread = "Not read: " + skipped + ".";
  if (below > 0)
    *unread += (unread->empty() ? "" : " ") + std::to_string(below) + " values are zero in FP32 and count as zeros.";
  return found;
}

void NotFinite::add(const Values& values) {
  for (const float x : values.data) nan += std::isnan(x), inf += std::isinf(x);
  beyond_fp32 += values.beyond_fp32;
}

std::string NotFinite::text() const {
  const auto counted = [](std::uint64_t n) { return narrow::report::count_text(static_cast<std::int64_t>(n)); };
  std::string out;
  if (nan > 0) out = counted(nan) + " NaN";
  if (inf > beyond_fp32) out += (out.empty() ? "" : " and ") + counted(inf - beyond_fp32) + " Inf";
  if (beyond_fp32 > 0)
    out += (out.empty() ? "" : " and ") + counted(beyond_fp32) + (beyond_fp32 == 1 ? " value" : " values") +
           " beyond FP32";
  return out;
}

std::string kind_of_tensor(std::string_view name) {
  const auto has = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
  };
  const bool parameter = name.starts_with("weight") || has({".weight", ".bias", "_weight", "_bias"});
  if (has({"actgrad", "grad_output", "grad_input"})) return "activation gradients";
  if (has({"grad"})) return parameter || name.starts_with("grad.") ? "weight gradients" : "gradients";
  if (parameter) return "weights";
  if (has({"attn", "attention"})) return "attention";
  return name.starts_with("act.") || has({"activation"}) ? "activations" : "";
}

const Values* find_values(const std::vector<Values>& all, std::string_view name) {
  for (const Values& v : all)
    if (v.name == name) return &v;
  return nullptr;
}

// ---- JSON ----

namespace {

Json load_json(const std::string& path) { return narrow::parse_strict_json<Json>(narrow::read_text(path), path); }

// nlohmann's errors name the key and the type: one line is enough to find it.
template <class Read>
auto reading(const std::string& path, const Read& read) {
  try {
    return read();
  } catch (const Json::exception& e) {
    throw narrow::Error(path + ": not as record_gpt.py writes it: " + e.what());
  }
}

narrow::ExponentHistogram histogram_of(const Json& t, const std::string& path) {
  using narrow::ExponentHistogram;
  ExponentHistogram h;
  h.zero.positive = t.at("zeros").get<std::uint64_t>();
  h.subnormal.positive = t.at("subnormal").get<std::uint64_t>();
  h.inf.positive = t.at("inf").get<std::uint64_t>();
  h.nan.positive = t.at("nan").get<std::uint64_t>();
  const int first = t.at("first").get<int>();
  const Json& binades = t.at("binades");
  if (first < ExponentHistogram::min_exponent || first > ExponentHistogram::max_exponent ||
      binades.size() > h.binades.size() ||
      first + static_cast<int>(binades.size()) - 1 > ExponentHistogram::max_exponent)
    throw narrow::Error(path + ": binades of " + t.at("name").get<std::string>() + " are outside of -126 .. 127");
  for (std::size_t i = 0; i < binades.size(); ++i)
    h.binade(first + static_cast<int>(i)).positive = binades[i].get<std::uint64_t>();
  if (h.count() != t.at("count").get<std::uint64_t>())
    throw narrow::Error(path + ": the binades of " + t.at("name").get<std::string>() + " do not add up to its count");
  return h;
}

RecordedPass pass_of(const Json& p, const std::string& path) {
  RecordedPass pass{p.at("label"),
                    p.value("step", 0),
                    p.at("scale"),
                    p.value("tokens", std::int64_t{0}),
                    p.value("dtype", std::string("float32")),
                    {}};
  for (const Json& t : p.at("tensors"))
    pass.tensors.push_back({t.at("kind"), t.at("name"), t.at("amax"), histogram_of(t, path)});
  return pass;
}

double number_or_nan(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

TrainingLog log_of(const Json& run) {
  TrainingLog log{run.at("name"), run.at("dtype"), 0, 0, {}, {}, {}, {}, {}};
  if (!run.at("init_scale").is_null()) {
    log.init_scale = run.at("init_scale");
    log.growth_interval = run.at("growth_interval");
  }
  const Json& columns = run.at("columns");
  const auto place = [&](const char* name) {
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i] == name) return i;
    throw narrow::Error(std::string("the log ") + log.name + " has no column " + name);
  };
  const std::size_t loss = place("loss"), scale = place("scale"), inf = place("found_inf"), amax = place("grad_amax"),
                    score = place("score_amax");
  for (const Json& row : run.at("rows")) {
    log.loss.push_back(number_or_nan(row.at(loss)));
    log.scale.push_back(number_or_nan(row.at(scale)));
    log.found_inf.push_back(row.at(inf).get<int>() != 0 ? 1 : 0);
    log.grad_amax.push_back(number_or_nan(row.at(amax)));
    log.score_amax.push_back(number_or_nan(row.at(score)));
  }
  if (log.loss.empty()) throw narrow::Error("the log " + log.name + " has no rows; a log has one a step");
  return log;
}

}  // namespace

std::optional<Recording> load_recording() {
  const std::optional<std::string> path = find_data("torch/histograms.json");
  if (!path) return {};
  const Json file = load_json(*path);
  return reading(*path, [&]() -> std::optional<Recording> {
    const Json& model = file.at("model");
    Recording r{model.at("width"), model.at("heads"), model.at("layers"), model.at("context"), {}, {}};
    for (const Json& p : file.at("steps")) r.passes.push_back(pass_of(p, *path));
    for (const Json& a : file.at("attention"))
      r.attention.push_back(
          {a.at(0), a.at(1), a.at(2), number_or_nan(a.at(3)), number_or_nan(a.at(4)), number_or_nan(a.at(5))});
    return r;
  });
}

std::vector<TrainingLog> load_logs() {
  const std::optional<std::string> path = find_data("torch/logs.json");
  if (!path) return {};
  const Json file = load_json(*path);
  return reading(*path, [&] {
    std::vector<TrainingLog> logs;
    for (const Json& run : file.at("runs")) logs.push_back(log_of(run));
    return logs;
  });
}

const TrainingLog* find_log(const std::vector<TrainingLog>& logs, std::string_view name, std::size_t least_steps) {
  for (const TrainingLog& log : logs)
    if (log.name == name && log.loss.size() >= least_steps) return &log;
  return nullptr;
}

// ---- Made numbers ----

double uniform(std::uint64_t seed, std::uint64_t index) {
  return static_cast<double>(narrow::random_bits(seed, index) >> 11) * 0x1p-53;
}

double normal(std::uint64_t seed, std::uint64_t index) {
  constexpr int words = 8;
  constexpr double variance = words * 64 / 4.0 + 1 / 12.0;  // of the count of ones, and of the smoothing
  static const double deviation = std::sqrt(variance);
  const std::uint64_t own = narrow::random_bits(seed, index);  // a seed for this number's words
  int ones = 0;
  for (std::uint64_t w = 0; w < words; ++w) ones += std::popcount(narrow::random_bits(own, w));
  return (ones - words * 32 + uniform(own, words) - 0.5) / deviation;
}

std::vector<float> normal_values(std::size_t count, double deviation, std::uint64_t seed) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(deviation * normal(seed, i));
  return out;
}

Values made_gradients(std::size_t rows, std::size_t cols, int centre, std::uint64_t seed) {
  constexpr double row_spread = 1.5, element_spread = 2.5;  // standard deviations in binades
  Values v{"made.grad", rows, cols, std::vector<float>(rows * cols)};
  for (std::size_t r = 0; r < rows; ++r) {
    const double row = row_spread * normal(seed + 1, r);
    for (std::size_t c = 0; c < cols; ++c) {
      const std::size_t i = r * cols + c;
      const double binade = std::nearbyint(row + element_spread * normal(seed + 2, i));
      v.data[i] = static_cast<float>(std::ldexp(normal(seed, i), centre + static_cast<int>(binade)));
    }
  }
  return v;
}

}  // namespace analysis
