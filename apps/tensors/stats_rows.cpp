#include "tensors/stats_rows.hpp"

#include <algorithm>
#include <cmath>

#include "cli/number_text.hpp"
#include "narrow/base/error.hpp"
#include "narrow/report/escape.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace {

double as_double(std::uint64_t n) { return static_cast<double>(n); }

constexpr Metric metrics[] = {
    {"count", true, [](const StatsRow& r) { return as_double(r.input.count); }, true},
    {"zeros", true, [](const StatsRow& r) { return as_double(r.input.zeros); }, true},
    {"nan", true, [](const StatsRow& r) { return as_double(r.input.nan); }, true},
    {"inf", true, [](const StatsRow& r) { return as_double(r.input.inf); }, true},
    {"underflow", true, [](const StatsRow& r) { return as_double(r.in_format.underflow); }, true},
    {"subnormal", true, [](const StatsRow& r) { return as_double(r.in_format.subnormal); }, true},
    {"overflow", true, [](const StatsRow& r) { return as_double(r.overflow()); }, true},
    {"saturated", true, [](const StatsRow& r) { return r.recorded ? NAN : as_double(r.in_format.saturated); }, true},
    {"lost", true, [](const StatsRow& r) { return as_double(r.lost()); }, true},
    {"amax", false, [](const StatsRow& r) { return r.input.finite() == 0 ? NAN : r.input.amax; }, true},
    {"min_nonzero", false, [](const StatsRow& r) { return r.input.min_nonzero == 0 ? NAN : r.input.min_nonzero; },
     false},
    {"mse", false, [](const StatsRow& r) { return r.recorded ? r.recorded->mse : r.in_format.mse(); }, true},
    {"sqnr_db", false, [](const StatsRow& r) { return r.sqnr_db(); }, false},
    {"max_relative_error", false, [](const StatsRow& r) { return r.recorded ? NAN : r.in_format.relative_error(); },
     true},
    {"scale", false, [](const StatsRow& r) { return r.scale; }, true},
};

// A metric that is not a count, as the JSON gives it.
Json figure(const StatsRow& row, const char* name) {
  const double x = find_metric(name)->value(row);
  return std::isnan(x) ? Json() : json_number(x);
}

Json to_json(const StatsRow& r) {
  const narrow::InputStatistics& in = r.input;
  const narrow::FormatStatistics& f = r.in_format;
  Json row = Json::object();
  row["tensor"] = r.tensor;
  row["format"] = r.format;
  row["scale"] = json_number(r.scale);
  row["count"] = in.count;
  row["zeros"] = in.zeros;
  row["nan"] = in.nan;
  row["inf"] = in.inf;
  row["underflow"] = f.underflow;
  row["subnormal"] = f.subnormal;
  row["overflow"] = r.overflow();
  for (const char* name : {"amax", "min_nonzero", "mse", "sqnr_db"}) row[name] = figure(r, name);
  row["saturated"] = r.recorded ? Json() : Json(f.saturated);
  row["max_relative_error"] = figure(r, "max_relative_error");
  row["file"] = r.file;
  row["step"] = r.step ? Json(*r.step) : Json();
  row["breaks"] = r.breaks.empty() ? Json() : Json(r.breaks);
  const bool blocks = r.block_scales.has_value(), spread = blocks && !r.block_scales->by_log2.empty();
  row["blocks"] = blocks ? Json(r.block_scales->blocks) : Json();
  row["zero_scales"] = blocks ? Json(r.block_scales->zeros) : Json();
  row["non_finite_scales"] = blocks ? Json(r.block_scales->non_finite) : Json();
  row["scale_log2_min"] = spread ? Json(r.block_scales->quantile_log2(0)) : Json();
  row["scale_log2_median"] = spread ? Json(r.block_scales->quantile_log2(0.5)) : Json();
  row["scale_log2_max"] = spread ? Json(r.block_scales->quantile_log2(1)) : Json();
  return row;
}

std::string csv_value(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_number_float()) return digits_text(value.get<double>(), 17);
  return value.is_string() ? narrow::report::csv_field(value.get<std::string>()) : value.dump();
}

double share_of(std::uint64_t part, std::uint64_t whole) { return whole == 0 ? 0 : as_double(part) / as_double(whole); }

// Red from one in a hundred on, yellow for less.
TextCell loss_cell(std::uint64_t part, std::uint64_t whole) {
  const std::string text = count_text(part, whole);
  if (part == 0) return text;
  return {text, paint(text, share_of(part, whole) >= 0.01 ? Colour::red : Colour::yellow, true)};
}

}  // namespace

std::string sqnr_text(const StatsRow& row) {
  const double x = row.sqnr_db();
  return std::isnan(x) ? "-" : std::isinf(x) ? "exact" : decimal_text(x, 1);
}

std::string why_undefined(const StatsRow& row) {
  const narrow::InputStatistics& in = row.input;
  const narrow::FormatStatistics& f = row.in_format;
  const auto of_all = [&](std::uint64_t part) {
    return std::to_string(part) + " of " + std::to_string(in.count) + " values ";
  };
  if (in.count == 0) return "the tensor is empty";
  if (in.finite() == 0) return "no value is finite";
  if (f.overflow != f.clamped) return of_all(row.overflow()) + "overflowed";
  if (f.not_finite != 0) return of_all(f.not_finite) + "became Inf or NaN";
  if (row.recorded && in.zeros != in.finite()) return "the folder of the run does not tell";
  return "every finite value is zero";
}

