// Reads the recordings, checks them as any file from outside, and makes numbers where there is no file.
#include "inputs.hpp"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "narrow/base/error.hpp"
#include "narrow/base/random.hpp"
#include "narrow/tensor/tensor_file.hpp"

namespace analysis {

using Json = nlohmann::json;

namespace {

// share/narrow/data beside the bin/ of this program: an installation that was moved. Empty where the system does not
// tell.
std::string beside_program() {
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return unknown ? "" : (program.parent_path().parent_path() / "share/narrow/data").string();
}

}  // namespace

std::optional<std::string> find_data(const std::string& name) {
  const char* chosen = std::getenv("NARROW_DATA");
  if (chosen != nullptr && *chosen == 0) return {};
  const std::string folders[] = {chosen == nullptr ? "" : chosen, NARROW_SOURCE_DATA, NARROW_INSTALLED_DATA,
                                 beside_program()};
  for (const std::string& folder : folders) {
    std::error_code unreadable;
    if (folder.empty()) continue;
    const std::string path = folder + "/" + name;
    if (std::filesystem::is_regular_file(path, unreadable)) return path;
  }
  return {};
}

std::string no_recordings_note(std::string_view instead) {
  return "The recordings (data/torch) were not found, so " + std::string(instead) +
         "; NARROW_DATA can name the folder data.";
}

namespace {

Values values_of(const narrow::Tensor& tensor) {
  Values v{tensor.name, 1, static_cast<std::size_t>(tensor.values()), {}, 1};
  if (tensor.shape.size() > 1 && tensor.shape.back() > 0) {
    v.cols = static_cast<std::size_t>(tensor.shape.back()) * static_cast<std::size_t>(tensor.type.values());
    v.rows = static_cast<std::size_t>(tensor.values()) / v.cols;
    v.group = static_cast<std::size_t>(tensor.shape[tensor.shape.size() - 2]);
  }
  v.data.resize(v.rows * v.cols);
  narrow::read_values(tensor, 0, std::span<float>(v.data));
  return v;
}

}  // namespace

std::vector<Values> read_values_of(const std::string& file, std::string_view part) {
  const auto [path, only] = narrow::split_file_and_name(file);
  std::vector<Values> found;
  if (!only.empty()) {
    const narrow::Tensor tensor = narrow::open_tensor(file);
    if (!tensor.type.has_format())
      throw narrow::Error(file + ": elements are " + std::string(tensor.type.name) + ", not floating");
    found.push_back(values_of(tensor));
    return found;
  }
  const narrow::TensorFile opened = narrow::open_tensor_file(path);
  if (!opened.unreadable.empty())
    throw narrow::Error(path + ": " + opened.unreadable[0].name + ": " + opened.unreadable[0].why);
  std::string names;
  for (const narrow::Tensor& tensor : opened.tensors) {
    if (tensor.type.has_format() && tensor.values() > 0 && tensor.name.find(part) != std::string::npos)
      found.push_back(values_of(tensor));
    if (names.size() < 200)
      names += (names.empty() ? "" : ", ") + tensor.name + " (" + std::string(tensor.type.name) + ")";
  }
  if (found.empty())
    throw narrow::Error(path + ": no floating tensor" +
                        (part.empty() ? "" : " whose name contains '" + std::string(part) + "'") + "; it has " +
                        (names.empty() ? "no tensors" : names));
  return found;
}

const Values* find_values(const std::vector<Values>& all, std::string_view name) {
  for (const Values& v : all)
    if (v.name == name) return &v;
  return nullptr;
}

// ---- JSON ----

namespace {

Json load_json(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw narrow::Error(path + ": cannot be read");
  try {
    return Json::parse(in);
  } catch (const Json::exception& e) {
    throw narrow::Error(path + ": no JSON: " + e.what());
  }
}

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
  Values v{"made.grad", rows, cols, std::vector<float>(rows * cols), rows};
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
