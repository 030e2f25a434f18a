// Tensors of a test as a .safetensors file, and an experiment run on them.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "analysis/framework/experiment.hpp"
#include "tensor/files.hpp"

namespace test {

struct Stored {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<double> values;
  std::string type = "F32";  // or F64, I32
};

inline std::size_t count_of(const std::vector<std::size_t>& shape) {
  std::size_t count = 1;
  for (const std::size_t n : shape) count *= n;
  return count;
}

inline Stored stored(
    std::string name, std::vector<std::size_t> shape,
    const std::function<double(std::size_t)>& value = [](std::size_t i) { return 1.0 + static_cast<double>(i % 7); },
    std::string type = "F32") {
  Stored s{std::move(name), std::move(shape), {}, std::move(type)};
  for (std::size_t i = 0; i < count_of(s.shape); ++i) s.values.push_back(value(i));
  return s;
}

inline std::string file_of(const std::vector<Stored>& tensors) {
  std::string json = "{", data;
  const auto append = [&](auto x) { data.append(reinterpret_cast<const char*>(&x), sizeof x); };
  for (const Stored& t : tensors) {
    const std::size_t begin = data.size();
    std::string shape;
    for (const std::size_t n : t.shape) shape += (shape.empty() ? "" : ",") + std::to_string(n);
    for (const double x : t.values) {
      if (t.type == "F64") append(x);
      else if (t.type == "I32") append(static_cast<std::int32_t>(x));
      else append(static_cast<float>(x));
    }
    json += (json.size() > 1 ? ",\"" : "\"") + t.name + "\":{\"dtype\":\"" + t.type + "\",\"shape\":[" + shape +
            "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  return safetensors(json + "}", data);
}

inline analysis::Outcome run_experiment(const std::string& name, const std::vector<std::string>& settings = {}) {
  const analysis::Experiment& e = analysis::require_experiment(name);
  analysis::Progress nobody;
  return analysis::run_experiment(e, analysis::Parameters(e, settings, analysis::Effort::fast), nobody);
}

inline const narrow::report::Table& table_of(const analysis::Outcome& o, std::string_view name) {
  for (const narrow::report::Table& t : o.tables)
    if (t.name == name) return t;
  FAIL("no table " << name);
  return o.tables[0];
}

// NaN where there is none.
inline double number(const narrow::report::Cell& c) {
  if (std::holds_alternative<std::monostate>(c)) return std::nan("");
  if (const auto* i = std::get_if<std::int64_t>(&c)) return static_cast<double>(*i);
  return std::get<double>(c);
}

// Every cell as the CSV has it.
inline std::string all_cells(const analysis::Outcome& o) {
  std::string text = o.finding;
  for (const narrow::report::Table& t : o.tables)
    for (const auto& row : t.rows)
      for (std::size_t i = 0; i < row.size(); ++i) text += narrow::report::plain_text(t.columns[i], row[i]) + ",";
  return text;
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace test
