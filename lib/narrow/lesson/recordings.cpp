#include "narrow/lesson/recordings.hpp"

#include <limits>

#include "narrow/lesson/lesson.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/text/strict_json.hpp"

namespace lesson {
namespace {

using Json = nlohmann::json;

std::vector<double> column(const Json& run, const char* name) {
  std::size_t place = 0;
  const Json& columns = run.at("columns");
  while (place < columns.size() && columns[place] != name) ++place;
  std::vector<double> values;
  for (const Json& row : run.at("rows")) {
    const Json& cell = row.at(place);
    values.push_back(cell.is_null() ? std::numeric_limits<double>::quiet_NaN() : cell.get<double>());
  }
  return values;
}

}  // namespace

RecordedRun recorded_run(std::string_view name) {
  const std::string path = data_file("torch/logs.json");
  try {
    const Json file = narrow::parse_strict_json<Json>(narrow::read_text(path), path);
    std::string known;
    for (const Json& run : file.at("runs")) {
      known += (known.empty() ? "" : ", ") + run.at("name").get<std::string>();
      if (run.at("name") != name) continue;
      RecordedRun r;
      if (!run.at("init_scale").is_null()) {
        r.init_scale = run.at("init_scale");
        r.growth_interval = run.at("growth_interval");
      }
      r.loss = column(run, "loss");
      r.scale = column(run, "scale");
      r.grad_amax = column(run, "grad_amax");
      for (const double found : column(run, "found_inf")) r.found_inf.push_back(found != 0);
      return r;
    }
    throw narrow::Error(path + ": no run " + std::string(name) + "; there are " + known);
  } catch (const Json::exception& e) {
    throw narrow::Error(path + ": not as record_gpt.py writes it: " + e.what());
  }
}

}  // namespace lesson
