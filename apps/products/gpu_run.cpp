// narrow gpu check, record, bench: runs them and prints what they found.
#include "products/gpu_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>

#include "cli/json_value.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/base/version.hpp"
#include "narrow/cuda/bench.hpp"
#include "narrow/cuda/check.hpp"
#include "narrow/cuda/device.hpp"
#include "narrow/cuda/product.hpp"
#include "narrow/cuda/tensor_cores.hpp"
#include "narrow/golden/golden.hpp"
#include "narrow/golden/share.hpp"
#include "narrow/text/split.hpp"

namespace app {
namespace {

double number_of(const std::optional<std::string>& text, const char* flag, double usual, double low, double high) {
  if (!text) return usual;
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  if (text->empty() || *end != '\0' || !(value >= low && value <= high))
    throw narrow::Error(std::string(flag) + ": '" + *text + "' is no number from " +
                        format_text("%g to %g", low, high));
  return value;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

std::string device_line(const narrow::GpuDevice& d) {
  return d.name + ", sm_" + std::to_string(d.capability) + ", driver " + d.driver + ", CUDA " + d.toolkit + ", " +
         today();
}

narrow::GpuCheckOptions options_of(const GpuRequest& request) {
  narrow::GpuCheckOptions o;
  o.scale = number_of(request.scale, "--scale", 1, 1e-9, 1);
  o.seed = static_cast<std::uint64_t>(number_of(request.seed, "--seed", 1, 0, 1e15));
  o.dots = static_cast<std::uint64_t>(number_of(request.dots, "--dots", 1e10, 1, 1e13));
  if (request.only) o.only = narrow::words_of<std::string>(*request.only, ",");
  return o;
}

Json to_json(int section, const narrow::GpuCheckResult& r) {
  Json row = Json::object();
  row["section"] = section, row["name"] = r.name, row["unit"] = r.unit, row["count"] = r.count;
  row["mismatches"] = r.mismatches, row["seconds"] = json_number(r.seconds),
  row["first"] = r.first.empty() ? Json() : Json(r.first);
  return row;
}

struct CheckTotals {
  std::uint64_t items = 0, wrong_items = 0, count = 0, mismatches = 0;
};

void print_result(const narrow::GpuCheckResult& r) {
  const double rate = r.seconds > 0 ? static_cast<double>(r.count) / r.seconds * 1e-9 : 0;
  print(format_text("%-44s %15llu %-8s %12llu mismatches %9.2f G/s\n", r.name.c_str(),
                    static_cast<unsigned long long>(r.count), r.unit.c_str(),
                    static_cast<unsigned long long>(r.mismatches), rate));
  if (!r.first.empty()) print("    first: " + r.first + "\n");
  std::fflush(stdout);
}

// The products of the sweep that cuBLASLt has, and the plan of each; calls `found` for every one.
void sweep_products(const narrow::GpuCheckOptions& options,
                    const std::function<void(const narrow::ProductFinding&)>& found) {
  for (const narrow::ProductType& type : narrow::product_types())
    for (const narrow::ProductShape& shape : narrow::product_shapes()) {
      if (!is_wanted(options, "product " + type.name + " " + sizes_of(shape))) continue;
      std::optional<narrow::ProductFinding> finding;
      try {
        finding = narrow::find_product_plan(type, shape, options.seed);
      } catch (const narrow::Error& error) {
        if (std::string(error.what()).find("no algorithm") == std::string::npos) throw;  // FP8 has no odd sizes
      }
      if (finding) found(*finding);
    }
}

void check_products(const GpuRequest& request, const narrow::GpuCheckOptions& options, CheckTotals& totals,
                    Json& rows) {
  struct Count {
    int shapes = 0, explained = 0;
  };
  std::vector<std::pair<std::string, Count>> by_type;
  sweep_products(options, [&](const narrow::ProductFinding& f) {
    if (by_type.empty() || by_type.back().first != f.type.name) by_type.push_back({f.type.name, {}});
    ++by_type.back().second.shapes;
    ++totals.items, totals.count += f.outputs;
    const bool exact = !f.model.empty();
    if (exact) ++by_type.back().second.explained;
    if (request.json) {
      Json row = Json::object();
      row["section"] = 4, row["type"] = f.type.name, row["m"] = f.shape.m, row["n"] = f.shape.n, row["k"] = f.shape.k;
      row["algorithm"] = f.algorithm.text(), row["model"] = exact ? Json(f.model) : Json(), row["plan"] = f.plan;
      row["outputs"] = f.outputs, row["equal"] = f.equal;
      rows.push_back(row);
      return;
    }
    print(format_text("%-15s %-16s %12llu of %12llu equal  %-32s %-26s %s\n", f.type.name.c_str(),
                      sizes_of(f.shape).c_str(), static_cast<unsigned long long>(f.equal),
                      static_cast<unsigned long long>(f.outputs), exact ? f.model.c_str() : "not explained",
                      f.plan.c_str(), f.algorithm.text().c_str()));
    std::fflush(stdout);
  });
  if (request.json) return;
  for (const auto& [type, count] : by_type)
    print(format_text("%s: %d of %d shapes bit-exact under a plan\n", type.c_str(), count.explained, count.shapes));
}

// check --share: what this GPU computes, in a file to contribute. The time is shared out as it goes: the counts of a
// slow GPU are smaller, its hashes and dot products are the same.

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

int share_gpu(const GpuRequest& request, const narrow::GpuCheckOptions& options, const narrow::GpuDevice& device,
              double seconds) {
  const Clock clock(seconds);
  narrow::ShareFile file;
  file.gpu = device.name, file.sm = device.capability, file.driver = device.driver, file.toolkit = device.toolkit;
  file.cublas = narrow::cublas_version().number, file.version = narrow::version, file.date = today();
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

int check(const GpuRequest& request) {
  narrow::GpuCheckOptions options = options_of(request);
  std::vector<int> sections{1, 2, 3, 4, 5};
  if (request.sections) {
    sections.clear();
    for (const std::string& word : narrow::words_of<std::string>(*request.sections, ","))
      sections.push_back(static_cast<int>(number_of(word, "--section", 0, 1, 5)));
  }
  const double limit = number_of(request.seconds, "--seconds", 120, 5, 3600);
  const narrow::GpuDevice device = narrow::open_device();
  options.capability = device.capability;
  if (request.share) return share_gpu(request, options, device, limit);
  if (!request.json) {
    print("narrow gpu check on " + device_line(device) + "\n");
    print(format_text("seed %llu, %llu dot products an instruction, scale %g\n",
                      static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(options.dots),
                      options.scale));
  }
  Json rows = Json::array();
  CheckTotals totals;
  const auto start = std::chrono::steady_clock::now();
  for (const int section : sections) {
    const char* titles[] = {"", "conversions", "arithmetic", "tensor cores", "whole products", "special functions"};
    if (!request.json) print(format_text("\nSection %d: %s\n", section, titles[section]));
    const narrow::GpuReport report = [&](const narrow::GpuCheckResult& r) {
      ++totals.items, totals.count += r.count, totals.mismatches += r.mismatches;
      if (r.mismatches != 0) ++totals.wrong_items;
      if (request.json) rows.push_back(to_json(section, r));
      else print_result(r);
    };
    if (section == 1) narrow::check_conversions(options, report);
    if (section == 2) narrow::check_arithmetic(options, report);
    if (section == 3) narrow::check_tensor_cores(options, report);
    if (section == 4) check_products(request, options, totals, rows);
    if (section == 5) narrow::check_special(options, report);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!request.json) print(format_text("%.1f s since the start\n", seconds));
  }
  if (totals.items == 0)
    throw narrow::Error("--only: no item has such a name; `narrow gpu check --list` names the instructions");
  if (request.json) print(rows.dump(2) + "\n");
  else
    print(format_text("\n%llu items, %llu results, %llu mismatches in %llu items\n",
                      static_cast<unsigned long long>(totals.items), static_cast<unsigned long long>(totals.count),
                      static_cast<unsigned long long>(totals.mismatches),
                      static_cast<unsigned long long>(totals.wrong_items)));
  return totals.mismatches == 0 ? 0 : 1;
}

std::string origin_lines(const narrow::GoldenOrigin& o) {
  return "# gpu " + o.gpu + "\n# driver " + o.driver + "\n# toolkit " + o.toolkit + "\n# date " + o.date +
         "\n# command " + o.command + "\n";
}

// Conversions by their hash over all inputs, products by inputs, plan and hash of the output.
void record_tables(const GpuRequest& request, const narrow::GpuCheckOptions& options, const narrow::GoldenOrigin& o) {
  const std::string head = origin_lines(o);
  std::string text = head + "name\tunit\tcount\thash\n";
  const narrow::GpuReport add = [&](const narrow::GpuCheckResult& r) {
    text += r.name + "\t" + r.unit + "\t" + std::to_string(r.count) + "\t" +
            format_text("%016llX", static_cast<unsigned long long>(r.hash)) + "\n";
  };
  narrow::check_conversions(options, add);
  narrow::check_arithmetic(options, add);
  write_file(*request.folder + "/conversions.tsv", text);
  const narrow::CublasVersion cublas = narrow::cublas_version();
  text = head + "# cublas " + cublas.number +
         "\n# torch none\ntype\tm\tn\tk\tseed\talgorithm\tmodel\tplan\toutputs\tequal\thash\n";
  sweep_products(options, [&](const narrow::ProductFinding& f) {
    text += f.type.name +
            format_text("\t%d\t%d\t%d\t%llu\t", f.shape.m, f.shape.n, f.shape.k,
                        static_cast<unsigned long long>(options.seed)) +
            f.algorithm.text() + "\t" + f.model + "\t" + f.plan +
            format_text("\t%llu\t%llu\t%016llX\n", static_cast<unsigned long long>(f.outputs),
                        static_cast<unsigned long long>(f.equal), static_cast<unsigned long long>(f.hash));
  });
  write_file(*request.folder + "/products.tsv", text);
}

// The ladder of every instruction whose products reach the end of its accumulator's range.
void record_ladders(const GpuRequest& request, const narrow::GpuCheckOptions& options, const narrow::GoldenOrigin& o) {
  std::string text = origin_lines(o) + "instruction\thash\tcolumn 0\n";
  for (const narrow::Instruction& i : narrow::all_instructions()) {
    if (!is_wanted(options, i.name()) || !i.runs_on(options.capability) || !narrow::ladder_reaches(i.formats()))
      continue;
    const std::vector<narrow::Code> results = narrow::record_tile(i, 0, narrow::ladder_tile);
    text += i.name() + format_text("\t%016llX\t", static_cast<unsigned long long>(narrow::hash_tile(results)));
    for (int row = 0; row < narrow::tile_rows; ++row) {
      const narrow::Code code = results[static_cast<std::size_t>(row * i.columns())];
      text += format_text(row == 0 ? "%llX" : " %llX", static_cast<unsigned long long>(code));
    }
    text += "\n";
  }
  write_file(*request.folder + "/ladders.tsv", text);
}

// Kept in full and kept as hashes of tiles: some thousand and some million dot products.
constexpr std::size_t full_dots = 4096, hashed_dots = std::size_t{1} << 22;

int record(const GpuRequest& request) {
  if (!request.folder) throw narrow::Error("gpu record: -o FOLDER is missing");
  narrow::GpuCheckOptions options = options_of(request);
  const narrow::GpuDevice device = narrow::open_device();
  options.capability = device.capability;
  const narrow::GoldenOrigin origin{device.name, device.driver, device.toolkit, today(),
                                    "narrow gpu record -o " + *request.folder};
  std::filesystem::create_directories(*request.folder);
  for (const narrow::Instruction& i : narrow::all_instructions()) {
    if (!is_wanted(options, i.name()) || !i.runs_on(options.capability)) continue;
    const auto outputs = static_cast<std::size_t>(narrow::tile_rows * i.columns());
    const narrow::GoldenTiles golden{origin, i, options.seed,
                                     narrow::record_instruction(i, options.seed, full_dots, hashed_dots / outputs)};
    write_file(*request.folder + "/" + i.name() + ".txt", narrow::write_golden_tiles(golden));
  }
  record_ladders(request, options, origin);
  record_tables(request, options, origin);
  return 0;
}

int bench(const GpuRequest& request) {
  const narrow::GpuDevice device = narrow::open_device();
  Json rows = Json::array();
  if (!request.json)
    print("narrow gpu bench on " + device_line(device) +
          "\n\n| what | rate | unit | ratio | to |\n|---|---:|---|---:|---|\n");
  for (const auto& part : {narrow::bench_arrays, narrow::bench_products, narrow::bench_models})
    for (const narrow::GpuRate& r : part()) {
      if (request.json) {
        Json row = Json::object();
        row["kernel"] = r.name, row["rate"] = json_number(r.rate), row["unit"] = r.unit,
        row["ratio"] = r.ratio == 0 ? Json() : json_number(r.ratio),
        row["ratio_to"] = r.ratio_to.empty() ? Json() : Json(r.ratio_to);
        rows.push_back(row);
      } else {
        print(format_text("| %s | %.3f | %s | %s | %s |\n", r.name.c_str(), r.rate, r.unit.c_str(),
                          r.ratio == 0 ? "" : format_text("%.3f", r.ratio).c_str(), r.ratio_to.c_str()));
        std::fflush(stdout);
      }
    }
  if (request.json) print(rows.dump(2) + "\n");
  return 0;
}

}  // namespace

std::uint64_t gpu_seed(const GpuRequest& request) { return options_of(request).seed; }

int run_gpu(const GpuRequest& request) {
  const std::string& job = request.words.front();
  if (job == "check") return check(request);
  if (job == "record") return record(request);
  if (job == "bench") return bench(request);
  return plan_gpu(request);
}

}  // namespace app
