// narrow bench: the speed of the array kernels as ratios to a memcpy of the same bytes, measured side by side in one
// run.
#include "bench/bench.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "narrow/base/parallel.hpp"
#include "narrow/base/random.hpp"
#include "narrow/simd/target.hpp"
#include "narrow/text/quote.hpp"

namespace app {
namespace of_bench {

struct Options {
  std::optional<std::string> kernels, formats, repeat, folder, size;
  bool json = false, markdown = false, quick = false;
};

constexpr std::size_t out_of_cache = std::size_t{16} << 20, in_cache = std::size_t{64} << 10;

// Every binade from below fp16's subnormals to beyond its largest value alike, random mantissas and signs.
BenchInput spread_input(std::size_t n) {
  BenchInput input{"spread", std::vector<float>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t r = narrow::random_bits(1, i);
    const std::uint32_t exponent = static_cast<std::uint32_t>(127 - 30 + (r >> 32) % 48) << 23;
    input.values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(r & 0x807FFFFF) | exponent);
  }
  return input;
}

// N(0, 1) by Box and Muller.
BenchInput normal_input(std::size_t n) {
  BenchInput input{"normal", std::vector<float>(n)};
  for (std::size_t i = 0; i + 1 < n; i += 2) {
    const double u = (static_cast<double>(narrow::random_bits(2, i) >> 11) + 0.5) * 0x1p-53;
    const double angle = 2 * std::numbers::pi * static_cast<double>(narrow::random_bits(3, i) >> 11) * 0x1p-53;
    const double radius = std::sqrt(-2 * std::log(u));
    input.values[i] = static_cast<float>(radius * std::cos(angle));
    input.values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return input;
}

// The best of `repeat` of each, in turns, so that whatever else the machine does meets both alike. A pass over data in
// cache is too short for the clock: several are timed together.
void measure(BenchKernel& kernel, int threads, int repeat, std::vector<char>& from, std::vector<char>& to) {
  const std::size_t n = kernel.row.elements;
  const auto bytes =
      static_cast<std::size_t>(kernel.bytes_per_element * static_cast<double>(n) / 2);  // read and written
  const int passes = n >= out_of_cache ? 1 : 64;
  const auto copy = [&] {
    for (int k = 0; k < passes; ++k)
      narrow::parallel_parts(bytes, std::size_t{1} << 18, threads, [&](std::size_t begin, std::size_t end) {
        std::memcpy(to.data() + begin, from.data() + begin, end - begin);
      });
  };
  const auto work = [&] {
    for (int k = 0; k < passes; ++k) kernel.run(threads);
  };
  double best_copy = 1e300, best_work = 1e300;
  for (int k = 0; k < repeat; ++k) {
    best_copy = std::min(best_copy, seconds(copy));
    best_work = std::min(best_work, seconds(work));
  }
  kernel.row.threads = threads;
  kernel.row.rate = static_cast<double>(n) * passes / best_work * 1e-9;
  kernel.row.ratio = best_copy / best_work;
}

bool chosen(const std::optional<std::string>& list, const std::string& word) {
  if (!list) return true;
  const std::string padded = "," + *list + ",";
  return padded.find("," + word + ",") != std::string::npos;
}

// Throws Error that names the first word of the list that is not known.
void require_known(const char* flag, const std::string& list, const std::function<bool(const std::string&)>& is_known) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string word = list.substr(begin, end - begin);
    if (!is_known(word))
      throw narrow::Error(std::string(flag) + ": " + narrow::quote(word) +
                          " is in no row; `narrow bench --quick` prints the rows, `narrow bench --help` the kernels");
    begin = end + 1;
  }
}

constexpr const char* array_kernels[] = {"memcpy",  "round", "encode", "decode",   "statistics", "histogram",
                                         "special", "mxfp8", "nvfp4",  "quantise", "eigen cast", "compiler half"};

bool is_kernel(const std::string& word) {
  const auto is_word = [&](const char* name) { return word == name; };
  return std::any_of(std::begin(array_kernels), std::end(array_kernels), is_word) ||
         std::any_of(std::begin(file_kernels), std::end(file_kernels), is_word) || word == "files" ||
         word == "product" || word == "train";
}

BenchKernel memcpy_kernel(const BenchInput& input) {
  BenchKernel k;
  k.row = {"memcpy", "", "", "", input.values.size(), 1, input.name};
  const auto out = std::make_shared<std::vector<float>>(input.values.size());
  k.run = [in = std::span<const float>(input.values), out](int threads) {
    narrow::parallel_parts(in.size(), std::size_t{1} << 16, threads, [&](std::size_t begin, std::size_t end) {
      std::memcpy(out->data() + begin, in.data() + begin, (end - begin) * sizeof(float));
    });
  };
  return k;
}

