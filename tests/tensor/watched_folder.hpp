// Folders as narrow.torch.watch writes them, made from values; shares no code with their reader.
#pragma once

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "narrow/array/statistics.hpp"
#include "narrow/format/find_format.hpp"
#include "tensor/files.hpp"

namespace test {

inline const std::string run_json =
    R"({"narrow_run": 1, "narrow": "0.1.0", "model": "Tiny", "every": 50, "formats": ["fp16", "e4m3"],)"
    R"( "started": "2026-01-31T12:00:00Z", "torch": "2.13.0"})"
    "\n";

// Written by hand: 0, 1, 1.5, -2, 2^-3 and 2^-10 in FP32. E4M3 loses 2^-10 to zero, and nothing else is lost.
inline const std::string line_by_hand =
    R"({"step": 50, "role": "gradient", "name": "h.0.w", "dtype": "fp32", "count": 6, "zero": [0, 1],)"
    R"( "subnormal": [0, 0], "inf": [0, 0], "nan": [0, 0], "first": -10,)"
    R"( "negative": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "positive": [1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0],)"
    R"( "amax": 2.0, "min_nonzero": 0.0009765625, "formats": [)"
    R"({"format": "fp16", "underflow": 0, "subnormal": 0, "overflow": 0, "mse": 0.0, "sqnr_db": "inf"},)"
    R"( {"format": "e4m3", "underflow": 1, "subnormal": 0, "overflow": 0,)"
    R"( "mse": 1.5894571940104167e-07, "sqnr_db": 68.8}]})"
    "\n";

struct Watched {
  int step;
  std::string role, name;
  std::vector<float> values;
  double scale = 1;
  std::string dtype = "fp32";
};

inline std::string watched_line(const Watched& w, const std::vector<std::string>& formats = {"fp16", "e4m3"}) {
  using Json = nlohmann::ordered_json;
  std::array<std::array<std::uint64_t, 2>, 4> special{};  // zero, subnormal, inf, nan; by sign
  std::array<std::vector<std::uint64_t>, 2> binades;
  int first = 128, last = -127;
  for (const float x : w.values)
    if (std::isnormal(x)) first = std::min(first, std::ilogb(x)), last = std::max(last, std::ilogb(x));
  for (auto& list : binades) list.resize(static_cast<std::size_t>(std::max(0, last - first + 1)));
  for (const float x : w.values) {
    const std::size_t positive = std::signbit(x) ? 0 : 1;
    if (std::isnormal(x)) ++binades[positive][static_cast<std::size_t>(std::ilogb(x) - first)];
    else ++special[x == 0 ? 0 : std::isinf(x) ? 2 : std::isnan(x) ? 3 : 1][positive];
  }
  std::vector<narrow::FormatCast> casts;
  for (const std::string& f : formats) casts.push_back({*narrow::find_format(f), {}});
  const narrow::Statistics s = narrow::statistics(w.values, casts);
  const auto number = [](double x) { return std::isnan(x) ? Json() : std::isinf(x) ? Json("inf") : Json(x); };
  Json line{{"step", w.step},
            {"role", w.role},
            {"name", w.name},
            {"dtype", w.dtype},
            {"count", w.values.size()},
            {"zero", special[0]},
            {"subnormal", special[1]},
            {"inf", special[2]},
            {"nan", special[3]},
            {"first", binades[0].empty() ? 0 : first},
            {"negative", binades[0]},
            {"positive", binades[1]},
            {"amax", s.input.finite() == 0 ? Json() : Json(s.input.amax)},
            {"min_nonzero", s.input.min_nonzero == 0 ? Json() : Json(s.input.min_nonzero)}};
  line["formats"] = Json::array();
  for (std::size_t k = 0; k < formats.size(); ++k) {
    const narrow::FormatStatistics& f = s.formats[k];
    line["formats"].push_back({{"format", formats[k]},
                               {"underflow", f.underflow},
                               {"subnormal", f.subnormal},
                               {"overflow", f.saturated + f.not_finite},
                               {"mse", number(f.mse())},
                               {"sqnr_db", number(f.sqnr_db())}});
  }
  if (w.scale != 1) line["scale"] = w.scale;
  return line.dump() + "\n";
}

inline std::string write_run(const Folder& folder, const std::string& tensors, const std::string& scale = "",
                             const std::string& loss = "", const std::string& run = run_json) {
  folder.write("run.json", run);
  folder.write("tensors.jsonl", tensors);
  if (!scale.empty()) folder.write("scale.jsonl", scale);
  if (!loss.empty()) folder.write("loss.jsonl", loss);
  return folder.path();
}

inline std::string write_run(const Folder& folder, const std::vector<Watched>& tensors, const std::string& scale = "") {
  std::string lines;
  for (const Watched& w : tensors) lines += watched_line(w);
  return write_run(folder, lines, scale);
}

}  // namespace test
