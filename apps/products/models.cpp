// narrow models: the tensor-core models, their parameters, source and evidence; one of them explained.
#include <algorithm>
#include <array>
#include <memory>

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/terminal.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"
#include "options/model_choice.hpp"
#include "products/model_text.hpp"

namespace app {
namespace of_models {

using narrow::DotModel;
using Models = std::vector<const DotModel*>;

struct Options {
  std::vector<std::string> names;
  std::optional<std::string> generation, type;
  bool json = false;
};

void check_generation(const std::string& word) {
  std::vector<std::string_view> names;
  std::string list;
  for (int g = 0; g <= static_cast<int>(narrow::Generation::software); ++g) {
    names.push_back(narrow::generation_name(static_cast<narrow::Generation>(g)));
    list += (list.empty() ? "" : ", ") + std::string(names.back());
  }
  if (std::ranges::find(names, word) != names.end()) return;
  throw narrow::Error("--generation: no generation is called " + narrow::quote(word) + "; " +
                      narrow::hint(word, names) + "accepted: " + list);
}

Models choose(const Options& options) {
  Models chosen;
  if (options.generation) check_generation(*options.generation);
  if (options.type && !is_type_name(*options.type))
    throw narrow::Error("--type: no model takes " + narrow::quote(*options.type) +
                        "; for example f16, bf16, tf32, e4m3, e5m2, e2m1, s8");
  for (const std::string& name : options.names)
    for (const DotModel* m : models_named(name)) chosen.push_back(m);
  if (options.names.empty())
    for (const DotModel& m : narrow::dot_models()) chosen.push_back(&m);
  std::erase_if(chosen, [&](const DotModel* m) {
    return (options.generation && narrow::generation_name(m->generation) != *options.generation) ||
           (options.type && !is_type(m->a, *options.type) && !is_type(m->b, *options.type));
  });
  if (chosen.empty()) throw narrow::Error("models: no model fits all that was asked; see narrow models");
  return chosen;
}

std::string step_text(const DotModel& m) { return m.fraction_bits > 0 ? std::to_string(m.fraction_bits) : "-"; }

// "18 models: 11 of hardware (2 measured, 9 published), 7 of software by definition."
std::string counts_text(const Models& models) {
  std::array<std::size_t, narrow::evidence_count> counts{};
  for (const DotModel* m : models) ++counts[static_cast<std::size_t>(m->evidence)];
  const std::size_t software = counts.back(), hardware = models.size() - software;
  std::string classes;
  for (std::size_t e = 0; e + 1 < counts.size(); ++e)
    if (counts[e] > 0)
      classes += (classes.empty() ? "" : ", ") + std::to_string(counts[e]) + " " +
                 std::string(narrow::evidence_name(static_cast<narrow::Evidence>(e)));
  std::string parts;
  if (hardware > 0) parts = std::to_string(hardware) + " of hardware (" + classes + ")";
  if (software > 0) parts += (parts.empty() ? "" : ", ") + std::to_string(software) + " of software, by definition";
  return std::to_string(models.size()) + (models.size() == 1 ? " model: " : " models: ") + parts + ".";
}

std::string to_text(const Models& models) {
  const bool colour = use_colour(1);
  TextTable table{{"model", "L", "F", "result", "evidence", "source"},
              {Align::left, Align::right, Align::right, Align::left, Align::left, Align::left},
              {}};
  for (const DotModel* m : models) {
    const std::string name(m->name.view()), evidence(narrow::evidence_name(m->evidence));
    const Colour shade = m->evidence == narrow::Evidence::measured   ? Colour::green
                         : m->evidence == narrow::Evidence::replayed ? Colour::blue
                         : m->evidence == narrow::Evidence::assumed  ? Colour::yellow
                                                                     : Colour::plain;
    table.rows.push_back({name, std::to_string(m->products_per_step), step_text(*m), result_text(*m),
                          TextCell(evidence, paint(evidence, shade, true)), std::string(m->source)});
  }
  return table.to_text(colour) + "\n" + counts_text(models) +
         "\nL: products of one step; F: fraction bits kept below the largest exponent.\n"
         "One of them explained, with an example: narrow models NAME\n";
}

Json to_json(const DotModel& m) {
  Json row = Json::object();
  row["name"] = std::string(m.name.view());
  row["generation"] = narrow::generation_name(m.generation);
  row["unit"] = narrow::unit_name(m.unit);
  row["a"] = m.a.name;
  row["b"] = m.b.name;
  row["accumulator"] = m.accumulator.name;
  row["products_per_step"] = m.products_per_step;
  row["fraction_bits"] = m.fraction_bits > 0 ? Json(m.fraction_bits) : Json();
  row["result"] = result_text(m);
  row["evidence"] = narrow::evidence_name(m.evidence);
  row["source"] = m.source;
  row["proof"] = m.proof.empty() ? Json() : Json(m.proof);
  row["instruction_k"] = m.instruction_k > 0 ? Json(m.instruction_k) : Json();
  row["exponent_floor"] = m.fraction_bits > 0 ? Json(m.exponent_floor) : Json();
  row["scale_block"] = m.scale_block > 0 ? Json(m.scale_block) : Json();
  row["arithmetic"] = rule_sentence(m);
  return row;
}

int run(const Options& options) {
  const Models models = choose(options);
  if (options.json) {
    Json rows = Json::array();
    for (const DotModel* m : models) rows.push_back(to_json(*m));
    print(json_text(rows));
    return 0;
  }
  // Full names are explained; fronts of names and filters give the table.
  const bool all_named = !options.names.empty() && models.size() <= options.names.size();
  if (!all_named) {
    print(to_text(models));
    return 0;
  }
  for (const DotModel* m : models) {
    if (m != models.front()) print("\n");
    print(model_explained(*m, use_colour(1)));
  }
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("NAME", options->names,
                   "models to explain (hopper.wgmma.f32.e4m3.e4m3), or fronts of names (hopper.wgmma)");
  arguments.option("--generation", options->generation, "G",
                   "only of this generation: volta .. rtx-blackwell, cdna1 .. cdna3, software");
  arguments.option("--type", options->type, "T", "only with operands of this type: f16, bf16, tf32, e4m3, ...");
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_models

const Command models_command{
    "models", "the tensor-core models: parameters, source and evidence; one of them explained",
    "narrow models hopper.wgmma.f32.e4m3.e4m3", of_models::declare,
    "A tensor core is a row of numbers: how many products meet in one step, how many bits are kept below the "
    "largest exponent, how the sum is rounded. Each row says what it stands on: measured here on the GPU, "
    "replayed from recordings of others, published, assumed by analogy, or by definition for sums in software."};

}  // namespace app
