// narrow stats: what formats do to tensors: lost, subnormal, overflowed, and the error; a gate for CI; a trend over
// steps.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "cli/command.hpp"
#include "cli/crew.hpp"
#include "cli/number_text.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/tensor_statistics.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/cast_options.hpp"
#include "options/format_list.hpp"
#include "options/number_option.hpp"
#include "options/tensor_choice.hpp"
#include "options/tensor_text.hpp"
#include "tensors/fail_if.hpp"
#include "tensors/stats_rows.hpp"
#include "tensors/stats_run.hpp"

namespace app {
namespace of_stats {

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> formats, scale, sort, top, csv, fail_if;
  TensorOptions choice;
  CastOptions cast;
  bool per_tensor = false, total = false, json = false;
};

struct Request {
  std::vector<std::string> names;         // of the formats, then of the block formats
  std::vector<narrow::FormatCast> casts;  // in the same order
  std::vector<ChosenBlockFormat> blocks;
  std::optional<double> scale;  // empty: by the goal
  narrow::ScaleGoal goal = {};
  std::uint64_t seed = 0;
  bool total = false;
};

Request read_request(const Options& options) {
  Request request;
  options.cast.check();
  const std::string list = options.formats.value_or("fp16,bf16,e4m3,e5m2");
  FormatLists formats = blame("--formats", [&] { return parse_format_lists(list); });
  for (const ChosenFormat& chosen : formats.plain) {
    request.names.push_back(chosen.name);
    request.casts.push_back({chosen.format, blame(chosen.name, [&] { return options.cast.cast_to(chosen.format); })});
  }
  request.blocks = std::move(formats.blocks);
  for (const ChosenBlockFormat& chosen : request.blocks) request.names.push_back(chosen.name);
  if (!request.blocks.empty() && !options.cast.is_plain())
    throw narrow::Error("stats: --cast, --rounding, --overflow and --subnormals do not go with " +
                        narrow::quote(request.blocks[0].name) + ", whose rule fixes them");
  if (options.scale == "best-sqnr") request.goal = narrow::ScaleGoal::best_sqnr;
  else if (options.scale != "auto")
    request.scale = options.scale ? parse_scale(*options.scale, ", auto, best-sqnr") : 1.0;
  if (options.total && options.per_tensor) throw narrow::Error("stats: --total and --per-tensor exclude each other");
  request.seed = options.cast.random_value();
  request.total = options.total;
  return request;
}

std::vector<narrow::ScaledCast> with_scales(const Request& request, std::span<const narrow::Tensor> tensors,
                                            const narrow::TensorPass& pass) {
  std::vector<narrow::AutoScale> scales(request.casts.size());
  if (!request.scale) scales = narrow::auto_scales(tensors, request.casts, request.goal, pass);
  std::vector<narrow::ScaledCast> casts;
  for (std::size_t k = 0; k < request.casts.size(); ++k)
    casts.push_back({request.casts[k], request.scale.value_or(scales[k].scale)});
  return casts;
}

// What is found of a tensor, or of all tensors of a file.
struct Measured {
  std::vector<narrow::ScaledCast> casts;
  narrow::Statistics plain;
  std::vector<narrow::BlockFormatStatistics> blocks;

