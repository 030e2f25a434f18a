// narrow memory: what a training step keeps in memory under precision recipes, on one device and shared by many.
#include "narrow/train/run/memory.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/number_text.hpp"
#include "cli/terminal.hpp"
#include "narrow/scale/scaler_table.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "training/train_options.hpp"

namespace app {
namespace of_memory {

namespace train = narrow::train;

struct Options {
  std::optional<std::string> parameters, recipes, devices, zero, sharding, group, recompute, optimiser, gradients;
  std::optional<std::string> layers, width, heads, context, vocabulary, feed_forward, batch, tokens, attention, memory;
  bool json = false;
};

struct Unit {
  std::string_view name;
  double size;
};
constexpr Unit count_units[] = {{"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}, {"", 1}};
constexpr Unit byte_units[] = {{"GiB", 0x1p30}, {"MiB", 0x1p20}, {"TiB", 0x1p40}, {"GB", 1e9},
                               {"MB", 1e6},     {"TB", 1e12},    {"B", 1},        {"", 1}};

// No product of two counts that the command takes leaves the range of double, nor do its integers lose digits that
// show.
constexpr double most_count = 1e15;

// A whole number of at least 1: 7e9, 7B, 6738415616; bytes as 80GB.
double parse_amount(const std::string& text, const char* flag, std::span<const Unit> units, double most = most_count) {
  const auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return text.ends_with(u.name); });
  double x = 0;
  try {
    x = narrow::parse_scale_number(text.substr(0, text.size() - unit->name.size())) * unit->size;
  } catch (const narrow::Error&) {  // no number, as any other that is not accepted
  }
  if (x >= 1 && x <= most && x == std::floor(x)) return x;
  throw narrow::Error(std::string(flag) + ": " + narrow::quote(text) + " is no whole number from 1 to " +
                      digits_text(most, 6) + ", such as " +
                      (units.data() == byte_units ? "80GB, 24GiB" : "4096, 7e9, 7B"));
}
double parse_amount(const std::optional<std::string>& text, const char* flag, double otherwise, double most) {
  return text ? parse_amount(*text, flag, count_units, most) : otherwise;
}

struct Request {
  double parameters = 0;
  std::optional<train::TransformerSizes> sizes;  // where it is known what activations there are
  double tokens = 0;                             // of the micro-batch of one device
  double devices = 1, group = 1;
  std::vector<int> stages;
  train::Recompute recompute = train::Recompute::none;
  train::OptimiserKind optimiser = train::OptimiserKind::adamw;
  std::optional<double> memory;  // bytes of one device
  std::vector<train::Recipe> recipes;
};

std::optional<train::TransformerSizes> choose_sizes(const Options& o) {
  const bool given = o.layers || o.width || o.heads || o.context || o.vocabulary || o.feed_forward;
  if (!given) {
    const char* flag = o.batch       ? "--batch"
                       : o.tokens    ? "--tokens"
                       : o.attention ? "--attention"
                       : o.recompute ? "--recompute"
                                     : nullptr;
    if (flag != nullptr)
      throw narrow::Error(std::string(flag) + ": is about activations, which need a shape: --layers and --width");
    return {};
  }
  if (!o.layers || !o.width) throw narrow::Error("memory: a shape needs --layers and --width");
  train::TransformerSizes m;
  m.layers = parse_amount(*o.layers, "--layers", count_units, 1e6);
  m.width = parse_amount(*o.width, "--width", count_units, 1e7);
  m.feed_forward = parse_amount(o.feed_forward, "--feed-forward", 4 * m.width, 1e8);
  m.heads = parse_amount(o.heads, "--heads", std::max(1.0, std::floor(m.width / 128)), 1e6);
  if (m.heads > m.width || std::fmod(m.width, m.heads) != 0)
    throw narrow::Error("--heads: " + digits_text(m.heads, 10) + " do not divide the width " +
                        digits_text(m.width, 10));
  m.context = parse_amount(o.context, "--context", m.context, 1e9);
  m.vocabulary = parse_amount(o.vocabulary, "--vocabulary", m.vocabulary, 1e9);
  m.fused_attention = !o.attention || parse_name<int, 2>(*o.attention, "--attention", {"fused", "plain"}) == 0;
  return m;
}

void choose_sharding(const Options& o, Request& r) {
  r.devices = parse_amount(o.devices, "--devices", 1, 1e9);
  r.group = parse_amount(o.group, "--group", r.devices, 1e9);
  if (r.group > r.devices || std::fmod(r.devices, r.group) != 0)
    throw narrow::Error("--group: " + narrow::quote(*o.group) + " does not divide the " + digits_text(r.devices, 10) +
                        " devices");
  if (o.zero && o.sharding) throw narrow::Error("memory: only one of --zero and --sharding");
  if (o.zero) {
    r.stages = {parse_name<int, 4>(*o.zero, "--zero", {"0", "1", "2", "3"})};
  } else if (o.sharding) {
    constexpr int stages[] = {0, 2, 3, 3};
    const int word =
        parse_name<int, 4>(*o.sharding, "--sharding", {"no_shard", "shard_grad_op", "full_shard", "hybrid_shard"});
    if (word == 3 && !o.group)
      throw narrow::Error("--sharding: hybrid_shard needs --group N, the devices that share one copy of the states");
    r.stages = {stages[word]};
  } else if (r.devices == 1) {
    r.stages = {0};
  } else {
    r.stages = {0, 1, 2, 3};
  }
}

Request plan(const Options& o) {
  Request r;
  r.sizes = choose_sizes(o);
  if (!o.parameters && !r.sizes)
    throw narrow::Error("memory: needs --parameters N (7e9, 7B) or a shape: --layers N --width N");
  r.parameters = o.parameters ? parse_amount(*o.parameters, "--parameters", count_units) : r.sizes->parameters();
  if (o.batch && o.tokens) throw narrow::Error("memory: only one of --batch and --tokens");
  if (r.sizes)
    r.tokens = o.tokens ? parse_amount(*o.tokens, "--tokens", count_units, 1e12)
                        : parse_amount(o.batch, "--batch", 1, 1e9) * r.sizes->context;
  choose_sharding(o, r);
  if (o.recompute) r.recompute = parse_name<train::Recompute>(*o.recompute, "--recompute", train::recompute_names);
  if (o.optimiser) r.optimiser = parse_optimiser(*o.optimiser);
  if (o.memory) r.memory = parse_amount(*o.memory, "--device-memory", byte_units);
  if (r.memory && *r.memory < 1e6)
    throw narrow::Error("--device-memory: " + narrow::quote(*o.memory) + " are bytes; for example 80GB");
  r.recipes = parse_recipe_list(o.recipes.value_or("fp32,bf16-amp,fp8-current,bf16-pure-kahan,bf16-pure"));
  // A framework's own settings name its optimiser; two that differ would need two tables.
  if (!o.optimiser)
    for (const train::Recipe& recipe : r.recipes)
      if (recipe.run.optimiser) {
        if (r.recipes.size() > 1 && recipe.run.optimiser->kind != train::OptimiserKind::adamw)
          throw narrow::Error("--recipe: " + recipe.name +
                              " has another optimiser than the others; ask for it alone, or "
                              "give --optimiser");
        r.optimiser = recipe.run.optimiser->kind;
      }
  if (o.gradients) {
    const narrow::Format format = blame("--gradients", [&] { return narrow::require_format(*o.gradients); });
    for (train::Recipe& recipe : r.recipes) recipe.policy.training.gradient_accumulation = {.format = format};
  }
  return r;
}

// One recipe at one stage.
struct Row {
  const train::Recipe* recipe;
  int stage;
  train::ParameterBytes bytes;        // of all parameters, on one device
  std::optional<double> activations;  // on one device
  double total() const { return bytes.sum() + activations.value_or(0); }
};

std::vector<Row> rows_of(const Request& r) {
  std::vector<Row> rows;
  for (const train::Recipe& recipe : r.recipes)
    for (const int stage : r.stages) {
      train::ParameterBytes b = shard(parameter_bytes(recipe.policy, r.optimiser), stage, r.group);
      for (double* part : {&b.kept, &b.copy, &b.gradient, &b.moments, &b.compensation}) *part *= r.parameters;
      rows.push_back({&recipe, stage, b, {}});
      if (r.sizes) rows.back().activations = r.tokens * peak_activation_bytes(recipe.policy, *r.sizes, r.recompute);
    }
  return rows;
}

std::string bytes_text(double bytes) { return digits_text(bytes / 1e9, bytes < 100e9 ? 3 : 4); }
std::string count_text(double x) { return digits_text(x, 15); }

std::string fit_text(double bytes, double memory) {
  const double spare = memory - bytes;
  return spare >= 0 ? "yes, " + bytes_text(spare) + " spare" : "no, by " + bytes_text(-spare);
}

std::string heading(const Request& r) {
  std::string text = count_text(r.parameters) + " parameters";
  if (r.sizes) {
    const train::TransformerSizes& m = *r.sizes;
    text += ": " + count_text(m.layers) + " layers of width " + count_text(m.width) + ", feed-forward " +
            count_text(m.feed_forward) + ", " + count_text(m.heads) + " heads, vocabulary " + count_text(m.vocabulary) +
            ", context " + count_text(m.context);
  }
  text += r.optimiser == train::OptimiserKind::adamw ? "; AdamW" : "; SGD with momentum";
  text += "; " + count_text(r.devices) + (r.devices == 1 ? " device" : " devices");
  if (r.group != r.devices) text += ", states shared by groups of " + count_text(r.group);
  if (!r.sizes) return text + "\nGB (10^9 bytes) of a device:\n";
  return text + "\nGB (10^9 bytes) of a device with " + count_text(r.tokens) + " tokens, " +
         (r.sizes->fused_attention ? "fused" : "plain") + " attention, recompute " +
         std::string(train::recompute_names[static_cast<std::size_t>(r.recompute)]) + ":\n";
}

TextTable state_table(const Request& r, const std::vector<Row>& rows, bool colour) {
  constexpr Align right = Align::right;
  TextTable table{{"recipe", "ZeRO", "bytes/parameter", "parameters", "copy", "gradients", "moments", "compensation",
               "activations", "device", "all devices"},
              {Align::left, right, right, right, right, right, right, right, right, right, right},
              {}};
  if (r.memory) {
    table.header.push_back((r.sizes ? "fits " : "states fit ") + bytes_text(*r.memory) + " GB");
    table.align.push_back(Align::left);
  }
  for (const Row& row : rows) {
    const std::string& name = row.recipe->name;
    table.rows.push_back({{name, paint(name, Colour::bold, colour)},
                          std::to_string(row.stage),
                          digits_text(row.bytes.sum() / r.parameters, 4),
                          bytes_text(row.bytes.kept),
                          bytes_text(row.bytes.copy),
                          bytes_text(row.bytes.gradient),
                          bytes_text(row.bytes.moments),
                          bytes_text(row.bytes.compensation),
                          row.activations ? bytes_text(*row.activations) : "-",
                          bytes_text(row.total()),
                          bytes_text(row.total() * r.devices)});
    if (r.memory) table.rows.back().emplace_back(fit_text(row.total(), *r.memory));
  }
  return table;
}

TextTable activation_table(const Request& r, bool colour) {
  TextTable table{
      {"activations", "none", "selective", "full"}, {Align::left, Align::right, Align::right, Align::right}, {}};
  for (const train::Recipe& recipe : r.recipes) {
    table.rows.push_back({{recipe.name, paint(recipe.name, Colour::bold, colour)}});
    for (const auto how : {train::Recompute::none, train::Recompute::selective, train::Recompute::full})
      table.rows.back().emplace_back(bytes_text(r.tokens * peak_activation_bytes(recipe.policy, *r.sizes, how)));
  }
  return table;
}

std::string notes(const Request& r) {
  std::string text = "\nNot counted: buffers of libraries and of communication, fragmentation";
  text += r.stages.back() == 3 && r.group > 1 ? ", the layer that stage 3 gathers.\n" : ".\n";
  if (!r.sizes) text += "Activations are not counted either: they need a shape (--layers, --width).\n";
  const auto is_wide = [](const train::Recipe& recipe) {
    const train::ParameterBytes b = parameter_bytes(recipe.policy);
    return b.copy > 0 && b.gradient == 4;
  };
  if (std::any_of(r.recipes.begin(), r.recipes.end(), is_wide))
    text +=
        "Autocast keeps FP32 gradients, the ZeRO paper counts those of the 16-bit copy: --gradients fp16 does as it "
        "does.\n";
  return text;
}

Json to_json(const Request& r, const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) {
    const train::ParameterBytes& b = row.bytes;
    Json j{{"recipe", row.recipe->name},
           {"zero", row.stage},
           {"parameters", r.parameters},
           {"devices", r.devices},
           {"group", r.group},
           {"tokens", r.sizes ? Json(r.tokens) : Json()},
           {"optimiser", r.optimiser == train::OptimiserKind::adamw ? "adamw" : "sgd"},
           {"recompute", train::recompute_names[static_cast<std::size_t>(r.recompute)]},
           {"bytes_per_parameter", b.sum() / r.parameters},
           {"device",
            {{"parameters", b.kept},
             {"copy", b.copy},
             {"gradients", b.gradient},
             {"moments", b.moments},
             {"compensation", b.compensation},
             {"activations", row.activations ? Json(*row.activations) : Json()},
             {"total", row.total()}}},
           {"total", row.total() * r.devices},
           {"device_memory", r.memory ? Json(*r.memory) : Json()},
           {"fits", r.memory ? Json(row.total() <= *r.memory) : Json()}};
    list.push_back(std::move(j));
  }
  return list;
}

int run(const Options& options) {
  const Request request = plan(options);
  const std::vector<Row> rows = rows_of(request);
  if (options.json) {
    print(json_text(to_json(request, rows)));
    return 0;
  }
  const bool colour = use_colour(1);
  print(heading(request));
  print(state_table(request, rows, colour).to_text(colour, 2));
  if (request.sizes) {
    print("\nBy what is recomputed:\n");
    print(activation_table(request, colour).to_text(colour, 2));
  }
  print(notes(request));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  arguments.option("--parameters", o->parameters, "N", "parameters: 7e9, 7B, 350M (default: those of the shape)");
  arguments.option("--recipe", o->recipes, "LIST",
                   "names of train --list-recipes and .json files, with commas (default fp32,bf16-amp,fp8-current,"
                   "bf16-pure-kahan,bf16-pure)");
  arguments.option("--optimiser", o->optimiser, "NAME", "with momentum: adamw or sgd (default adamw)");
  arguments.option("--gradients", o->gradients, "FORMAT", "format of the gradients (default: the recipe's)");
  arguments.option("--devices", o->devices, "N", "devices that train on data of their own (default 1)");
  arguments.option("--zero", o->zero, "STAGE",
                   "what they share: 0 nothing, 1 optimiser, 2 gradients too, 3 parameters too (default: all four)");
  arguments.option(
      "--sharding", o->sharding, "NAME",
      "the same as FSDP names it (0, 2, 3, and 3 in groups): no_shard, shard_grad_op, full_shard, hybrid_shard");
  arguments.option("--group", o->group, "N", "devices that share one copy of the states (default: all)");
  arguments.option("--device-memory", o->memory, "SIZE", "does it fit? 80GB, 141GB, 24GiB");
  arguments.option("--layers", o->layers, "N", "the shape of a transformer, for its activations: layers");
  arguments.option("--width", o->width, "N", "width of the residual stream");
  arguments.option("--feed-forward", o->feed_forward, "N", "width of the feed-forward part (default 4 x width)");
  arguments.option("--heads", o->heads, "N", "attention heads (default width / 128)");
  arguments.option("--context", o->context, "N", "length of a sequence (default 4096)");
  arguments.option("--vocabulary", o->vocabulary, "N", "tokens of the vocabulary (default 32000)");
  arguments.option("--batch", o->batch, "N", "sequences of the micro-batch of a device (default 1)");
  arguments.option("--tokens", o->tokens, "N", "the same in tokens");
  arguments.option("--attention", o->attention, "KERNEL",
                   "without the softmax in memory, or with it: fused or plain (default fused)");
  arguments.option("--recompute", o->recompute, "WHAT", "none, selective (the softmax) or full (default none)");
  arguments.flag("--json", o->json, "print JSON");
  return [o] { return run(*o); };
}

}  // namespace of_memory

const Command memory_command{
    "memory", "bytes of parameters, gradients, optimiser and activations, sharded or not",
    "narrow memory --layers 32 --width 4096 --recipe bf16-amp --devices 8 --device-memory 80GB", of_memory::declare,
    "Bytes follow from the recipe (master copies, moments, scales) and from the shape; what an allocator or a "
    "framework adds is not in them. ZeRO stages and FSDP's names are understood."};

}  // namespace app
