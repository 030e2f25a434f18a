// Any text as a log of steps; a first line of ":NAME" asks for one of its runs.
#include <cmath>

#include "fuzz/read_all.hpp"
#include "narrow/scale/scale_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size), run;
  if (text.starts_with(':')) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    run = text.substr(1, end);
    if (run.ends_with('\n')) run.pop_back();
    text.erase(0, end + 1);
  }
  try {
    const narrow::GradientLog log = narrow::parse_scale_log(text, "log", run).log;
    const std::size_t steps = log.steps.size();
    fuzz::require(steps > 0);
    for (const std::size_t column : {log.amax.size(), log.found_inf.size(), log.scale.size()})
      fuzz::require(column == 0 || column == steps);
    for (std::size_t i = 1; i < steps; ++i) fuzz::require(log.steps[i - 1] < log.steps[i]);
    for (const float scale : log.scale) fuzz::require(scale > 0 && std::isfinite(scale));
  } catch (const narrow::Error& error) {
    fuzz::check_message(error.what());
  }
  return 0;
}