  void merge(const Measured& next) {
    casts = next.casts;
    plain.merge(next.plain);
    blocks.resize(next.blocks.size());
    for (std::size_t k = 0; k < blocks.size(); ++k) blocks[k].merge(next.blocks[k]);
  }
};

// Block formats find their scales themselves: --scale auto and best-sqnr are 1 for them.
Measured measure(const Request& request, const narrow::Tensor& tensor, std::vector<narrow::ScaledCast> casts,
                 const narrow::TensorPass& pass) {
  Measured m{std::move(casts), {}, {}};
  m.plain = narrow::tensor_statistics(tensor, m.casts, pass);
  for (const ChosenBlockFormat& chosen : request.blocks)
    m.blocks.push_back(
        narrow::block_tensor_statistics(tensor, chosen.format, request.scale.value_or(1), pass.done, false, pass.log));
  return m;
}

std::vector<StatsRow> to_rows(const Request& request, const Measured& m, const std::string& file,
                              const std::string& tensor) {
  std::vector<StatsRow> rows;
  for (std::size_t k = 0; k < m.casts.size(); ++k)
    rows.push_back({file, {}, tensor, request.names[k], m.casts[k].scale, m.plain.input, m.plain.formats[k], ""});
  for (std::size_t k = 0; k < m.blocks.size(); ++k)
    rows.push_back({file,
                    {},
                    tensor,
                    request.blocks[k].name,
                    request.scale.value_or(1),
                    m.blocks[k].input,
                    m.blocks[k].elements,
                    "",
                    m.blocks[k].scales});
  return rows;
}

// The name of a tensor in a run of steps: that of an .npy file is the name of the file, without the number that
// changes.
std::string name_in_run(const ChosenFile& chosen, const narrow::Tensor& tensor) {
  if (chosen.file.kind != narrow::FileKind::npy) return tensor.name;
  std::string name = tensor.name;
  const std::size_t last = name.find_last_of("0123456789");
  if (last == std::string::npos) return name;
  const std::size_t before = name.find_last_not_of("0123456789", last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  return name.erase(first, last - first + 1);
}

// How often the data is read at most: auto looks at it twice before, best-sqnr once and 1 + log2(128) times a format.
std::uint64_t passes_over(const Request& request) {
  const std::uint64_t search = request.goal == narrow::ScaleGoal::best_sqnr ? 8 * request.casts.size() : 1;
  std::uint64_t passes = request.scale ? 1 : 2 + search;
  for (const ChosenBlockFormat& chosen : request.blocks) passes += chosen.format.needs_tensor_amax() ? 2 : 1;
  return passes;
}

// Several files whose names end in different numbers may be the steps of one run.
bool have_steps(const std::vector<std::string>& files) {
  std::set<std::uint64_t> steps;
  for (const std::string& file : files)
    if (const auto step = step_of(file)) steps.insert(*step);
  return files.size() > 1 && steps.size() == files.size();
}

// Dumps of one training run by step: how each tensor changes, and the first step at which something breaks.

// An increase below this is noise of a few elements, even where it doubles a tiny share.
constexpr double least_increase = 0.01;

using Series = std::vector<const StatsRow*>;

// By tensor and format, in the order in which they first came.
template <class Rows>
std::vector<std::vector<std::size_t>> group(const Rows& rows) {
  std::map<std::pair<std::string, std::string>, std::size_t> place;
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [found, added] = place.try_emplace({rows[i].name_in_run(), rows[i].format}, groups.size());
    if (added) groups.emplace_back();
    groups[found->second].push_back(i);
  }
  return groups;
}

double share(std::uint64_t part, const StatsRow& row) {
  return row.input.count == 0 ? 0 : static_cast<double>(part) / static_cast<double>(row.input.count);
}

std::string reason(const StatsRow& first, const StatsRow& row) {
  if (row.input.nan != 0) return "NaN in the data: " + std::to_string(row.input.nan);
  if (row.input.inf != 0) return "Inf in the data: " + std::to_string(row.input.inf);
  const std::uint64_t overflow = row.overflow();
  if (overflow != row.in_format.clamped) return "overflow of " + count_text(overflow, row.input.count);
  const double before = share(first.in_format.underflow, first), now = share(row.in_format.underflow, row);
  if (now >= 2 * before && now >= before + least_increase)
    return "underflow is " + share_text(now) + ", was " + share_text(before) + " at the first step";
  return "";
}

std::string arrow(const std::string& a, const std::string& b) { return a == b ? a : a + " -> " + b; }

std::string amax_text(const StatsRow& row) {
  return row.input.finite() == 0 || std::isnan(row.input.amax) ? "-" : digits_text(row.input.amax, 4);
}

const StatsRow* first_break(const Series& series) {
  const auto found =
      std::find_if(series.begin(), series.end(), [](const StatsRow* row) { return !row->breaks.empty(); });
  return found == series.end() ? nullptr : *found;
}

std::string step_text(const StatsRow& row) { return row.step ? std::to_string(*row.step) : row.file; }

// Rows of all steps, ascending. Sets `breaks` by the rules for runs without --fail-if. A row breaks where
//   NaN or Inf are in the data, or
//   values overflow in the format (what a block format clamps is rounded, not lost), or
//   the share that underflows is at least twice that of the first step and one in a hundred more of all values.
void find_breaks(std::vector<StatsRow>& rows) {
  for (const auto& places : group(rows))
    for (const std::size_t i : places) rows[i].breaks = reason(rows[places.front()], rows[i]);
}

// One line a tensor and format, those that break first on top; then one sentence: the first break, or that there is
// none.
std::string trend_text(const std::vector<StatsRow>& rows, bool colour) {
  std::vector<Series> all;
  for (const auto& places : group(rows)) {
    all.emplace_back();
    for (const std::size_t i : places) all.back().push_back(&rows[i]);
  }
  // Earliest break first, then the largest loss at the last step.
  const auto key = [](const Series& s) {
    const StatsRow* broken = first_break(s);
    const std::uint64_t step = broken == nullptr ? ~std::uint64_t{0} : broken->step.value_or(0);
    return std::pair(step, -share(s.back()->lost(), *s.back()));
  };
  std::stable_sort(all.begin(), all.end(), [&](const Series& a, const Series& b) { return key(a) < key(b); });

  constexpr Align l = Align::left, r = Align::right;
  TextTable table{{"tensor", "format", "steps", "amax", "underflow", "overflow", "SQNR dB", "breaks at"},
              {l, l, r, l, l, l, l, l},
              {}};
  for (const Series& s : all) {
    const StatsRow &a = *s.front(), &b = *s.back();
    const StatsRow* broken = first_break(s);
    const std::string when = broken == nullptr ? "-" : step_text(*broken) + ": " + broken->breaks;
    table.rows.push_back(
        {printable(a.name_in_run()), a.format, std::to_string(s.size()), arrow(amax_text(a), amax_text(b)),
         arrow(share_text(share(a.in_format.underflow, a)), share_text(share(b.in_format.underflow, b))),
         arrow(share_text(share(a.overflow(), a)), share_text(share(b.overflow(), b))),
         arrow(sqnr_text(a), sqnr_text(b)), TextCell{when, broken == nullptr ? when : paint(when, Colour::red, true)}});
  }
  std::string text = table.to_text(colour, 2);
  const StatsRow* broken = all.empty() ? nullptr : first_break(all.front());
  if (broken == nullptr) return text + "nothing breaks in these steps\n";
  return text + "first break: step " + step_text(*broken) + ", " + printable(broken->name_in_run()) + " in " +
         broken->format + ": " + broken->breaks + "\n";
}

std::string gate_text(const std::vector<StatsRow>& rows) {
  constexpr std::size_t most = 20;
  std::string text;
  std::size_t broken = 0;
  for (const StatsRow& row : rows) {
    if (row.breaks.empty() || ++broken > most) continue;
    text += "fails: " + printable(row.tensor) + " in " + row.format +
            (row.step && row.series.empty() ? " at step " + std::to_string(*row.step) : "") + ": " + row.breaks + "\n";
  }
  if (broken > most) text += "fails: " + std::to_string(broken - most) + " more\n";
  return text;
}

std::size_t parse_top(const Options& options) {
  if (!options.top) return ~std::size_t{0};
  constexpr narrow::Format any_word = narrow::operator""_fmt("fp64", 4);
  return blame("--top", [&] { return narrow::parse_code(*options.top, any_word); });
}

// What there is to do, found before the work: every file is looked at and opened again when its turn comes, because a
// run may have more dumps than a process may have open files. Standard input can be read once only.
struct Survey {
  std::vector<std::string> files;
  bool steps = false;  // of one run
  std::optional<ChosenFile> input;
  std::uint64_t bytes = 0, left_out = 0;
  struct Place {
    std::size_t file;
    std::string tensor;
    std::uint64_t bytes;
  };
  std::vector<Place> tensors;
};

// Files as they are asked for; those of the last few questions stay open.
class OpenFiles {
 public:
  struct File {
    ChosenFile chosen;
    std::vector<narrow::Tensor> tensors;
    std::unordered_map<std::string, const narrow::Tensor*> by_name;
  };