const Metric* find_metric(std::string_view name) {
  for (const Metric& m : metrics)
    if (name == m.name) return &m;
  return nullptr;
}

std::string metric_names() {
  std::string list;
  for (const Metric& m : metrics) list += (list.empty() ? "" : ", ") + std::string(m.name);
  return list;
}

void sort_rows(std::vector<StatsRow>& rows, const std::string& key) {
  if (key == "name") {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const StatsRow& a, const StatsRow& b) { return a.tensor < b.tensor; });
    return;
  }
  const Metric* metric = find_metric(key);
  if (metric == nullptr) {
    std::vector<std::string_view> names{"name"};
    for (const Metric& m : metrics) names.emplace_back(m.name);
    const std::string close = narrow::did_you_mean(key, names);
    throw narrow::Error("--sort: unknown key " + narrow::quote(key) +
                        (close.empty() ? "" : "; did you mean '" + close + "'?") + "; accepted: name, " +
                        metric_names());
  }
  // Counts compare as shares: a thousand of a thousand is worse than a thousand of a million.
  const auto badness = [&](const StatsRow& r) {
    double x = metric->value(r);
    if (metric->is_count && std::string_view(metric->name) != "count")
      x = r.input.count == 0 ? 0 : x / as_double(r.input.count);
    if (std::isnan(x)) return std::numeric_limits<double>::infinity();  // nobody knows how bad: first
    return metric->larger_is_worse ? x : -x;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const StatsRow& a, const StatsRow& b) {
    const double x = badness(a), y = badness(b);
    return x != y ? x > y : share_of(a.lost(), a.input.count) > share_of(b.lost(), b.input.count);
  });
}

Json stats_json(const std::vector<StatsRow>& rows) {
  Json list = Json::array();
  for (const StatsRow& row : rows) {
    list.push_back(to_json(row));
    if (!row.block_scales) continue;
    Json counts = Json::object();  // floor(log2 scale) to blocks
    for (const auto& [log2, count] : row.block_scales->by_log2) counts[std::to_string(log2)] = count;
    list.back()["scale_log2_counts"] = std::move(counts);
  }
  return list;
}

std::string stats_csv(const std::vector<StatsRow>& rows) {
  std::string out;
  const Json titles = to_json({});
  for (const auto& item : titles.items()) out += (out.empty() ? "" : ",") + item.key();
  out += "\n";
  for (const StatsRow& row : rows) {
    std::string line;
    const Json values = to_json(row);
    for (const auto& item : values.items()) line += (item.key() == "tensor" ? "" : ",") + csv_value(item.value());
    out += line + "\n";
  }
  return out;
}

TextTable stats_table(const std::vector<StatsRow>& rows, bool with_file) {
  constexpr Align l = Align::left, r = Align::right;
  TextTable table{{"tensor", "format", "scale", "count", "zeros", "underflow", "subnormal", "overflow", "NaN", "Inf",
               "amax", "min nonzero", "SQNR dB"},
              {l, l, r, r, r, r, r, r, r, r, r, r, r},
              {}};
  if (with_file) table.header.insert(table.header.begin(), "file"), table.align.insert(table.align.begin(), l);
  for (const StatsRow& row : rows) {
    const narrow::InputStatistics& in = row.input;
    const narrow::FormatStatistics& f = row.in_format;
    std::vector<TextCell> cells{
        printable(row.tensor),
        row.format,
        scale_text(row.scale),
        std::to_string(in.count),
        count_text(in.zeros, in.count),
        loss_cell(f.underflow, in.count),
        count_text(f.subnormal, in.count),
        loss_cell(row.overflow(), in.count),
        loss_cell(in.nan, in.count),
        loss_cell(in.inf, in.count),
        in.finite() == 0 || std::isnan(in.amax) ? "-" : digits_text(in.amax, 4),
        in.min_nonzero == 0 || std::isnan(in.min_nonzero) ? "-" : digits_text(in.min_nonzero, 4),
        sqnr_text(row)};
    if (with_file) cells.insert(cells.begin(), printable(row.file));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

TextTable block_scale_table(const std::vector<StatsRow>& rows) {
  constexpr Align l = Align::left, r = Align::right;
  TextTable table{{"tensor", "format", "blocks", "smallest", "1%", "median", "99%", "largest", "zero", "Inf or NaN"},
              {l, l, r, r, r, r, r, r, r, r},
              {}};
  for (const StatsRow& row : rows) {
    if (!row.block_scales) continue;
    const narrow::ScaleSpread& s = *row.block_scales;
    const auto at = [&](double share) {
      return s.by_log2.empty() ? std::string("-") : "2^" + std::to_string(s.quantile_log2(share));
    };
    table.rows.push_back({printable(row.tensor), row.format, std::to_string(s.blocks), at(0), at(0.01), at(0.5),
                          at(0.99), at(1), count_text(s.zeros, s.blocks), loss_cell(s.non_finite, s.blocks)});
  }
  return table;
}

}  // namespace app
