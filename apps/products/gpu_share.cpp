// narrow gpu check --share: what this GPU computes, in a file to contribute. The time is shared out as it goes: the
// counts of a slow GPU are smaller, its hashes and dot products are the same.
#include "products/gpu_share.hpp"

#include <algorithm>
#include <chrono>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/base/version.hpp"
#include "narrow/cuda/check.hpp"
#include "narrow/cuda/product.hpp"
#include "narrow/cuda/tensor_cores.hpp"
#include "narrow/golden/share.hpp"

namespace app {
namespace {

class Clock {
 public:
  explicit Clock(double seconds) : end_(now() + seconds) {}
  double left() const { return std::max(0.0, end_ - now()); }

 private:
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  double end_;
};

// Conversions and arithmetic at 2^-10 of their inputs say what all would take; half of the time may go to them. A share
// of them has a hash of its own, so a GPU that is fast enough takes all.
void share_conversions(narrow::GpuCheckOptions options, const Clock& clock, narrow::ShareFile& file) {
  constexpr double probe = 0x1p-10;
  double seconds = 0;
  options.scale = probe;
  const narrow::GpuReport measure = [&](const narrow::GpuCheckResult& r) { seconds += r.seconds / probe; };
  narrow::check_conversions(options, measure), narrow::check_arithmetic(options, measure);
  options.scale = seconds <= 0 ? 1 : std::min(1.0, clock.left() / 2 / seconds);
  const narrow::GpuReport add = [&](const narrow::GpuCheckResult& r) {
    file.conversions.push_back({r.name, r.unit, r.count, r.mismatches, r.hash});
  };
  narrow::check_conversions(options, add), narrow::check_arithmetic(options, add);
}

narrow::SharedInstruction share_instruction(const narrow::Instruction& i, const narrow::ShareFile& file,
                                            double seconds) {
  narrow::SharedInstruction shared;
  shared.instruction = i;
  shared.hashes = narrow::record_instruction(i, file.seed, 0, narrow::shared_tiles).hashes;
  for (std::size_t n = 0; n < narrow::shared_dots; ++n) {
    const narrow::SharedPlace p = narrow::shared_place(i, n);
    const auto place = static_cast<std::size_t>(p.row * i.columns() + p.column);
    shared.dots.push_back(
        {narrow::tile_dot(i, file.seed, p.tile, p.row, p.column), narrow::record_tile(i, file.seed, p.tile)[place]});
  }
  if (!narrow::can_check_instruction(i, file.sm)) return shared;
  constexpr std::uint64_t probe = 1 << 22;
  const narrow::GpuCheckResult first = narrow::check_instruction(i, probe, file.seed, false, file.sm);
  const double rate = static_cast<double>(first.count) / std::max(first.seconds, 1e-6);
  const double dots = std::clamp(rate * (seconds - first.seconds), static_cast<double>(probe), 1e10);
  const narrow::GpuCheckResult all =
      narrow::check_instruction(i, static_cast<std::uint64_t>(dots), file.seed + 1, false, file.sm);
  shared.compared = first.count + all.count, shared.mismatches = first.mismatches + all.mismatches;
  return shared;
}

}  // namespace

int share_gpu(const GpuRequest& request, const narrow::GpuCheckOptions& options, const narrow::GpuDevice& device,
              const std::string& date, double seconds) {
  const Clock clock(seconds);
  narrow::ShareFile file;
  file.gpu = device.name, file.sm = device.capability, file.driver = device.driver, file.toolkit = device.toolkit;
  file.cublas = narrow::cublas_version().number, file.version = narrow::version, file.date = date;
  file.seed = options.seed;
  if (narrow::sm_generation(file.sm).empty())
    throw narrow::Error("gpu check: --share: no generation of tensor cores is known for sm_" + std::to_string(file.sm));
  share_conversions(options, clock, file);
  std::vector<narrow::Instruction> mine;
  for (const narrow::Instruction& i : narrow::all_instructions())
    if (i.runs_on(file.sm) && is_wanted(options, i.name())) mine.push_back(i);
  for (std::size_t n = 0; n < mine.size(); ++n)
    file.instructions.push_back(share_instruction(mine[n], file, clock.left() / static_cast<double>(mine.size() - n)));
  if (file.conversions.empty() && file.instructions.empty())
    throw narrow::Error("gpu check: --share: nothing of this GPU fits --only");
  const std::string path = request.folder ? *request.folder : file.file_name();
  write_file(path, narrow::write_share(file));
  std::uint64_t dots = 0, wrong = 0, unknown = 0;
  for (const narrow::SharedConversion& c : file.conversions) wrong += c.mismatches;
  for (const narrow::SharedInstruction& s : file.instructions)
    dots += s.compared, wrong += s.mismatches, unknown += s.compared == 0 ? 1 : 0;
  if (request.json) {
    Json row = Json::object();
    row["file"] = path, row["gpu"] = file.gpu, row["sm"] = file.sm, row["conversions"] = file.conversions.size();
    row["instructions"] = file.instructions.size(), row["without_model"] = unknown, row["dots"] = dots;
    row["mismatches"] = wrong;
    print(json_text(row));
  } else {
    print(path + ": " + file.gpu + ", sm_" + std::to_string(file.sm) + ": " + std::to_string(file.conversions.size()) +
          " conversions and operations, " + std::to_string(file.instructions.size()) + " instructions (" +
          std::to_string(unknown) + " without a model), " + std::to_string(dots) + " dot products, " +
          std::to_string(wrong) + " mismatches\ndata/contributed/README.md says how to contribute it\n");
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace app
