// Does a transformer block that a GPU ran follow from arithmetic alone, and what does one operation, computed
// otherwise, change of it?
#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>

#include "analysis/framework/experiment.hpp"
#include "analysis/recordings/inputs.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/golden/product_inputs.hpp"
#include "narrow/text/quote.hpp"

namespace analysis::of_gpu_block {
namespace {

using namespace narrow;
using enum PlotColour;

constexpr std::size_t width = 768, heads = 12, recorded_tokens = 1024;
constexpr std::size_t first_codes = 8;  // of each stage, which the recording has beside the hash

using Codes = std::vector<std::uint16_t>;

struct Recorded {
  std::uint64_t hash = 0;
  Codes first;
};

std::optional<std::uint64_t> hex_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::vector<std::string_view> cells_of(std::string_view line, char separator) {
  std::vector<std::string_view> cells;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(separator, at), line.size());
    cells.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return cells;
}

// Stages of one block by name; none where the block is not there.
std::map<std::string, Recorded> read_recorded(const std::string& path, const std::string& type,
                                              const std::string& kernel, const std::string& seed) {
  std::map<std::string, Recorded> stages;
  std::ifstream file(path);
  bool is_table = false;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string_view> cells = cells_of(line, '\t');
    is_table = is_table || line.starts_with("model\ttype\tattention\tseed\tstage\tshape\thash\tfirst\t");
    if (cells.size() != 9 || cells[0] != "gpt_block" || cells[1] != type || cells[2] != kernel || cells[3] != seed)
      continue;
    Recorded stage;
    const std::optional<std::uint64_t> hash = hex_of(cells[6]);
    if (!hash) throw Error(path + ": " + quote(cells[6].substr(0, 20)) + " is no hash");
    stage.hash = *hash;
    for (const std::string_view code : cells_of(cells[7], ' ')) {
      const std::optional<std::uint64_t> value = hex_of(code);
      if (code == "-") break;  // of weights there are none
      if (!value || *value > 0xFFFF) throw Error(path + ": " + quote(code.substr(0, 20)) + " is no code");
      stage.first.push_back(static_cast<std::uint16_t>(*value));
    }
    if (cells[7] != "-" && stage.first.size() != first_codes)
      throw Error(path + ": a stage has " + std::to_string(stage.first.size()) + " codes, not " +
                  std::to_string(first_codes));
    stages[std::string(cells[4])] = stage;
  }
  if (!is_table) throw Error(path + ": this is no table of recorded blocks");
  return stages;
}

// What is computed by its definition in double precision and rounded once, the rest as on the GPU.
struct Change {
  const char* name;
  GptArithmetic how;
  PlotColour colour;
};
std::vector<Change> changes(const std::string& kernel) {
  const auto with = [&](auto set) {
    GptArithmetic how{.attention = kernel};
    set(how);
    return how;
  };
  return {{"first norm", with([](GptArithmetic& h) { h.norm1 = "double"; }), blue},
          {"all products", with([](GptArithmetic& h) { h.product = "software.fma.f64"; }), vermilion},
          {"attention", with([](GptArithmetic& h) { h.attention = "double"; }), green},
          {"second norm", with([](GptArithmetic& h) { h.norm2 = "double"; }), orange},
          {"GELU", with([](GptArithmetic& h) { h.gelu = "double"; }), purple}};
}

std::size_t count_other(const Codes& x, const Codes& y) {
  std::size_t other = 0;
  for (std::size_t i = 0; i < x.size(); ++i) other += x[i] != y[i] ? 1 : 0;
  return other;
}

// What was compared with the recording.
struct Comparison {
  bool is_whole = false;  // by hashes; else the first codes of each stage
  std::size_t stages = 0, equal = 0, values = 0;
  std::string first_other;

