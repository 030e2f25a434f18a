// One line of `narrow stats`: a tensor in a format; its metrics by name, and the lines as JSON, CSV and a table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/json_value.hpp"
#include "cli/terminal.hpp"
#include "narrow/array/statistics.hpp"
#include "narrow/scale/block_format.hpp"

namespace app {

struct StatsRow {
  std::string file;
  std::optional<std::uint64_t> step;  // of a watched run, or from the name of the file, where there are several
  std::string tensor, format;
  double scale = 1;
  narrow::InputStatistics input;
  narrow::FormatStatistics in_format;
  std::string breaks;                                    // why this row breaks; empty when it does not
  std::optional<narrow::ScaleSpread> block_scales = {};  // of block formats
  std::string series = {};  // what `tensor` is called at every step of a run; empty: the same
  // Of a watched run: the values are gone, and what was not recorded of them is undefined.
  struct Figures {
    double mse, sqnr_db;
  };
  std::optional<Figures> recorded = {};

  const std::string& name_in_run() const { return series.empty() ? tensor : series; }
  double sqnr_db() const { return recorded ? recorded->sqnr_db : in_format.sqnr_db(); }
  // What was finite and left the format: beyond its largest value, or made NaN (a negative number where there is no
  // sign, a block whose scale is NaN).
  std::uint64_t overflow() const { return in_format.saturated + in_format.not_finite; }
  std::uint64_t lost() const { return in_format.underflow + overflow(); }
};

// What --sort and --fail-if can name: the keys of the JSON, and "lost", which is underflow + overflow.
struct Metric {
  const char* name;
  bool is_count;                     // may be given as a share of all elements
  double (*value)(const StatsRow&);  // NaN where it is undefined, and null in the JSON
  bool larger_is_worse;
};
const Metric* find_metric(std::string_view name);  // nullptr when there is none
std::string metric_names();                        // "count, zeros, ..."

// Why a metric of this row is undefined: "5 of 8 values overflowed".
std::string why_undefined(const StatsRow& row);

// Worst first by this metric, undefined ones before all; equal ones by loss, then in the order they came. "name" sorts
// by tensor.
void sort_rows(std::vector<StatsRow>& rows, const std::string& key);  // throws narrow::Error

Json stats_json(const std::vector<StatsRow>& rows);
std::string stats_csv(const std::vector<StatsRow>& rows);
TextTable stats_table(const std::vector<StatsRow>& rows, bool with_file);
TextTable block_scale_table(const std::vector<StatsRow>& rows);  // those that have blocks: how their scales are spread

std::string sqnr_text(const StatsRow& row);  // "25.5"; "exact" without error, "-" where it is undefined

}  // namespace app