std::vector<BenchRow> measure_all(const Options& options, int repeat) {
  if (std::none_of(std::begin(array_kernels), std::end(array_kernels),
                   [&](const char* name) { return chosen(options.kernels, name); }))
    return {};
  std::vector<BenchInput> inputs;
  for (const std::size_t n : {out_of_cache, in_cache}) {
    inputs.push_back(spread_input(n));
    if (!options.quick) inputs.push_back(normal_input(n));
    if (options.quick) break;
  }
  std::vector<BenchKernel> kernels;
  for (const BenchInput& input : inputs) {
    kernels.push_back(memcpy_kernel(input));
    for (BenchKernel& k : library_kernels(input)) kernels.push_back(std::move(k));
    for (BenchKernel& k : scale_kernels(input)) kernels.push_back(std::move(k));
    for (BenchKernel& k : peer_kernels(input)) kernels.push_back(std::move(k));
  }
  if (options.formats)
    require_known("--formats", *options.formats, [&](const std::string& word) {
      return std::any_of(kernels.begin(), kernels.end(), [&](const BenchKernel& k) { return k.row.format == word; });
    });
  std::erase_if(kernels, [&](const BenchKernel& k) {
    return !chosen(options.kernels, k.row.kernel) ||
           (k.row.kernel != "memcpy" && !chosen(options.formats, k.row.format));
  });
  if (kernels.empty()) return {};

  std::vector<char> from(out_of_cache * 4, 1), to(out_of_cache * 4, 2);
  std::vector<int> thread_counts{1};
  if (narrow::default_threads() > 1 && !options.quick) thread_counts.push_back(narrow::default_threads());
  Progress progress("bench", kernels.size() * thread_counts.size());
  std::vector<BenchRow> rows;
  for (const int threads : thread_counts)
    for (BenchKernel& k : kernels) {
      const bool single = k.row.kernel == "eigen cast" || k.row.kernel == "compiler half";
      progress.add();
      if (threads > 1 && single) continue;
      measure(k, threads, repeat, from, to);
      rows.push_back(k.row);
    }
  return rows;
}

// The kernels on files: all of them by the word files, or each by its name. Unless they are asked for, or a size is
// given, the files are small.
std::vector<BenchRow> measure_files(const Options& options, int repeat) {
  FileBench request;
  for (const char* name : file_kernels)
    if (chosen(options.kernels, name) || (options.kernels && chosen(options.kernels, "files")))
      request.kernels.push_back(name);
  if (request.kernels.empty() || (options.formats && !options.kernels)) return {};
  const char* temporary = std::getenv("TMPDIR");
  request.folder = options.folder.value_or(temporary != nullptr && *temporary != '\0' ? temporary : "/tmp");
  request.bytes = (options.quick     ? std::uint64_t{64}
                   : options.kernels ? std::uint64_t{1024}
                                     : std::uint64_t{256})
                  << 20;
  if (options.size) {
    char* end = nullptr;
    const long mib = std::strtol(options.size->c_str(), &end, 10);
    if (options.size->empty() || *end != '\0' || mib < 1 || mib > (1 << 20))
      throw narrow::Error("--size: '" + *options.size + "' is no number of MiB from 1 to 1048576");
    request.bytes = static_cast<std::uint64_t>(mib) << 20;
  }
  request.repeat = repeat;
  return bench_files(request);
}

Json to_json(const BenchRow& r) {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json row = Json::object();
  row["kernel"] = r.kernel;
  row["format"] = text_or_null(r.format);
  row["mode"] = text_or_null(r.mode);
  row["overflow"] = text_or_null(r.overflow);
  row["elements"] = r.elements;
  row["threads"] = r.threads;
  row["data"] = r.data;
  row["rate"] = json_number(r.rate);
  row["unit"] = r.unit;
  row["ratio"] = json_number(r.ratio);
  row["ratio_to"] = r.ratio_to;
  row["instructions"] = narrow::simd::name_of(narrow::simd::current_target());
  return row;
}

TextTable to_table(const std::vector<BenchRow>& rows, const char* unit = "Gelem/s", const char* ratio = "of memcpy") {
  constexpr Align l = Align::left, r = Align::right;
  TextTable table{{"kernel", "format", "mode", "overflow", "elements", "data", "threads", unit, ratio},
              {l, l, l, l, r, l, r, r, r},
              {}};
  for (const BenchRow& row : rows)
    table.rows.push_back({row.kernel, row.format, row.mode, row.overflow, std::to_string(row.elements), row.data,
                          std::to_string(row.threads), decimal_text(row.rate, 2), decimal_text(row.ratio, 3)});
  return table;
}