  OpenFiles(const Survey& s, const TensorOptions& choice) : survey_(s), choice_(choice) {}
  const File& operator[](std::size_t k) {
    constexpr std::size_t most = 16;
    if (const auto found = open_.find(k); found != open_.end()) return found->second;
    if (open_.size() == most) open_.clear();
    const std::string& name = survey_.files[k];
    const bool is_input = survey_.input && survey_.input->argument == name;
    File file{is_input ? *survey_.input : open_chosen(name, choice_), {}, {}};
    file.tensors = file.chosen.floating();
    for (const narrow::Tensor& tensor : file.tensors) file.by_name.emplace(tensor.name, &tensor);
    return open_.emplace(k, std::move(file)).first->second;
  }

 private:
  const Survey& survey_;
  const TensorOptions& choice_;
  std::map<std::size_t, File> open_;
};

Survey survey(const Options& options) {
  Survey s;
  s.files = by_first([&] { return expand_folders(options.files); });
  s.steps = have_steps(s.files);
  if (s.steps)
    std::stable_sort(s.files.begin(), s.files.end(),
                     [](const auto& a, const auto& b) { return step_of(a) < step_of(b); });
  std::map<std::string, std::size_t> files_with;  // by name of the tensor
  for (const std::string& file : s.files) {
    ChosenFile chosen = open_chosen(file, options.choice, file.rfind("-", 0) == 0);
    const std::vector<narrow::Tensor> tensors = chosen.floating();
    s.left_out += chosen.tensors.size() - tensors.size();
    s.bytes += bytes_of(tensors);
    for (const narrow::Tensor& tensor : tensors) {
      ++files_with[name_in_run(chosen, tensor)];
      s.tensors.push_back({static_cast<std::size_t>(&file - s.files.data()), tensor.name, tensor.bytes()});
    }
    if (file.rfind("-", 0) == 0) s.input = std::move(chosen);
  }
  // Numbers in the names of unlike files are no steps.
  s.steps =
      s.steps && std::any_of(files_with.begin(), files_with.end(), [](const auto& entry) { return entry.second > 1; });
  return s;
}

std::vector<StatsRow> measure_files(const Options& options, const Request& request, const Survey& s,
                                    const std::optional<FailIf>& gate, std::string& left_out) {
  Progress progress("stats", passes_over(request) * s.bytes);
  const auto pass = [&](narrow::PieceLog* log) {
    return narrow::TensorPass{request.seed, 0, [&](std::uint64_t bytes) { progress.add(bytes); }, log};
  };
  OpenFiles files(s, options.choice);
  std::vector<std::vector<narrow::ScaledCast>> casts(s.files.size());  // of --total: one scale for a whole file
  std::vector<std::string> said(s.files.size());
  const auto note = [&](std::size_t k) -> const OpenFiles::File& {
    const OpenFiles::File& file = files[k];
    said[k] = left_out_text(file.chosen);
    return file;
  };
  if (request.total && request.scale) std::fill(casts.begin(), casts.end(), with_scales(request, {}, {}));
  if (request.total && !request.scale) {
    std::vector<narrow::cluster::Item> items;
    for (const std::string& file : s.files) items.push_back({0, narrow::quote(file)});
    for (const Survey::Place& p : s.tensors) items[p.file].weight += p.bytes;
    narrow::cluster::share_items(crew(), items, [&](std::size_t k, narrow::PieceLog* log) {
      casts[k] = with_scales(request, note(k).tensors, pass(log));
    });
  }
  std::vector<std::uint64_t> bytes;
  for (const Survey::Place& p : s.tensors) bytes.push_back(p.bytes);
  std::vector<std::optional<Measured>> found(s.tensors.size());
  std::vector<std::string> names(s.tensors.size());
  const auto name = [&](std::size_t i) {
    return narrow::quote(s.tensors[i].tensor) + " of " + narrow::quote(s.files[s.tensors[i].file]);
  };
  share_tensors(bytes, name, [&](std::size_t i, narrow::PieceLog* log) {
    const OpenFiles::File& file = note(s.tensors[i].file);
    const auto place = file.by_name.find(s.tensors[i].tensor);
    if (place == file.by_name.end()) return;  // damaged, as a closer look found: it is left out
    const narrow::Tensor& tensor = *place->second;
    names[i] = s.steps ? name_in_run(file.chosen, tensor) : tensor.name;
    found[i] =
        measure(request, tensor,
                request.total ? casts[s.tensors[i].file] : with_scales(request, {&tensor, 1}, pass(log)), pass(log));
  });

  std::vector<StatsRow> rows;
  const auto add = [&](std::size_t file, const Measured& m, const std::string& tensor) {
    std::vector<StatsRow> group = to_rows(request, m, s.files[file], tensor);
    for (StatsRow& row : group)
      if (s.steps) row.step = step_of(s.files[file]);
    if (gate) gate->check(group);
    rows.insert(rows.end(), group.begin(), group.end());
  };
  for (std::size_t i = 0; i < found.size();) {
    const std::size_t file = s.tensors[i].file;
    Measured all;
    std::size_t count = 0;
    for (; i < found.size() && s.tensors[i].file == file; ++i) {
      if (!found[i]) continue;
      ++count;
      if (request.total) all.merge(*found[i]);
      else add(file, *found[i], names[i]);
      found[i].reset();
    }
    if (request.total) add(file, all, "all " + std::to_string(count) + " tensors");
    left_out += said[file];
  }
  if (s.steps && !gate) find_breaks(rows);
  return rows;
}

// The folder holds counts: whatever needs the values is refused.
std::vector<StatsRow> watched_run_rows(const Options& options, const Request& request, const ChosenRun& chosen,
                                       const std::optional<FailIf>& gate) {
  const std::string run = narrow::quote(chosen.run.folder()) + " holds counts of a watched run, not its values";
  if (!request.blocks.empty()) throw narrow::Error(run + ": " + narrow::quote(request.blocks[0].name) + " needs those");
  if (!options.cast.is_plain() || options.cast.random || options.cast.random_bits)
    throw narrow::Error(run +
                        ": they are of the plain cast; leave out --cast, --rounding, --overflow, --subnormals, "
                        "--seed and --random-bits");
  if (options.total) throw narrow::Error(run + ": errors of tensors do not add up; leave out --total");
  const int k = options.scale ? blame(run, [&] { return parse_scale_log2(*options.scale); }) : 0;
  std::vector<StatsRow> rows;
  for (std::vector<StatsRow>& group : watched_rows(chosen, request.names, request.casts, k)) {
    if (gate) gate->check(group);
    rows.insert(rows.end(), group.begin(), group.end());
  }
  if (chosen.several_steps && !gate) find_breaks(rows);
  return rows;
}

void show(const std::vector<StatsRow>& rows, std::size_t top, const Request& request, const Survey& s) {
  if (s.steps) return print(trend_text(rows, use_colour(1)));
  const std::vector<StatsRow> shown(rows.begin(),
                                    rows.begin() + static_cast<std::ptrdiff_t>(std::min(top, rows.size())));
  print(stats_table(shown, s.files.size() > 1).to_text(use_colour(1)));
  if (shown.size() < rows.size()) print("(" + std::to_string(rows.size() - shown.size()) + " more rows)\n");
  const auto overflowed = [](const StatsRow& row) { return row.overflow() != row.in_format.clamped; };
  if (std::any_of(shown.begin(), shown.end(), overflowed))
    print("SQNR -: undefined, a finite value overflowed or became NaN, or none but zeros is finite\n");
  if (!request.blocks.empty()) print("\nscales of the blocks\n" + block_scale_table(shown).to_text(use_colour(1), 2));
  if (!request.scale)
    print(
        std::string("scale: of the powers of two without overflow the one ") +
        (request.goal == narrow::ScaleGoal::best_sqnr ? "with the largest SQNR" : "that loses fewest values to zero") +
        ", of equal ones the closest to 1" +
        (std::any_of(shown.begin(), shown.end(), overflowed) ? "; no power of two avoids the overflow shown" : "") +
        "\n");
  if (s.left_out != 0)
    print("left out: " + std::to_string(s.left_out) + (s.left_out == 1 ? " tensor" : " tensors") +
          " without floating numbers\n");
}

int run(const Options& given) {
  Options options = given;
  if (options.files.empty())
    throw narrow::Error("stats: no file; for example: narrow stats grads.safetensors --formats fp16,bf16,e4m3,e5m2");
  const std::optional<std::string> folder = run_folder_of(options.files);
  std::optional<ChosenRun> watched;
  if (folder) watched.emplace(open_run(*folder, options.choice));
  if (watched && !options.formats && !watched->run.formats().empty()) options.formats = format_names(watched->run);
  const Request request = read_request(options);
  std::optional<FailIf> gate;
  if (options.fail_if) gate.emplace(*options.fail_if, request.names);
  const std::string key = options.sort.value_or("lost");
  std::vector<StatsRow> none;
  sort_rows(none, key);  // a wrong key is said before the work
  const std::size_t top = parse_top(options);

  const Survey s = watched ? Survey{{*folder}, watched->several_steps, {}, 0, 0, {}} : survey(options);
  std::string left_out;
  std::vector<StatsRow> rows =
      watched ? watched_run_rows(options, request, *watched, gate) : measure_files(options, request, s, gate, left_out);
  if (watched) print_error(watched->about);
  if (!s.steps) sort_rows(rows, key);
  const bool any_breaks =
      std::any_of(rows.begin(), rows.end(), [](const StatsRow& row) { return !row.breaks.empty(); });
  const bool failed = gate && (any_breaks || !left_out.empty());  // nobody knows what is in those
  if (options.csv) write_file(*options.csv, stats_csv(rows));
  if (options.json) print(json_text(stats_json(rows)));
  else show(rows, top, request, s);
  // JSON stays JSON: what failed goes to standard error then.
  if (failed) options.json ? print_error(gate_text(rows)) : print(gate_text(rows));
  if (!left_out.empty())
    print_error(left_out + (gate ? "fails: a gate passes nothing that was not read; --tensors leaves it out\n" : ""));
  return failed ? 1 : 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values(
      "FILE", options->files,
      "tensor files, FILE:TENSOR, folders, or -; several whose names hold step numbers give a trend; or the "
      "folder of a run that narrow.torch.watch wrote: its last step, or what --tensors takes of all (a trend)");
  arguments.option("--formats", options->formats, "LIST",
                   "comma list of formats, or all (default fp16,bf16,e4m3,e5m2); also block formats: mxfp8_e4m3,nvfp4");
  arguments.option("--scale", options->scale, "S",
                   "multiply the data first: a number, 2^k, auto (the 2^k that loses fewest values to zero, of those "
                   "at which nothing "
                   "overflows; of equal ones the closest to 1), or best-sqnr (the same for the largest SQNR)");
  options->choice.declare(arguments);
  arguments.flag("--per-tensor", options->per_tensor, "a row a tensor and format (default)");
  arguments.flag("--total", options->total, "all tensors of a file together");
  arguments.option("--sort", options->sort, "KEY",
                   "worst first, undefined before all, by: lost (default), name, or a key of the JSON");
  arguments.option("--top", options->top, "N", "show the worst N rows only");
  arguments.option(
      "--fail-if", options->fail_if, "EXPR",
      "exit 1 when true for a tensor: 'underflow > 1% or fp16.overflow > 0'; % of all elements; undefined fails");
  options->cast.declare_for_arrays(arguments);
  arguments.flag("--json", options->json, "print JSON");
  arguments.option("--csv", options->csv, "FILE", "write the rows as CSV too");
  return [options] { return run(*options); };
}

}  // namespace of_stats

const Command stats_command{
    "stats", "what formats do to tensors: underflow, subnormal, overflow, SQNR, MSE, amax",
    "narrow stats grads.safetensors --formats fp16,bf16,e4m3,e5m2 --fail-if 'underflow > 1%'", of_stats::declare,
    "For every tensor and format: how many values become zero (underflow), lose bits as subnormals, overflow, "
    "and what the rounding costs (SQNR, MSE). SQNR and MSE are undefined (-, null) once a finite value "
    "overflowed. --scale multiplies first, as a loss scale does: auto finds the power of two that loses the "
    "fewest values to zero among those at which nothing overflows, best-sqnr the one with the largest SQNR.\n\n"
    "--fail-if is a gate for CI: exit 1 names tensor, format and step; an undefined figure fails it. Over a "
    "folder of dumps by step the trend of each tensor is shown; of a folder that narrow.torch.watch wrote the "
    "last step, and with --tensors every step of those."};

}  // namespace app
