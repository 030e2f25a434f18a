// What the readers of scale logs share: a place in a text, a row, and the checks of a row.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "narrow/base/error.hpp"
#include "narrow/scale/scale_log.hpp"

namespace narrow::logs {

inline constexpr const char* accepted =
    "accepted: JSON rows [step, loss, scale, found_inf, ...] or objects, in an array or one a line; CSV with a line of "
    "names (step and amax, found_inf or scale); logs.json and histograms.json of data/torch/record_gpt.py";

// A text, a place in it, and how to complain about that place.
class Reader {
 public:
  Reader(const std::string& text, const std::string& name) : text_(text), name_(name) {}

  std::size_t at = 0;
  bool at_end() const { return at >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at]; }
  std::string_view slice(std::size_t begin, std::size_t end) const {
    return std::string_view(text_).substr(begin, end - begin);
  }
  std::size_t find_first_of(const char* characters) const {
    return std::min(text_.find_first_of(characters, at), text_.size());
  }

  void skip_blanks() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n')) ++at;
  }

  [[noreturn]] void fail(std::size_t where, const std::string& what) const {
    std::size_t line = 1, column = 1;
    for (std::size_t i = 0; i < where && i < text_.size(); ++i) {
      if (text_[i] == '\n') ++line, column = 1;
      else ++column;
    }
    throw Error(name_ + ": line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what);
  }

 private:
  const std::string& text_;
  const std::string& name_;
};

// What may be known of one step; where each value stood, for messages. No value: the column is there, but not recorded.
struct Cell {
  std::optional<double> value;
  std::size_t where = 0;
};
struct Row {
  std::optional<Cell> step, amax, found_inf, skipped, scale;

  std::optional<Cell>* find(std::string_view name) {
    if (name == "step") return &step;
    if (name == "amax" || name == "grad_amax") return &amax;
    if (name == "found_inf" || name == "overflow") return &found_inf;
    if (name == "skipped") return &skipped;
    if (name == "scale" || name == "loss_scale") return &scale;
    return nullptr;
  }
  // A scaler that never skips has skipped none of its overflows: found_inf, where it is there, says more.
  const std::optional<Cell>& overflow() const { return found_inf ? found_inf : skipped; }
};

// Checks a row and adds it; every row must have what the first has.
class Collector {
 public:
  explicit Collector(const Reader& reader) : reader_(reader) {}

  void add(const Row& row, std::size_t where) {
    const std::optional<Cell>& overflow = row.overflow();
    if (!row.amax && !overflow && !row.scale)
      reader_.fail(where, std::string("this row has neither amax nor found_inf nor scale; ") + accepted);
    if (!log_.steps.empty() &&
        (row.amax.has_value() == log_.amax.empty() || overflow.has_value() == log_.found_inf.empty() ||
         row.scale.has_value() == log_.scale.empty() || row.step.has_value() != has_steps_))
      reader_.fail(where, "this row has other columns than the first");
    has_steps_ = row.step.has_value();
    add_step(row);
    if (row.amax) log_.amax.push_back(amax(*row.amax));
    if (overflow) log_.found_inf.push_back(found_inf(*overflow));
    if (row.scale) log_.scale.push_back(scale(*row.scale));
  }

  GradientLog finish() {
    if (log_.steps.empty()) reader_.fail(reader_.at, std::string("no steps; ") + accepted);
    return std::move(log_);
  }

 private:
  void add_step(const Row& row) {
    if (!row.step) return log_.steps.push_back(static_cast<std::int64_t>(log_.steps.size()));
    const double step = row.step->value.value_or(0.5);
    if (!(std::abs(step) <= 1e15) || step != std::floor(step)) reader_.fail(row.step->where, "a step is an integer");
    const auto number = static_cast<std::int64_t>(step);
    if (!log_.steps.empty() && number <= log_.steps.back())
      reader_.fail(row.step->where, "step " + std::to_string(number) + " follows step " +
                                        std::to_string(log_.steps.back()) + "; steps ascend");
    log_.steps.push_back(number);
  }
  // Inf and NaN are what a diverged run logs: they overflow at every scale.
  float amax(const Cell& c) const {
    if (!c.value) return GradientLog::no_amax;
    if (*c.value < 0) reader_.fail(c.where, "amax is a largest magnitude: 0 or more, inf or nan");
    if (std::isnan(*c.value)) return std::numeric_limits<float>::quiet_NaN();
    return *c.value > 0x1.fffffep+127 ? std::numeric_limits<float>::infinity() : static_cast<float>(*c.value);
  }
  std::uint8_t found_inf(const Cell& c) const {
    if (!c.value) return GradientLog::not_recorded;
    if (!(*c.value >= 0) || std::isinf(*c.value)) reader_.fail(c.where, "found_inf is 0 or 1");
    return *c.value != 0 ? 1 : 0;
  }
  float scale(const Cell& c) const {
    const double scale = c.value.value_or(0);
    const bool fits = scale > 0 && scale <= 0x1.fffffep+127 && static_cast<float>(scale) > 0;
    if (!fits) reader_.fail(c.where, "a loss scale is a positive finite number");
    return static_cast<float>(scale);
  }

  const Reader& reader_;
  GradientLog log_;
  bool has_steps_ = false;
};

// A whole word as a number: 1, -2.5e-3, inf, nan, true, false.
std::optional<double> number_of(std::string_view word);

GradientLog read_csv_log(Reader& reader);
// ignored_run: a run was asked for and there was none to choose.
ScaleLog read_json_log(Reader& reader, const std::string& run, bool& ignored_run);

}  // namespace narrow::logs
