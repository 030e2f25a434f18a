// narrow histogram: how often each binade occurs in tensors: CSV, JSON, or a picture in text beside the ranges of
// formats.
#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/command.hpp"
#include "cli/crew.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/plot/draw.hpp"
#include "narrow/report/escape.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/text/quote.hpp"
#include "options/format_list.hpp"
#include "options/number_option.hpp"
#include "options/run_choice.hpp"
#include "options/tensor_choice.hpp"
#include "options/tensor_text.hpp"
#include "tensors/histogram_plot.hpp"

namespace app {
namespace of_histogram {

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> formats, scale, output;
  TensorOptions choice;
  bool total = false, per_tensor = false, text = false, json = false;
};

struct Counted {
  std::string file, tensor;
  narrow::BinadeCounts counts;
  std::vector<narrow::BinadeFates> fates;  // of the formats that are drawn, plain ones first
  std::string times = {};                  // "2^16": what the values were multiplied by; empty: by nothing
};

// What a picture shows of each binade needs a second look at the data, by format.
struct Fated {
  std::vector<ChosenFormat> plain;
  std::vector<ChosenBlockFormat> blocks;
};

// Calls row(exponent as JSON, counts) for all that occurs, ascending: zero, subnormal, the binades, inf, nan.
template <class Body>
void for_each_row(const narrow::BinadeCounts& counts, const Body& row) {
  const auto add = [&](const Json& exponent, const narrow::SignCounts& c) {
    if (c.total() != 0) row(exponent, c);
  };
  add("zero", counts.zero);
  add("subnormal", counts.subnormal);
  for (std::size_t k = 0; k < counts.binades.size(); ++k)
    add(counts.min_exponent + static_cast<int>(k), counts.binades[k]);
  add("inf", counts.inf);
  add("nan", counts.nan);
}

Json to_json(const std::vector<Counted>& all) {
  Json list = Json::array();
  for (const Counted& c : all)
    for_each_row(c.counts, [&](const Json& exponent, const narrow::SignCounts& counts) {
      Json row = Json::object();
      row["tensor"] = c.tensor;
      row["exponent"] = exponent;
      row["negative"] = counts.negative;
      row["positive"] = counts.positive;
      row["file"] = c.file;
      list.push_back(std::move(row));
    });
  return list;
}

// for_eyes: it goes to a terminal or a pipe, and names are visible() there; a file has them as they are.
std::string to_csv(const std::vector<Counted>& all, bool for_eyes) {
  const auto name = [&](const std::string& text) { return narrow::report::csv_field(for_eyes ? printable(text) : text); };
  std::string out = "file,tensor,exponent,negative,positive\n";
  for (const Counted& c : all)
    for_each_row(c.counts, [&](const Json& exponent, const narrow::SignCounts& counts) {
      out += name(c.file) + "," + name(c.tensor) + "," +
             (exponent.is_string() ? exponent.get<std::string>() : exponent.dump()) + "," +
             std::to_string(counts.negative) + "," + std::to_string(counts.positive) + "\n";
    });
  return out;
}

std::vector<Counted> count_all(const std::vector<ChosenFile>& files, double scale, const Options& options,
                               const Fated& fated) {
  const std::string times = options.scale.value_or("");
  std::uint64_t bytes = 0, passes = 1 + fated.plain.size();
  for (const ChosenBlockFormat& f : fated.blocks) passes += f.format.needs_tensor_amax() ? 2 : 1;
  for (const ChosenFile& file : files) bytes += bytes_of(file.floating());
  Progress progress("histogram", bytes * passes);
  std::vector<std::pair<const ChosenFile*, narrow::Tensor>> tensors;
  std::vector<std::uint64_t> sizes;
  for (const ChosenFile& file : files)
    for (const narrow::Tensor& tensor : file.floating()) {
      tensors.emplace_back(&file, tensor);
      sizes.push_back(tensor.bytes());
    }
  std::vector<Counted> all(tensors.size());
  const auto name = [&](std::size_t i) {
    return narrow::quote(tensors[i].second.name) + " of " + narrow::quote(tensors[i].first->argument);
  };
  share_tensors(sizes, name, [&](std::size_t i, narrow::PieceLog* log) {
    const auto& [file, tensor] = tensors[i];
    const narrow::TensorPass pass{0, 0, [&](std::uint64_t done) { progress.add(done); }, log};
    Counted one{file->argument, tensor.name, narrow::tensor_histogram(tensor, scale, pass), {}, times};
    for (const ChosenFormat& f : fated.plain)
      one.fates.push_back(narrow::tensor_fates(tensor, {f.format}, scale, pass));
    for (const ChosenBlockFormat& f : fated.blocks)
      one.fates.push_back(narrow::block_tensor_statistics(tensor, f.format, scale, pass.done, true, log).fates);
    all[i] = std::move(one);
  });
  if (!options.total) return all;
  std::vector<Counted> sums;
  for (std::size_t i = 0; i < all.size();) {
    const ChosenFile* file = tensors[i].first;
    Counted sum{file->argument, "", {}, {}, times};
    sum.fates.resize(fated.plain.size() + fated.blocks.size());
    const std::size_t first = i;
    for (; i < all.size() && tensors[i].first == file; ++i) {
      sum.counts.merge(all[i].counts);
      for (std::size_t k = 0; k < sum.fates.size(); ++k) sum.fates[k].merge(all[i].fates[k]);
    }
    sum.tensor = "all " + std::to_string(i - first) + " tensors";
    sums.push_back(std::move(sum));
  }
  return sums;
}

// The same from counts: a block format needs the values.
std::vector<Counted> counts_of(const ChosenRun& chosen, const Options& options, const Fated& fated) {
  if (!fated.blocks.empty())
    throw narrow::Error(narrow::quote(chosen.run.folder()) + " holds counts of a watched run, not its values: " +
                        narrow::quote(fated.blocks[0].name) + " needs those");
  const int k = options.scale ? parse_scale_log2(*options.scale) : 0;
  const std::string whole = "all " + std::to_string(chosen.tensors.size()) + " tensors";
  std::vector<Counted> all;
  for (const narrow::WatchedTensor& t : chosen.tensors) {
    const double scale = std::ldexp(t.scale, k);
    Counted one{chosen.run.folder(),
                options.total ? whole : t.label(),
                narrow::to_binade_counts(scaled_histogram(t, k)),
                {},
                scale == 1 ? "" : scale_text(scale)};
    for (const ChosenFormat& f : fated.plain) one.fates.push_back(watched_fates(chosen.run, t, f.name, f.format, k));
    if (!options.total || all.empty()) {
      all.push_back(std::move(one));
      continue;
    }
    all[0].counts.merge(one.counts);
    for (std::size_t i = 0; i < one.fates.size(); ++i) all[0].fates[i].merge(one.fates[i]);
    if (all[0].times != one.times) all[0].times = "their loss scales";
  }
  return all;
}

narrow::plot::PictureKind kind_of(const std::string& path) {
  return path.ends_with(".png") ? narrow::plot::PictureKind::png : narrow::plot::PictureKind::svg;
}

void check_output(const Options& options) {
  if (!options.output) return;
  const std::string& path = *options.output;
  const auto ends = [&](const char* ending) { return path.size() >= 4 && path.ends_with(ending); };
  if (!ends(".csv") && !ends(".png") && !ends(".svg"))
    throw narrow::Error("-o " + narrow::quote(path) + ": the ending says what to write; accepted: .csv, .png, .svg");
  // Before the files are read: what cannot be drawn should not be counted first.
  if (!ends(".csv"))
    if (const std::string fault = narrow::plot::why_not(kind_of(path)); !fault.empty())
      throw narrow::Error("-o " + narrow::quote(path) + ": " + fault + "; a .csv file needs nothing");
}

// A few tensors are drawn side by side; many are pooled, unless each is asked for.
constexpr std::size_t most_side_by_side = 6;

std::string picture_of(const std::string& path, const std::vector<Counted>& all, const Fated& formats,
                       const Options& options) {
  if (all.empty()) throw narrow::Error("histogram: there is no tensor to draw");
  std::vector<NamedCounts> named;
  for (const Counted& c : all) named.push_back({c.tensor, c.counts, c.fates});
  std::vector<PlotFormat> shown;
  for (const ChosenFormat& f : formats.plain) shown.push_back({f.name, f.format});
  for (const ChosenBlockFormat& f : formats.blocks) shown.push_back({f.name, {}});
  if (options.per_tensor && all.size() > most_panel_rows)
    throw narrow::Error("histogram: --per-tensor draws " + std::to_string(most_panel_rows) + " tensors at most, not " +
                        std::to_string(all.size()) + "; choose some with --tensors");
  const bool pooled = all.size() > 1 && !options.per_tensor && all.size() > most_side_by_side;
  const std::string& first = options.files[0];
  const std::string files = options.files.size() > 1 ? std::to_string(options.files.size()) + " files"
                                                     : printable(first.substr(first.find_last_of('/') + 1));
  const std::string tensors = all.size() == 1 ? printable(all[0].tensor) : std::to_string(all.size()) + " tensors";
  const bool same = std::all_of(all.begin(), all.end(), [&](const Counted& c) { return c.times == all[0].times; });
  const std::string times = same ? all[0].times : "their loss scales";
  const narrow::report::Plot plot =
      histogram_plot(named, shown, pooled,
                     tensors + (pooled ? " pooled of " : " of ") + files + (times.empty() ? "" : ", times " + times) +
                         (pooled ? " (--per-tensor draws each)" : ""));
  return narrow::plot::draw(plot, kind_of(path));
}

struct BlockColumn {
  std::string name;
  narrow::BinadeFates fates;
};

struct Row {
  std::string label;
  std::uint64_t count;
  std::vector<char> marks;  // one a format
};

char mark(const narrow::Format& f, int exponent) {
  if (exponent > f.max_exponent()) return ' ';
  // Integers and formats without subnormals have one kind of values down to the smallest.
  const int first_normal = f.is_integer() ? f.min_quantum_exponent() : f.min_exponent();
  if (exponent >= first_normal) return '#';
  return f.has_subnormals() && exponent >= f.min_quantum_exponent() ? ':' : ' ';
}

char mark(const narrow::BinadeFates& fates, int exponent) {
  const int k = exponent - fates.min_exponent + 1;
  if (k < 0 || static_cast<std::size_t>(k) >= fates.binades.size()) return ' ';
  const narrow::Fates& f = fates.binades[static_cast<std::size_t>(k)];
  const auto most = static_cast<narrow::Fate>(std::max_element(f.of.begin(), f.of.end()) - f.of.begin());
  return f.total() == 0 ? ' ' : most == narrow::Fate::normal ? '#' : most == narrow::Fate::subnormal ? ':' : ' ';
}

std::vector<Row> rows_of(const narrow::BinadeCounts& counts, const std::vector<ChosenFormat>& formats,
                         const std::vector<BlockColumn>& blocks) {
  std::vector<Row> rows;
  const std::vector<char> blank(formats.size() + blocks.size(), ' ');
  const auto special = [&](const char* label, const narrow::SignCounts& c) {
    if (c.total() != 0) rows.push_back({label, c.total(), blank});
  };
  special("NaN", counts.nan);
  special("Inf", counts.inf);
  const auto occupied = [](const narrow::SignCounts& c) { return c.total() != 0; };
  const auto first = std::find_if(counts.binades.begin(), counts.binades.end(), occupied);
  const auto last = std::find_if(counts.binades.rbegin(), counts.binades.rend(), occupied).base();
  constexpr std::ptrdiff_t longest_gap = 12;  // doubles may be a thousand binades apart
  for (auto at = last; at != counts.binades.begin() && first < at;) {
    --at;
    const auto below = std::find_if(std::make_reverse_iterator(at + 1), counts.binades.rend(), occupied).base();
    if (at + 1 - below > longest_gap) {
      rows.push_back({"...", 0, blank});
      at = below;
      continue;
    }
    const int exponent = counts.min_exponent + static_cast<int>(at - counts.binades.begin());
    Row row{"2^" + std::to_string(exponent), at->total(), {}};
    for (const ChosenFormat& f : formats) row.marks.push_back(mark(f.format, exponent));
    for (const BlockColumn& b : blocks) row.marks.push_back(mark(b.fates, exponent));
    rows.push_back(std::move(row));
  }
  special("subnormal", counts.subnormal);
  special("zero", counts.zero);
  return rows;
}

std::string left_padded(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

// A picture in text, with the ranges of formats as rulers beside it:
//   2^-3   12345 ( 4.1%)  #########        # #
//   2^-14     12 (0.01%)  #                # :     # normal values of a format, : its subnormals
// A block format has what most values of the binade become. Largest exponent on top; zero, subnormals, Inf and NaN
// where there are any. width: columns, 0 for unlimited (100).
std::string bar_chart(const narrow::BinadeCounts& counts, const std::vector<ChosenFormat>& formats,
                      const std::vector<BlockColumn>& blocks, int width, bool colour) {
  const std::vector<Row> rows = rows_of(counts, formats, blocks);
  std::vector<std::string> names;
  for (const ChosenFormat& f : formats) names.push_back(f.name);
  for (const BlockColumn& b : blocks) names.push_back(b.name);
  if (rows.empty()) return "  (no values)\n";
  const std::uint64_t whole = counts.count();
  std::size_t label = 0, number = 0, rulers = 0;
  std::uint64_t most = 1;
  for (const Row& row : rows) {
    label = std::max(label, row.label.size());
    number = std::max(number, count_text(row.count, whole).size());
    most = std::max(most, row.count);
  }
  for (const std::string& name : names) rulers += name.size() + 1;
  const auto room = static_cast<std::size_t>(width > 0 ? width : 100);
  const std::size_t used = 2 + label + 2 + number + 2 + rulers + 1;
  const std::size_t longest = std::clamp<std::size_t>(room - std::min(room, used), 10, 60);

  std::string out = "  " + std::string(label + 2 + number + 2 + longest + 1, ' ');
  for (const std::string& name : names) out += name + " ";
  while (!out.empty() && out.back() == ' ') out.pop_back();
  out += "\n";
  for (const Row& row : rows) {
    // Whatever is there shows at least one mark.
    const auto scaled = static_cast<std::size_t>(static_cast<double>(row.count) / static_cast<double>(most) *
                                                 static_cast<double>(longest));
    const std::size_t length = row.count == 0 ? 0 : std::max<std::size_t>(1, scaled);
    std::string line = "  " + left_padded(row.label, label) + "  " + left_padded(count_text(row.count, whole), number) +
                       "  " + paint(std::string(length, '='), Colour::green, colour) +
                       std::string(longest - length + 1, ' ');
    for (std::size_t k = 0; k < names.size(); ++k) {
      const std::size_t name = names[k].size(), before = (name - 1) / 2;
      const std::string one(1, row.marks[k]);
      line += std::string(before, ' ') + paint(one, row.marks[k] == ':' ? Colour::yellow : Colour::blue, colour) +
              std::string(name - before, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  out += "  # normal values of the format, : its subnormals";
  if (!blocks.empty()) out += "; of a block format what most values of the binade become";
  out += "\n";
  return out;
}

int run(const Options& options) {
  if (options.files.empty())
    throw narrow::Error("histogram: no file; for example: narrow histogram grads.safetensors -o counts.csv");
  check_output(options);
  if (options.total && options.per_tensor)
    throw narrow::Error("histogram: --total and --per-tensor exclude each other");
  const std::optional<std::string> folder = run_folder_of(options.files);
  std::optional<ChosenRun> watched;
  if (folder) watched.emplace(open_run(*folder, options.choice));
  const bool has_formats = watched && !watched->run.formats().empty();
  const std::string list = options.formats.value_or(has_formats ? format_names(watched->run) : "fp16,bf16,e4m3,e5m2");
  const FormatLists formats = blame("--formats", [&] { return parse_format_lists(list); });
  const bool draws = options.output && !options.output->ends_with(".csv"), bars = options.text || is_terminal(1);
  Fated fated;
  if (draws) fated.plain = formats.plain;
  if (draws || (bars && !options.json)) fated.blocks = formats.blocks;
  const double scale = options.scale ? parse_scale(*options.scale) : 1;
  std::vector<ChosenFile> files;
  if (!watched)
    for (const std::string& file : by_first([&] { return expand_folders(options.files); }))
      files.push_back(open_chosen(file, options.choice));
  const std::vector<Counted> all =
      watched ? counts_of(*watched, options, fated) : count_all(files, scale, options, fated);
  for (const ChosenFile& file : files) print_error(left_out_text(file));
  if (watched) print_error(watched->about);

  if (options.output && speaks())
    write_file(*options.output, draws ? picture_of(*options.output, all, fated, options) : to_csv(all, false));
  if (options.json) {
    print(json_text(to_json(all)));
  } else if (bars) {
    const bool colour = use_colour(1);
    for (const Counted& c : all) {
      if (&c != &all.front()) print("\n");
      print(paint(printable(c.tensor), Colour::bold, colour) + (files.size() > 1 ? " in " + printable(c.file) : "") +
            ": " + std::to_string(c.counts.count()) + (c.counts.count() == 1 ? " value" : " values") +
            (c.times.empty() ? "" : ", times " + c.times) + "\n");
      std::vector<BlockColumn> blocks;
      for (std::size_t k = 0; k < fated.blocks.size(); ++k)
        blocks.push_back({fated.blocks[k].name, c.fates[fated.plain.size() + k]});
      print(bar_chart(c.counts, formats.plain, blocks, terminal_width(1), colour));
    }
  } else if (!options.output) {
    print(to_csv(all, true));
  }
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values(
      "FILE", options->files,
      "tensor files, FILE:TENSOR, folders, or -; or the folder of a run that narrow.torch.watch wrote: its last "
      "step, or what --tensors takes of all");
  arguments.option("--formats", options->formats, "LIST",
                   "the ranges drawn beside the bars, and a panel each with colours by what it makes of the values "
                   "(default fp16,bf16,e4m3,e5m2); also block formats");
  arguments.option("--scale", options->scale, "S", "multiply the data first: a positive number or 2^k");
  options->choice.declare(arguments);
  arguments.flag("--total", options->total, "all tensors of a file together");
  arguments.flag("--per-tensor", options->per_tensor,
                 "a picture has a row of panels for each tensor, up to 64 (else more than 6 are pooled)");
  arguments.option("-o,--output", options->output, "FILE",
                   "write the counts to this .csv file, or draw them: .png, .svg");
  arguments.flag("--text", options->text, "the picture, also where standard output is no terminal");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_histogram

const Command histogram_command{
    "histogram", "binades of tensors over the ranges of formats: a picture, CSV, or bars in text",
    "narrow histogram grads.safetensors --tensors attn -o binades.svg", of_histogram::declare,
    "The magnitude of a value falls into a binade, [2^k, 2^(k+1)). The bars are drawn over the ranges of "
    "formats, in a panel each, coloured by what becomes of the values: zero, subnormal, normal, overflow. What "
    "any format loses at any power-of-two scale can be read off."};

}  // namespace app
