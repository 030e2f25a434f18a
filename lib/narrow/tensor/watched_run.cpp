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
#include "narrow/text/quote.hpp"
#include "narrow/text/strict_json.hpp"

namespace narrow {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t most_values = std::uint64_t{1} << 40;  // of one tensor: sums over a run stay exact

// An object from a file, and how to complain about it.
class Object {
 public:
  Object(const Json& json, const std::string& where) : json_(json), where_(where) {
    if (!json.is_object()) fail("this is " + kind(json) + ", not an object");
  }

  [[noreturn]] void fail(const std::string& what) const { throw Error(where_ + ": " + what); }
  const Json& json() const { return json_; }
  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) fail(std::string("there is no \"") + key + "\"");
    return *found;
  }
  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) refuse(key, value, "a string");
    if (value.get_ref<const std::string&>().size() > longest_name)
      fail(std::string(key) + " is longer than " + std::to_string(longest_name) + " bytes");
    return value.get<std::string>();
  }
  std::uint64_t integer(const char* key, std::uint64_t most) const { return integer(key, at(key), most); }
  std::uint64_t integer(const char* key, const Json& value, std::uint64_t most) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
      refuse(key, value, "an integer from 0 to " + std::to_string(most));
    return value.get<std::uint64_t>();
  }
  std::int64_t step() const {
    constexpr std::uint64_t most = 1'000'000'000'000'000;  // as in logs of loss scales
    return static_cast<std::int64_t>(integer("step", most));
  }
  // NaN for null.
  double number(const char* key) const {
    const Json& value = at(key);
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!value.is_number()) refuse(key, value, "a number or null");
    return value.get<double>();
  }
  // The same for what JSON has no number for: "inf", "-inf", "nan".
  double any_number(const char* key) const {
    const Json& value = at(key);
    for (const auto& [word, number] : {std::pair{"inf", HUGE_VAL}, {"-inf", -HUGE_VAL}, {"nan", std::nan("")}})
      if (value == word) return number;
    return number(key);
  }
  const Json& list(const char* key) const {
    if (!at(key).is_array()) refuse(key, at(key), "a list");
    return at(key);
  }
  SignCounts signs(const char* key, bool has_signs) const {
    if (!has_signs) return {0, integer(key, most_values)};
    const Json& pair = list(key);
    if (pair.size() != 2) refuse(key, pair, "[negative, positive]");
    return {integer(key, pair[0], most_values), integer(key, pair[1], most_values)};
  }
  [[noreturn]] void refuse(const char* key, const Json& value, const std::string& wanted) const {
    fail(std::string(key) + " is " + kind(value) + "; it is to be " + wanted);
  }

 private:
  static std::string kind(const Json& value) {
    if (value.is_string()) return quote(value.get<std::string>());
    if (value.is_number() || value.is_null() || value.is_boolean()) return value.dump();
    return value.is_array() ? "a list of " + std::to_string(value.size()) : "an object";
  }

  const Json& json_;
  const std::string& where_;
};

WatchedCounts counts_of(const Object& in, std::uint64_t count) {
  WatchedCounts c{in.integer("underflow", count), in.integer("subnormal", count), in.integer("overflow", count),
                  in.number("mse"), in.any_number("sqnr_db")};
  if (c.mse < 0) in.refuse("mse", in.at("mse"), "0 or more");
  return c;
}

// Where the binades, of which there are so many, begin.
int first_binade(const Object& in, std::size_t count) {
  constexpr int low = ExponentHistogram::min_exponent, high = ExponentHistogram::max_exponent;
  const Json& first = in.at("first");
  if (count == 0) return 0;
  const auto size = static_cast<std::int64_t>(count);
  const bool is_integer = first.is_number_integer();
  const double at = is_integer ? first.get<double>() : std::nan("");  // 2^64 - 1 as an integer would be -1
  if (!(at >= low && at <= static_cast<double>(high + 1 - size)))
    in.fail("the " + std::to_string(size) + " binades from " + (is_integer ? first.dump() : "first") +
            " on are not within " + std::to_string(low) + " to " + std::to_string(high) + ", those of FP32");
  return static_cast<int>(at);
}

void read_binades(const Object& in, WatchedTensor& t) {
  const bool one = !t.has_signs;
  const Json &negative = in.list(one ? "binades" : "negative"), &positive = in.list(one ? "binades" : "positive");
  if (negative.size() != positive.size())
    in.fail("negative has " + std::to_string(negative.size()) + " binades and positive " +
            std::to_string(positive.size()));
  t.first = first_binade(in, negative.size());
  for (std::size_t k = 0; k < negative.size(); ++k)
    t.binades.push_back({one ? 0 : in.integer("negative", negative[k], most_values),
                         in.integer(one ? "binades" : "positive", positive[k], most_values)});
}

