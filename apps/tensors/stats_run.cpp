#include "tensors/stats_run.hpp"

#include <cmath>

namespace app {
namespace {

// As of a file: the data without the loss scale, and the scale that it was multiplied by.
narrow::InputStatistics input_of(const narrow::WatchedTensor& t) {
  return {t.count, t.zero.total(), t.nan.total(), t.inf.total(), t.unscaled(t.amax), t.unscaled(t.min_nonzero), 0};
}

}  // namespace

std::vector<std::vector<StatsRow>> watched_rows(const ChosenRun& chosen, const std::vector<std::string>& names,
                                                const std::vector<narrow::FormatCast>& casts, int k) {
  std::vector<std::vector<StatsRow>> groups;
  for (const narrow::WatchedTensor& t : chosen.tensors) {
    groups.emplace_back();
    for (std::size_t i = 0; i < casts.size(); ++i) {
      StatsRow row{.file = chosen.run.folder(),
                   .step = static_cast<std::uint64_t>(t.step),
                   .tensor = t.label(),
                   .format = names[i],
                   .scale = std::ldexp(t.scale, k),
                   .input = input_of(t),
                   .in_format = {},
                   .breaks = "",
                   .block_scales = {},
                   .series = t.series(),
                   .recorded = StatsRow::Figures{NAN, NAN}};
      const narrow::WatchedFormat* watched = k == 0 ? chosen.run.find(names[i]) : nullptr;
      if (watched != nullptr) {
        const auto& c = t.formats[static_cast<std::size_t>(watched - chosen.run.formats().data())];
        row.in_format.underflow = c.underflow, row.in_format.subnormal = c.subnormal;
        row.in_format.overflow = row.in_format.not_finite = c.overflow;
        row.recorded = {t.unscaled(t.unscaled(c.mse)), c.sqnr_db};
      } else {
        const narrow::Fates fates = watched_fates(chosen.run, t, names[i], casts[i].format, k).all();
        row.in_format.underflow = fates[narrow::Fate::zero], row.in_format.subnormal = fates[narrow::Fate::subnormal];
        row.in_format.overflow = row.in_format.not_finite = fates[narrow::Fate::beyond];
      }
      groups.back().push_back(std::move(row));
    }
  }
  return groups;
}

}  // namespace app
