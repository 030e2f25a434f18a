// Files through the tensor passes, as ratios to `cat FILE > /dev/null` in the same run. The files are warm in the
// cache.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numbers>

#include "bench/bench.hpp"
#include "cli/command.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/base/process.hpp"
#include "narrow/base/random.hpp"
#include "narrow/tensor/cast_tensor.hpp"
#include "narrow/tensor/compare_tensors.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace fs = std::filesystem;

namespace {

constexpr std::size_t piece_values = std::size_t{1} << 20;
constexpr std::uint64_t one_in = 1000;  // values of the second file that differ, by one ulp

constexpr const char* file_names[] = {"x.safetensors", "y.safetensors", "out.safetensors"};

// A folder of its own that goes away with everything in it.
struct TemporaryFolder {
  fs::path path;
  std::vector<std::string> files;
  explicit TemporaryFolder(const std::string& parent) {
    std::string name = parent + "/narrow-bench-XXXXXX";
    if (mkdtemp(name.data()) == nullptr)
      throw narrow::Error("--dir: cannot make a folder in " + narrow::quote(parent) + "; give one that can be written");
    path = name;
    for (const char* file : file_names) files.push_back(name + "/" + file);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    // By names that are there already: descriptors or memory may be what is missing.
    for (const std::string& file : files) unlink(file.c_str());
    rmdir(path.c_str());
  }
};

// Gradients: N(0, 2^-10), a piece by Box and Muller, the others the same numbers a little larger each.
std::vector<float> normal_piece() {
  std::vector<float> values(piece_values);
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    const double u = (static_cast<double>(narrow::random_bits(2, i) >> 11) + 0.5) * 0x1p-53;
    const double angle = 2 * std::numbers::pi * static_cast<double>(narrow::random_bits(3, i) >> 11) * 0x1p-53;
    const double radius = 0x1p-10 * std::sqrt(-2 * std::log(u));
    values[i] = static_cast<float>(radius * std::cos(angle));
    values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

// changed: one in a thousand is off by one ulp.
void write_input(const std::string& path, std::uint64_t values, bool changed) {
  narrow::TensorWriter writer(path, {{"data", *narrow::find_element_type("F32"), {values}}});
  const std::vector<float> normal = normal_piece();
  std::vector<std::uint32_t> words(piece_values);
  for (std::uint64_t first = 0; first < values; first += piece_values) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(piece_values, values - first));
    const float factor = 1.0f + static_cast<float>(first / piece_values % 1024) * 0x1p-10f;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t flip = changed && (first + i) % one_in == 0 ? 1 : 0;
      words[i] = std::bit_cast<std::uint32_t>(normal[i] * factor) ^ flip;
    }
    writer.write(std::as_bytes(std::span(words).first(count)));
  }
  writer.finish();
}

// cat FILE.. > /dev/null, as a process of its own.
void cat(const std::vector<std::string>& files) {
  std::vector<std::string> words = {"sh", "-c", "exec cat \"$@\" > /dev/null", "cat"};
  words.insert(words.end(), files.begin(), files.end());
  if (narrow::run_process(words, "", 3600).status != 0) throw narrow::Error("bench: cannot run cat");
}

struct Job {
  BenchRow row;
  std::vector<std::string> inputs;
  std::function<void()> work;
};

void measure(Job& job, int repeat, double bytes) {
  double best_cat = 1e300, best_work = 1e300;
  for (int k = 0; k < repeat; ++k) {
    best_cat = std::min(best_cat, seconds([&] { cat(job.inputs); }));
    best_work = std::min(best_work, seconds(job.work));
  }
  job.row.rate = bytes / best_work * 1e-9;
  job.row.ratio = best_cat / best_work;
}

bool has_room(const std::string& folder, std::uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return !error && space.available > bytes + bytes / 8;
}

}  // namespace

std::vector<BenchRow> bench_files(const FileBench& request) {
  const auto wants = [&](const char* name) {
    return std::find(request.kernels.begin(), request.kernels.end(), name) != request.kernels.end();
  };
  if (request.folder.find('\'') != std::string::npos)
    throw narrow::Error("--dir: a folder without ' in its name is needed");
  // Two inputs and the output of the cast, a quarter of one.
  if (!has_room(request.folder, 9 * request.bytes / 4))
    throw narrow::Error("--dir: " + narrow::quote(request.folder) + " has no room for " +
                        std::to_string((9 * request.bytes / 4) >> 20) +
                        " MiB of files; give another folder, or a smaller --size");
  const TemporaryFolder folder(request.folder);
  const std::string x = folder.files[0], y = folder.files[1];
  const std::string out = folder.files[2];
  const std::uint64_t values = request.bytes / 4;
  write_input(x, values, false);
  if (wants("compare files")) write_input(y, values, true);

  std::vector<narrow::ScaledCast> casts;
  for (const char* name : {"fp16", "bf16", "e4m3", "e5m2", "e3m2", "e2m1"})
    casts.push_back({{narrow::require_format(name)}, 1});
  const narrow::FormatCast e4m3{narrow::require_format("e4m3")};
  const auto row = [&](const char* kernel, const char* format, const std::string& data) {
    BenchRow r{kernel, format, "nearest_even", "to_special", values, narrow::default_threads(), data};
    r.unit = "GB/s";
    r.ratio_to = "cat FILE > /dev/null";
    return r;
  };
  std::vector<Job> jobs;
  jobs.push_back({row("stats file", "six formats", "F32 normal, warm"), {x}, [&] {
                    (void)narrow::tensor_statistics(narrow::open_tensor(x), casts);
                  }});
  jobs.push_back({row("cast file", "e4m3", "F32 normal, warm; output beside it"), {x}, [&] {
                    const narrow::Tensor in = narrow::open_tensor(x);
                    const auto type = narrow::cast_type(in.type, values, e4m3.format, narrow::CastResult::codes).type;
                    narrow::TensorWriter writer(out, {{"data", type, in.shape}});
                    narrow::cast_tensor(in, e4m3, narrow::CastResult::codes, [&](auto piece) { writer.write(piece); });
                    writer.finish();
                  }});
  jobs.push_back({row("compare files", "", "F32 normal, warm; 1 in 1000 differs"), {x, y}, [&] {
                    (void)narrow::compare_tensors(narrow::open_tensor(x), narrow::open_tensor(y));
                  }});
  jobs.back().row.mode = jobs.back().row.overflow = "";
  std::vector<BenchRow> rows;
  for (Job& job : jobs) {
    if (!wants(job.row.kernel.c_str())) continue;
    measure(job, request.repeat, static_cast<double>(request.bytes));
    rows.push_back(job.row);
  }
  return rows;
}

}  // namespace app
