// The folder of a watched run: the texts of run.json, tensors.jsonl, scale.jsonl and loss.jsonl, each ended by a zero
// byte; one without text is not there. What is accepted adds up, and what its counts tell about formats does too.
#include <fstream>

#include "fuzz/read_all.hpp"
#include "narrow/tensor/watched_counts.hpp"

namespace {

void check(const narrow::WatchedRun& run, const narrow::WatchedTensor& t) {
  const narrow::ExponentHistogram h = t.histogram();
  fuzz::require(h.count() == t.count && t.formats.size() == run.formats().size() && t.amax >= t.min_nonzero);
  for (std::size_t k = 0; k < t.formats.size(); ++k) {
    const narrow::WatchedCounts& counted = t.formats[k];
    const auto fates = narrow::fates_of(h, {run.formats()[k].format, {}}, &counted);
    if (!fates) continue;
    const narrow::Fates all = fates->all();
    fuzz::require(all[narrow::Fate::zero] == counted.underflow && all[narrow::Fate::beyond] == counted.overflow);
    fuzz::require(all.total() == t.finite() - t.zero.total());
  }
  for (const int k : {-200, -1, 1, 200})
    if (const auto moved = narrow::times_power_of_two(h, k)) fuzz::require(moved->count() == t.count);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string folder = fuzz::scratch_folder();
  std::string rest(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"run.json", "tensors.jsonl", "scale.jsonl", "loss.jsonl"}) {
    const std::string text = rest.substr(0, rest.find('\0'));
    rest.erase(0, std::min(rest.size(), text.size() + 1));
    if (text.empty()) std::filesystem::remove(folder + "/" + name);
    else std::ofstream(folder + "/" + name, std::ios::binary) << text;
  }
  try {
    const narrow::WatchedRun run(folder);
    narrow::LastStep last;
    std::int64_t step = 0;
    run.for_each_tensor([&](const narrow::WatchedTensor& t) {
      check(run, t);
      fuzz::require(t.step >= step);
      step = t.step;
      last.add(t);
    });
    (void)run.scale_log();
    (void)run.losses();
  } catch (const narrow::Error& error) {
    fuzz::check_message(error.what());
  }
  return 0;
}