// Beyond FP32: Inf.
float to_float(double x) {
  constexpr double largest = 0x1.ffffffp127;  // from here on rounding gives Inf, and the conversion is undefined
  return x >= largest ? HUGE_VALF : x <= -largest ? -HUGE_VALF : static_cast<float>(x);
}

// The extremes are null just where there is nothing that they could be of. Where they were not recorded, the ends of
// the binades are known.
void check_extremes(const Object& in, WatchedTensor& t) {
  if (!in.has("amax") && !in.has("min_nonzero")) {
    t.has_extremes = false;
    const auto is_filled = [](const SignCounts& c) { return c.total() > 0; };
    const auto low = std::ranges::find_if(t.binades, is_filled);
    if (t.subnormal.total() > 0) t.min_nonzero = 0x1p-149, t.amax = 0x1.fffffcp-127;
    if (low == t.binades.end()) return;
    if (t.subnormal.total() == 0) t.min_nonzero = std::ldexp(1.0, t.first + static_cast<int>(low - t.binades.begin()));
    int top = t.first + static_cast<int>(t.binades.size()) - 1;
    for (auto high = t.binades.rbegin(); !is_filled(*high); ++high) --top;
    t.amax = std::ldexp(0x1.fffffep0, top);
    return;
  }
  // Where bytes count the file has no more digits than tell a float from others.
  t.amax = static_cast<double>(to_float(in.number("amax")));
  t.min_nonzero = static_cast<double>(to_float(in.number("min_nonzero")));
  const std::uint64_t nonzero = t.finite() - t.zero.total();
  if (std::isnan(t.amax) != (t.finite() == 0) || t.amax < 0 || std::isinf(t.amax) || (t.amax == 0 && nonzero > 0))
    in.refuse("amax", in.at("amax"), t.finite() == 0 ? "null: no value is finite" : "0 or more, within FP32");
  if (std::isnan(t.min_nonzero) != (nonzero == 0) || t.min_nonzero <= 0 || t.min_nonzero > t.amax)
    in.refuse("min_nonzero", in.at("min_nonzero"),
              nonzero == 0 ? "null: no value is finite and not zero" : "above 0 and at most amax");
  if (t.finite() == 0) t.amax = 0;
  if (nonzero == 0) t.min_nonzero = 0;
}

// What is true of every record, once its counts are there.
void check_tensor(const Object& in, WatchedTensor& t) {
  if (std::find(std::begin(watched_roles), std::end(watched_roles), t.role) == std::end(watched_roles)) {
    std::string list;
    for (const std::string_view role : watched_roles) list += (list.empty() ? "" : ", ") + std::string(role);
    in.refuse("role", t.role, "one of " + list);
  }
  std::uint64_t sum = t.zero.total() + t.subnormal.total() + t.inf.total() + t.nan.total();
  for (const SignCounts& c : t.binades) sum += c.total();
  if (t.count > most_values) in.fail("it has more than " + std::to_string(most_values) + " values");
  if (sum != t.count) in.fail("its counts add up to " + std::to_string(sum) + ", not to " + std::to_string(t.count));
  check_extremes(in, t);
  if (in.has("scale")) {
    t.scale = in.any_number("scale");
    if (!(t.scale >= 0)) in.refuse("scale", in.at("scale"), "0 or more");
  }
}

WatchedTensor tensor_of(const Object& in, const std::vector<WatchedFormat>& formats, const std::string& where) {
  WatchedTensor t{.step = in.step(), .role = in.text("role"), .name = in.text("name"), .dtype = in.text("dtype")};
  t.count = in.integer("count", most_values);
  t.has_signs = !in.has("binades");
  t.zero = in.signs("zero", t.has_signs), t.subnormal = in.signs("subnormal", t.has_signs);
  t.inf = in.signs("inf", t.has_signs), t.nan = in.signs("nan", t.has_signs);
  read_binades(in, t);
  check_tensor(in, t);
  const Json& rows = in.list("formats");
  if (rows.size() != formats.size())
    in.fail("it has " + std::to_string(rows.size()) + " formats, run.json has " + std::to_string(formats.size()));
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const Object row(rows[k], where);
    if (!detail::same_word(row.text("format"), formats[k].name))
      row.refuse("format", row.at("format"), "'" + formats[k].name + "', as in run.json");
    t.formats.push_back(counts_of(row, t.count));
  }
  return t;
}