int run(const Options& options) {
  int repeat = 11;
  if (options.repeat) {
    char* end = nullptr;
    const long parsed = std::strtol(options.repeat->c_str(), &end, 10);
    if (options.repeat->empty() || *end != '\0' || parsed < 1 || parsed > 1000)
      throw narrow::Error("--repeat: '" + *options.repeat + "' is no number from 1 to 1000");
    repeat = static_cast<int>(parsed);
  }
  if (options.json && options.markdown) throw narrow::Error("--json and --markdown: one of them");
  if (options.kernels) require_known("--kernel", *options.kernels, is_kernel);
  std::vector<BenchRow> rows = measure_all(options, repeat);
  const std::vector<BenchRow> files = measure_files(options, std::min(repeat, 5));
  std::vector<BenchRow> products;
  if (chosen(options.kernels, "product") && (options.kernels || !options.formats))
    products = bench_products(repeat, options.quick);
  std::vector<BenchRow> steps;
  if (chosen(options.kernels, "train") && (options.kernels || !options.formats))
    steps = bench_training(std::min(repeat, options.quick ? 2 : 5), options.quick);
  if (rows.empty() && files.empty() && products.empty() && steps.empty())
    throw narrow::Error(
        "bench: no kernel is left; --kernel takes round, encode, decode, statistics, histogram, special, mxfp8, nvfp4, "
        "quantise, memcpy, files, product, train");
  if (options.json) {
    Json list = Json::array();
    for (const BenchRow& row : rows) list.push_back(to_json(row));
    for (const BenchRow& row : files) list.push_back(to_json(row));
    for (const BenchRow& row : products) list.push_back(to_json(row));
    for (const BenchRow& row : steps) list.push_back(to_json(row));
    print(json_text(list));
    return 0;
  }
  const auto show = [&](const TextTable& table) {
    print(options.markdown ? table.to_markdown() : table.to_text(use_colour(1)));
  };
  if (!rows.empty()) show(to_table(rows));
  if (!rows.empty() && !files.empty()) print("\n");
  if (!files.empty()) show(to_table(files, "GB/s", "of cat"));
  if (!products.empty() && !(rows.empty() && files.empty())) print("\n");
  if (!products.empty()) show(to_table(products, "GMAC/s", "of Eigen"));
  if (!steps.empty() && !(rows.empty() && files.empty() && products.empty())) print("\n");
  if (!steps.empty()) show(to_table(steps, "GMAC/s", "of Eigen, then of fp32"));
  std::string here;
  for (const auto target : narrow::simd::targets_here()) here += (here.empty() ? "" : ", ") + std::string(narrow::simd::name_of(target));
  print("\ninstruction set: " + std::string(narrow::simd::name_of(narrow::simd::current_target())) + " (this CPU has " + here + "; NARROW_SIMD=NAME chooses)\n");
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.option("--kernel", options->kernels, "LIST",
                   "only these kernels: round, encode, decode, statistics, histogram, special, mxfp8, nvfp4, quantise, "
                   "memcpy, files, product, train");
  arguments.option("--formats", options->formats, "LIST", "only these formats, as the table names them");
  arguments.option("--repeat", options->repeat, "N", "best of N (default 11)");
  arguments.flag("--quick", options->quick, "16 M floats with spread exponents on one thread only");
  arguments.option("--dir", options->folder, "FOLDER",
                   "where the files of the file kernels go (default TMPDIR or /tmp)");
  arguments.option("--size", options->size, "MIB",
                   "their size (default 1024 when asked for by --kernel, else 256; 64 with --quick)");
  arguments.flag("--json", options->json, "print JSON");
  arguments.flag("--markdown", options->markdown, "print a Markdown table");
  return [options] { return run(*options); };
}

}  // namespace of_bench

const Command bench_command{
    "bench", "speed of kernels, products and files as ratios to memcpy, Eigen and cat, in one run",
    "narrow bench --quick --kernel histogram\n  NARROW_SIMD=avx2 narrow bench --quick --kernel round   another "
    "instruction set than the best",
    of_bench::declare,
    "Each kernel is measured in turns with a memcpy that moves the same bytes, in one process; products with "
    "Eigen, files with cat, training with its FP32 step. The ratio is what compares between machines. The best "
    "of --repeat counts."};

}  // namespace app