  void add(const GptStage& stage, bool is_equal) {
    ++stages, equal += is_equal ? 1 : 0, values += is_whole ? stage.codes.size() : first_codes;
    if (!is_equal && first_other.empty()) first_other = stage.name;
  }
  std::string finding(const std::string& block, std::size_t all, bool has_recordings) const {
    const std::string count = count_text(static_cast<std::int64_t>(values)), of_all = " of " + std::to_string(all);
    if (!has_recordings) return "Without the recordings the prediction of " + block + " is compared with nothing";
    if (stages == 0) return "There is no recording of " + block + ", so its prediction is compared with nothing";
    if (equal < stages)
      return "Of " + block + " " + std::to_string(equal) + " of " + std::to_string(stages) +
             " recorded stages are predicted; '" + first_other + "' is the first that is not";
    if (stages < all)
      return "Of " + block + " only " + std::to_string(stages) + of_all +
             " stages are in the recording, and these are predicted as recorded";
    if (is_whole)
      return block + " is predicted from its seed bit for bit: all " + count + " values of " + std::to_string(stages) +
             " stages have the recorded hashes";
    return "Of " + block + " the recorded codes of the first token, " + count + " in " + std::to_string(stages) +
           " stages, are predicted bit for bit (that token sees no other, so attention is not tested; length=" +
           std::to_string(recorded_tokens) + " compares all of it)";
  }
};

Table stage_table() {
  return {"stages",
          "Every stage of the block, as recorded on the GPU and as computed here",
          {text_column("stage"), integer_column("values"), integer_column("compared"), text_column("as recorded?")},
          {},
          "compared: the hash of all values, or, of a shorter input, the codes of the first token that were recorded; "
          "nothing of the recording goes into the computation",
          {}};
}
Table change_table() {
  return {"changes",
          "One operation in double precision, rounded once; the rest as on the GPU",
          {text_column("changed"), text_column("stage"), integer_column("values"), integer_column("with other bits"),
           fixed_column("share", "%", 3)},
          {},
          "values of this stage whose bits are not those that the GPU's arithmetic gives",
          {}};
}

Comparison compare(const std::vector<GptStage>& stages, const std::map<std::string, Recorded>& recorded, bool is_whole,
                   Table& table) {
  Comparison comparison;
  comparison.is_whole = is_whole;
  for (const GptStage& stage : stages) {
    const auto found = recorded.find(stage.name);
    const auto values = static_cast<std::int64_t>(stage.codes.size());
    if (found == recorded.end()) {
      table.add({stage.name, values, Cell{}, std::string("not recorded")});
      continue;
    }
    const bool is_equal = is_whole
                              ? stage_hash(stage.codes) == found->second.hash
                              : std::equal(found->second.first.begin(), found->second.first.end(), stage.codes.begin());
    comparison.add(stage, is_equal);
    table.add({stage.name, values, is_whole ? values : static_cast<std::int64_t>(first_codes),
               std::string(is_equal ? "yes" : "no")});
  }
  return comparison;
}

// What each change does to every stage, in the table and the picture; in words what the first norm does.
std::string follow_changes(const GptBlock& block, const Codes& input, const std::string& kernel, Table& table,
                           Panel& panel, Progress& progress) {
  const std::vector<GptStage> as_gpu = run_gpt_block(block, input, {.attention = kernel});
  std::string words;
  const std::vector<Change> all = changes(kernel);
  for (std::size_t c = 0; c < all.size(); ++c) {
    progress.at(0.4 + 0.6 * static_cast<double>(c) / static_cast<double>(all.size()), all[c].name);
    const std::vector<GptStage> other = run_gpt_block(block, input, all[c].how);
    Series line{all[c].name, Draw::line_points, {}, {}, {}, {}, {}, all[c].colour};
    for (std::size_t s = 0; s < other.size(); ++s) {
      const std::size_t values = other[s].codes.size(), changed = count_other(other[s].codes, as_gpu[s].codes);
      const double share = 100 * static_cast<double>(changed) / static_cast<double>(values);
      table.add({std::string(all[c].name), other[s].name, static_cast<std::int64_t>(values),
                 static_cast<std::int64_t>(changed), share});
      line.x.push_back(static_cast<double>(s + 1)), line.y.push_back(share);
    }
    if (c == 0)
      words = "with its first norm in double precision " +
              count_text(static_cast<std::int64_t>(count_other(other.front().codes, as_gpu.front().codes))) + " of " +
              count_text(static_cast<std::int64_t>(input.size())) + " values of " +
              std::to_string(input.size() / width) + " tokens change there and " + percent_text(line.y.back() / 100) +
              " at the end of the block";
    panel.series.push_back(std::move(line));
  }
  return words;
}