// A step in a line, as recordings are kept: a list for every key, with one entry a tensor. role, name and dtype are
// those of the line before where they are left out, zero, subnormal, inf and nan are 0 then, count is what counts add
// up to, scale is null where there is none; no formats were counted. Of the binades b_k there is b_k - 2 b_(k-1): where
// a density is flat, as it is towards zero, a binade holds twice as many values as the one below, and what is left is
// noise.
class Packed {
 public:
  template <class Each>
  void for_each_tensor(const Object& line, const std::string& where, const Each& each) {
    const std::uint64_t size = line.integer("tensors", most_tensors);
    const std::int64_t step = line.step();
    for (const auto& [key, column] : line.json().items()) {
      if (key == "step" || key == "tensors") continue;
      if (!column.is_array() || column.size() != size)
        line.refuse(visible(key).c_str(), column, "a list of " + std::to_string(size) + ", one entry a tensor");
    }
    for (auto& [key, words] : words_) {
      if (line.has(key)) words = line.at(key);
      if (!words.is_array() || words.size() != size)
        line.fail(std::string("there is no \"") + key + "\", and no line before has " + std::to_string(size));
    }
    for (std::size_t i = 0; i < size; ++i) {
      const std::string at = where + ", tensor " + std::to_string(i + 1);
      Json tensor = {{"role", words_[0].second[i]}, {"name", words_[1].second[i]}, {"dtype", words_[2].second[i]}};
      for (const char* key : {"zero", "subnormal", "inf", "nan", "count", "first", "amax", "min_nonzero", "scale"})
        if (line.has(key) && (key != std::string_view("scale") || !line.at(key)[i].is_null()))
          tensor[key] = line.at(key)[i];
      const Object in(tensor, at);
      WatchedTensor t{.step = step, .role = in.text("role"), .name = in.text("name"), .dtype = in.text("dtype")};
      t.has_signs = false;
      const auto counted = [&](const char* key) {
        return SignCounts{0, in.has(key) ? in.integer(key, most_values) : 0};
      };
      t.zero = counted("zero"), t.subnormal = counted("subnormal"), t.inf = counted("inf"), t.nan = counted("nan");
      t.count = t.zero.total() + t.subnormal.total() + t.inf.total() + t.nan.total();
      read_differences(in, line.at("binades")[i], t);
      if (in.has("count")) t.count = in.integer("count", most_values);
      check_tensor(in, t);
      each(in, t);
    }
  }

 private:
  static void read_differences(const Object& in, const Json& list, WatchedTensor& t) {
    if (!list.is_array()) in.refuse("binades", list, "a list");
    t.first = first_binade(in, list.size());
    t.binades.reserve(list.size());
    constexpr auto most = static_cast<std::int64_t>(most_values);
    std::int64_t binade = 0;
    for (const Json& x : list) {
      if (!x.is_number_integer() || x.get<double>() < -2.0 * most || x.get<double>() > most ||
          (binade = 2 * binade + x.get<std::int64_t>()) < 0 || binade > most)
        in.refuse("one of binades", x, "such that all are from 0 to " + std::to_string(most));
      t.binades.push_back({0, static_cast<std::uint64_t>(binade)});
      t.count += static_cast<std::uint64_t>(binade);
    }
  }

  std::pair<const char*, Json> words_[3] = {{"role", {}}, {"name", {}}, {"dtype", {}}};
};

// Every whole line of a file as an object; nothing where the file is not there.
template <class Each>
void for_each_object(const std::string& path, const Each& each) {
  if (!file_exists(path)) return;
  for_each_line(path, [&](std::string_view line, std::uint64_t number) {
    const std::string where = visible(path) + ": line " + std::to_string(number);
    const Json json = parse_strict_json<Json>(line, where);
    each(Object(json, where), where);
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
  const Object in(json, where);
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
  const auto add = [&](const Object& in, WatchedTensor& t) {
    if (t.step < step)
      in.fail("step " + std::to_string(t.step) + " follows step " + std::to_string(step) + "; steps ascend");
    if (t.step != step) seen.clear();
    step = t.step;
    t.occurrence = ++seen[t.series()];
    if (seen.size() > most_tensors) in.fail("more than " + std::to_string(most_tensors) + " tensors in one step");
    each(t);
  };
  Packed packed;
  for_each_object(path("tensors.jsonl"), [&](const Object& in, const std::string& where) {
    if (!in.has("tensors")) {
      WatchedTensor t = tensor_of(in, formats_, where);
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
    for_each_object(path("scale.jsonl"), [&](const Object& in, const std::string&) {
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
  for_each_object(path("loss.jsonl"), [&](const Object& in, const std::string&) {
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
