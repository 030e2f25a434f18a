#include "narrow/tensor/watched_record.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "narrow/base/error.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/text/quote.hpp"

namespace narrow::detail {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t most_values = std::uint64_t{1} << 40;  // of one tensor: sums over a run stay exact

std::string kind(const Json& value) {
  if (value.is_string()) return quote(value.get<std::string>());
  if (value.is_number() || value.is_null() || value.is_boolean()) return value.dump();
  return value.is_array() ? "a list of " + std::to_string(value.size()) : "an object";
}

}  // namespace

LogObject::LogObject(const Json& json, const std::string& where) : json_(json), where_(where) {
  if (!json.is_object()) fail("this is " + kind(json) + ", not an object");
}

void LogObject::fail(const std::string& what) const { throw Error(where_ + ": " + what); }

void LogObject::refuse(const char* key, const Json& value, const std::string& wanted) const {
  fail(std::string(key) + " is " + kind(value) + "; it is to be " + wanted);
}

const LogObject::Json& LogObject::at(const char* key) const {
  const auto found = json_.find(key);
  if (found == json_.end()) fail(std::string("there is no \"") + key + "\"");
  return *found;
}

std::string LogObject::text(const char* key) const {
  const Json& value = at(key);
  if (!value.is_string()) refuse(key, value, "a string");
  if (value.get_ref<const std::string&>().size() > longest_name)
    fail(std::string(key) + " is longer than " + std::to_string(longest_name) + " bytes");
  return value.get<std::string>();
}

std::uint64_t LogObject::integer(const char* key, const Json& value, std::uint64_t most) const {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    refuse(key, value, "an integer from 0 to " + std::to_string(most));
  return value.get<std::uint64_t>();
}

std::int64_t LogObject::step() const {
  constexpr std::uint64_t most = 1'000'000'000'000'000;  // as in logs of loss scales
  return static_cast<std::int64_t>(integer("step", most));
}

double LogObject::number(const char* key) const {
  const Json& value = at(key);
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) refuse(key, value, "a number or null");
  return value.get<double>();
}

double LogObject::any_number(const char* key) const {
  const Json& value = at(key);
  for (const auto& [word, number] : {std::pair{"inf", HUGE_VAL}, {"-inf", -HUGE_VAL}, {"nan", std::nan("")}})
    if (value == word) return number;
  return number(key);
}

const LogObject::Json& LogObject::list(const char* key) const {
  if (!at(key).is_array()) refuse(key, at(key), "a list");
  return at(key);
}

SignCounts LogObject::signs(const char* key, bool has_signs) const {
  if (!has_signs) return {0, integer(key, most_values)};
  const Json& pair = list(key);
  if (pair.size() != 2) refuse(key, pair, "[negative, positive]");
  return {integer(key, pair[0], most_values), integer(key, pair[1], most_values)};
}

namespace {

WatchedCounts counts_of(const LogObject& in, std::uint64_t count) {
  WatchedCounts c{in.integer("underflow", count), in.integer("subnormal", count), in.integer("overflow", count),
                  in.number("mse"), in.any_number("sqnr_db")};
  if (c.mse < 0) in.refuse("mse", in.at("mse"), "0 or more");
  return c;
}

// Where the binades, of which there are so many, begin.
int first_binade(const LogObject& in, std::size_t count) {
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

void read_binades(const LogObject& in, WatchedTensor& t) {
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
void check_extremes(const LogObject& in, WatchedTensor& t) {
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
void check_tensor(const LogObject& in, WatchedTensor& t) {
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

}  // namespace

WatchedTensor tensor_of(const LogObject& in, const std::vector<WatchedFormat>& formats, const std::string& where) {
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
    const LogObject row(rows[k], where);
    if (!same_word(row.text("format"), formats[k].name))
      row.refuse("format", row.at("format"), "'" + formats[k].name + "', as in run.json");
    t.formats.push_back(counts_of(row, t.count));
  }
  return t;
}

namespace {

void read_differences(const LogObject& in, const Json& list, WatchedTensor& t) {
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

}  // namespace

void PackedSteps::for_each_tensor(const LogObject& line, const std::string& where,
                                  const std::function<void(const LogObject&, WatchedTensor&)>& each) {
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
    const LogObject in(tensor, at);
    WatchedTensor t{.step = step, .role = in.text("role"), .name = in.text("name"), .dtype = in.text("dtype")};
    t.has_signs = false;
    const auto counted = [&](const char* key) { return SignCounts{0, in.has(key) ? in.integer(key, most_values) : 0}; };
    t.zero = counted("zero"), t.subnormal = counted("subnormal"), t.inf = counted("inf"), t.nan = counted("nan");
    t.count = t.zero.total() + t.subnormal.total() + t.inf.total() + t.nan.total();
    read_differences(in, line.at("binades")[i], t);
    if (in.has("count")) t.count = in.integer("count", most_values);
    check_tensor(in, t);
    each(in, t);
  }
}

}  // namespace narrow::detail
