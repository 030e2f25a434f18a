// narrow all-reduce: the gradients of several ranks added as a cluster adds them, against their exact sum.
#include <cmath>
#include <memory>

#include "cli/command.hpp"
#include "cli/crew.hpp"
#include "cli/explanation.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/base/random.hpp"
#include "narrow/cluster/reduce_error.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "narrow/text/quote.hpp"
#include "options/number_option.hpp"
#include "options/tensor_choice.hpp"
#include "options/tensor_text.hpp"
#include "training/train_options.hpp"

namespace app {
namespace of_all_reduce {

namespace cluster = narrow::cluster;

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> algorithm, format, ranks, elements, seed, steps, output;
  bool sum = false, feedback = false, json = false;
};

struct Gradients {
  std::vector<std::vector<float>> ranks;
  narrow::TensorHeader header;
  std::string what;  // for people
};

struct Result {
  cluster::Algorithm algorithm;
  cluster::ReduceError error;
  std::vector<float> last;
};

constexpr std::uint64_t most_numbers = std::uint64_t{1} << 28;

// Twelve uniform numbers of 16 bits, centred: a deviation of 1, and the same bits on every machine.
float normal(std::uint64_t seed, std::uint64_t index) {
  std::int64_t sum = 0;
  for (std::uint64_t word = 0; word < 3; ++word)
    for (std::uint64_t bits = narrow::random_bits(seed, 3 * index + word), i = 0; i < 4; ++i, bits >>= 16)
      sum += static_cast<std::int64_t>(bits & 0xFFFF);
  return static_cast<float>(sum - 6 * 0xFFFF) * 0x1p-16F;
}

Gradients draw(const Options& o) {
  const std::string default_ranks = crew() != nullptr ? std::to_string(crew()->size()) : "8";
  const std::uint64_t ranks = parse_count(o.ranks.value_or(default_ranks), "--ranks", 1, 65536);
  const std::uint64_t size = parse_count(o.elements.value_or("65536"), "--elements", 0, most_numbers);
  const std::uint64_t seed = parse_count(o.seed.value_or("1"), "--seed", 0, ~std::uint64_t{0});
  if (ranks * size > most_numbers)
    throw narrow::Error("--elements: " + std::to_string(size) + " on each of " + std::to_string(ranks) +
                        " ranks are more than 2^28 numbers in all");
  Gradients g{std::vector<std::vector<float>>(ranks, std::vector<float>(size)),
              {"all_reduce", *narrow::find_element_type("F32"), {size}},
              std::to_string(size) + " normal numbers on each of " + std::to_string(ranks) +
                  (ranks == 1 ? " rank" : " ranks") + " (seed " + std::to_string(seed) + ")"};
  for (std::uint64_t r = 0; r < ranks; ++r)
    for (std::uint64_t i = 0; i < size; ++i) g.ranks[r][i] = normal(narrow::random_bits(seed, r), i);
  return g;
}

Gradients read(const Options& o) {
  for (const auto& [given, flag] : {std::pair(&o.ranks, "--ranks"), {&o.elements, "--elements"}, {&o.seed, "--seed"}})
    if (*given) throw narrow::Error(std::string(flag) + ": is for numbers that are drawn; here each file is a rank");
  Gradients g;
  for (const std::string& file : o.files) {
    const std::vector<narrow::Tensor> tensors = open_chosen(file, {}).floating();
    if (tensors.size() != 1 || tensors[0].type.values() != 1)
      throw narrow::Error(narrow::quote_path(file) + ": " + std::to_string(tensors.size()) +
                          " floating tensors; a rank brings one of real numbers: FILE:TENSOR names it");
    const narrow::Tensor tensor = row_major(tensors[0]);
    if (g.ranks.empty())
      g.header = {tensor.name.empty() ? "all_reduce" : tensor.name, *narrow::find_element_type("F32"), tensor.shape};
    if (tensor.shape != g.header.shape)
      throw narrow::Error(narrow::quote_path(file) + ": has the shape " + shape_text(tensor.shape) +
                          ", the first file " + shape_text(g.header.shape) + "; ranks add tensors of one shape");
    read_values(tensor, 0, std::span(g.ranks.emplace_back(tensor.values())));
  }
  g.what = std::to_string(g.ranks[0].size()) + " numbers from each of " + std::to_string(g.ranks.size()) +
           (g.ranks.size() == 1 ? " file" : " files");
  return g;
}

// Ranks that are processes add their numbers themselves.
bool by_messages() { return crew() != nullptr && crew()->size() > 1; }

std::vector<cluster::Algorithm> choose(const Options& o) {
  if (o.algorithm != "all") {
    const auto one =
        parse_name<cluster::Algorithm>(o.algorithm.value_or("ring"), "--algorithm", cluster::algorithm_names);
    if (!by_messages()) blame("--algorithm", [&] { cluster::check_order(one); });
    return {one};
  }
  if (o.output) throw narrow::Error("--output: one result is written; name one --algorithm");
  std::vector<cluster::Algorithm> all;
  for (std::size_t i = 0; i < cluster::algorithm_count; ++i)
    if (cluster::algorithm_table[i].is_fixed || by_messages()) all.push_back(static_cast<cluster::Algorithm>(i));
  return all;
}

// The mean of the results of all steps is what the parameters have moved by; that of one step is the result.
Result reduce(const Gradients& g, const cluster::ReduceRequest& request, std::uint64_t steps, bool feedback,
              std::span<const cluster::ExactSum> exact) {
  const std::size_t size = g.ranks[0].size();
  std::vector<cluster::Feedback> lost(feedback ? g.ranks.size() : 0, cluster::Feedback(size));
  const auto all_reduce = [&] {
    if (!by_messages()) return cluster::all_reduce(g.ranks, request, lost);
    const std::size_t rank = crew()->rank();
    std::vector<float> own = g.ranks[rank];
    cluster::all_reduce(crew()->messages(), own, request, feedback ? std::span<float>(lost[rank]) : std::span<float>());
    return own;
  };
  std::vector<double> mean(size);
  Result result{request.algorithm, {}, {}};
  for (std::uint64_t step = 0; step < steps; ++step) {
    result.last = all_reduce();
    for (std::size_t i = 0; i < size; ++i) mean[i] += static_cast<double>(result.last[i]);
  }
  if (!speaks()) return result;
  for (double& x : mean) x /= static_cast<double>(steps);
  std::optional<narrow::Format> format;
  if (!request.wire.blocks && steps == 1) format = request.wire.format;
  result.error =
      cluster::reduce_error(exact, request.mean ? static_cast<std::uint32_t>(g.ranks.size()) : 1, mean, format);
  return result;
}

std::string number_cell(double x, int digits) { return std::isnan(x) ? "-" : digits_text(x, digits); }

std::string table_text(const std::vector<Result>& results, bool has_ulp, bool colour) {
  constexpr Align l = Align::left, r = Align::right;
  TextTable table{
      {"algorithm", "mean squared error", "SQNR dB", "not nearest", "max ulp", "overflow"}, {l, r, r, r, r, r}, {}};
  for (const Result& result : results) {
    const cluster::ReduceError& e = result.error;
    const double db = e.sqnr_db();
    table.rows.push_back({std::string(name_of(result.algorithm)), number_cell(e.mean_square, 4),
                          std::isinf(db)   ? "exact"
                          : std::isnan(db) ? "-"
                                           : decimal_text(db, 2),
                          has_ulp ? count_text(e.not_nearest, e.elements) : "-",
                          has_ulp ? std::to_string(e.max_ulp) : "-", count_text(e.overflow, e.elements)});
  }
  return table.to_text(colour, 2);
}

std::string text_of(const Gradients& g, const std::vector<Result>& results, const Options& o, bool has_ulp, bool colour,
                    std::uint64_t steps) {
  const std::string format = o.format.value_or("bf16"), word = o.sum ? "sum" : "mean";
  std::string text = g.what + ": their " + word + " in " + printable(format);
  if (steps > 1) text += ", the mean of " + std::to_string(steps) + " steps with the same numbers";
  text += o.feedback ? ", with error feedback\n" : "\n";
  for (const Result& result : results) {
    const std::string name(name_of(result.algorithm));
    text += "  " + wrapped(name + ": " + std::string(row_of(result.algorithm).order), 4) + "\n";
  }
  if (g.ranks.size() == 1) text += "  One rank sends nothing: its numbers stay as they are.\n";
  text += table_text(results, has_ulp, colour);
  if (has_ulp)
    text += "not nearest, max ulp: against the exact " + word + " rounded once to " + printable(format) + "\n";
  if (const std::uint64_t special = results[0].error.special; special > 0)
    text += "left out: " + count_text(special, special + results[0].error.elements) + " elements whose exact " + word +
            " is Inf or NaN\n";
  return text;
}

Json json_of(const Gradients& g, const std::vector<Result>& results, const Options& o, bool has_ulp,
             std::uint64_t steps) {
  Json out = Json::object();
  out["ranks"] = g.ranks.size();
  out["shape"] = g.header.shape;
  out["format"] = o.format.value_or("bf16");
  out["result"] = o.sum ? "sum" : "mean";
  out["steps"] = steps;
  out["error_feedback"] = o.feedback;
  out["special"] = results[0].error.special;
  Json list = Json::array();
  for (const Result& result : results) {
    const cluster::ReduceError& e = result.error;
    Json row = Json::object();
    row["algorithm"] = name_of(result.algorithm);
    row["order"] = row_of(result.algorithm).order;
    row["elements"] = e.elements;
    row["mse"] = std::isnan(e.mean_square) ? Json() : Json(e.mean_square);
    row["sqnr_db"] = std::isnan(e.sqnr_db()) ? Json() : json_number(e.sqnr_db());
    row["not_nearest"] = has_ulp ? Json(e.not_nearest) : Json();
    row["max_ulp"] = has_ulp ? Json(e.max_ulp) : Json();
    row["overflow"] = e.overflow;
    list.push_back(std::move(row));
  }
  out["algorithms"] = std::move(list);
  return out;
}

int run(const Options& o) {
  const std::vector<cluster::Algorithm> algorithms = choose(o);
  cluster::ReduceRequest request;
  request.mean = !o.sum;
  request.wire = blame("--format", [&] { return cluster::require_wire(o.format.value_or("bf16")); });
  const std::uint64_t steps = parse_count(o.steps.value_or(o.feedback ? "8" : "1"), "--steps", 1, 100000);
  const Gradients g = o.files.empty() ? draw(o) : read(o);
  if (by_messages() && g.ranks.size() != crew()->size())
    throw narrow::Error("all-reduce: " + std::to_string(g.ranks.size()) + " ranks in " +
                        std::to_string(crew()->size()) + " processes; as many of the one as of the other");
  std::vector<cluster::ExactSum> exact;  // the first rank says how far the result is from it
  if (speaks())
    exact = cluster::exact_sums(g.ranks.size(), g.ranks[0].size(),
                                cluster::read_rows([&](std::size_t rank) { return g.ranks[rank].data(); }));
  std::vector<Result> results;
  for (const cluster::Algorithm algorithm : algorithms) {
    request.algorithm = algorithm;
    results.push_back(reduce(g, request, steps, o.feedback, exact));
  }
  // One rank keeps its numbers, which need not be of the format.
  const bool has_ulp = !request.wire.blocks && steps == 1 && g.ranks.size() > 1;
  if (o.output && writes()) {
    narrow::TensorWriter writer(*o.output, {g.header});
    writer.write(std::as_bytes(std::span(results[0].last)));
    writer.finish();
  }
  print(o.json ? json_text(json_of(g, results, o, has_ulp, steps))
               : text_of(g, results, o, has_ulp, use_colour(1), steps));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  arguments.values("FILE", o->files,
                   "one for each rank: a file with one tensor, or FILE:TENSOR; none: numbers are drawn");
  arguments.option("--algorithm", o->algorithm, "NAME",
                   "ring, tree, recursive-doubling, fp32-once, linear or all (default ring)");
  arguments.option("--format", o->format, "FORMAT", "what is sent: bf16, e5m2, mxfp8_e5m2, ... (default bf16)");
  arguments.option("--ranks", o->ranks, "N", "without files: ranks (default 8)");
  arguments.option("--elements", o->elements, "N", "without files: normal numbers a rank (default 65536)");
  arguments.option("--seed", o->seed, "N", "without files: seed of the numbers (default 1)");
  arguments.flag("--sum", o->sum, "the sum; else the mean, each rank dividing before it sends");
  arguments.flag("--error-feedback", o->feedback,
                 "what a rank's own rounding lost is added to its next numbers, over --steps");
  arguments.option("--steps", o->steps, "N",
                   "the same numbers N times, and the mean of the results (default 1; with --error-feedback 8)");
  arguments.option("-o,--output", o->output, "FILE", ".npy or .safetensors: the result of the last step, as F32");
  arguments.flag("--json", o->json, "print JSON");
  return [o] { return run(*o); };
}

}  // namespace of_all_reduce

const Command all_reduce_command{
    "all-reduce", "the sum over ranks in the order and format of a cluster, against the exact one",
    "narrow all-reduce --algorithm all --format bf16 --ranks 64", of_all_reduce::declare,
    "What is sent is rounded to the format at every hop, in the order of the algorithm: a ring's chunks, a "
    "tree's pairs. Without files the numbers are normal; with files each is the gradient of a rank."};

}  // namespace app