Outcome run(const Parameters& parameters, Progress& progress) {
  const std::string type = parameters.text("type"), kernel = parameters.text("kernel");
  const auto seed = static_cast<std::uint64_t>(parameters.integer("seed"));
  const auto tokens = static_cast<std::size_t>(parameters.integer("length"));
  const GptBlock block = recorded_gpt_block(find_format(type).value(), width, heads, seed);
  const Codes input = recorded_gpt_input(block, tokens, seed);
  Outcome out;
  const std::optional<std::string> path = find_data("golden/blocks.tsv");
  std::map<std::string, Recorded> recorded;
  if (path) recorded = read_recorded(*path, type, kernel, std::to_string(seed));
  else out.notes.push_back(no_recordings_note("the prediction is compared with nothing"));

  progress.at(0.05, "the block");
  const std::vector<GptStage> stages = run_gpt_block(block, input, {.attention = kernel});
  Table table = stage_table(), reach = change_table();
  const Comparison comparison = compare(stages, recorded, tokens == recorded_tokens, table);

  // What a change does shows in a few tokens: attention is causal and the rest works row by row.
  const std::size_t few = std::min<std::size_t>(tokens, parameters.by_effort<std::size_t>(64, 128, 1024));
  Panel panel;
  panel.x = {"stage", "", AxisScale::linear, 0.5, static_cast<double>(stages.size()) + 0.5, {}, {}};
  panel.y = {"values with other bits", "%", AxisScale::linear, 0.0, {}, {}, {}};
  const std::string of_norm =
      follow_changes(block, Codes(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(few * width)), kernel,
                     reach, panel, progress);

  const std::string name = "a GPT block in " + std::string(type == "bf16" ? "BF16" : "FP16") + " with " +
                           (kernel == "cudnn" ? "cuDNN's attention" : "FlashAttention-2") + " (seed " +
                           std::to_string(seed) + ") on an H200";
  out.finding = comparison.finding(name, stages.size(), path.has_value()) + "; " + of_norm + ".";
  if (out.finding[0] == 'a') out.finding[0] = 'A';
  std::string legend;
  for (std::size_t s = 0; s < stages.size(); ++s)
    legend += (s == 0 ? "" : ", ") + std::to_string(s + 1) + " " + stages[s].name;
  const char* title = "One operation in double precision: how far its bits reach through a block";
  out.plots = {{"reach", title, legend, {panel}, 1, 420, ""}};
  out.tables = {std::move(table), std::move(reach)};
  out.data = comparison.stages == 0 ? Source("a made block: weights and inputs of a seed")
                                    : recorded_text("a GPT block of PyTorch 2.11, 768 wide, 12 heads, 1,024 tokens");
  out.evidence = {{Evidence::measured, "Hopper's tensor cores and PyTorch's kernels"}};
  return out;
}

const Register entered([]() -> Experiment {
  return {"gpu_block",
          "Can a transformer block of a GPU be predicted bit for bit, and how far does one operation reach?",
          17,
          {choice_parameter("type", {"bf16", "fp16"}, "of weights and activations"),
           choice_parameter("kernel", {"cudnn", "flash2"}, "that computes attention"),
           integer_parameter("length", {64, 1024, 1024}, 2, 1024, "tokens; 1024 were recorded"),
           integer_parameter("seed", 1, 0, 1e15, "seed of weights and inputs; 1, 2 and 3 were recorded")},
          run};
});

}  // namespace
}  // namespace analysis::of_gpu_block
