#include <doctest/doctest.h>

#include <map>
#include <set>

#include "analysis/framework/experiment.hpp"
#include "narrow/dot/models.hpp"
#include "support/contains.hpp"

using namespace analysis;

namespace {

using narrow::report::Plot;
using narrow::report::Table;

Outcome good() {
  Outcome out;
  Table t{"t", "title", {narrow::report::text_column("a")}, {}, "", {}};
  t.add({std::string("x")});
  out.tables = {t};
  out.plots = {{.name = "p", .panels = {{}}}};
  out.finding = "It is 1.", out.data = "made numbers";
  return out;
}

Outcome (*chosen)() = good;
Outcome run_chosen(const Parameters&, Progress&) { return chosen(); }

Outcome run_one() {
  const Experiment e{"example", "Is it?", 1, {integer_parameter("n", 7, 0, 9, "number")}, run_chosen};
  Progress progress;
  return run_experiment(e, Parameters(e, {}), progress);
}

}  // namespace

TEST_CASE("analysis: every file of analysis registers and no two have one name or one place") {
  std::set<std::string> names;
  std::set<int> places;
  int last = experiments().front().place;
  for (const Experiment& e : experiments()) {
    CAPTURE(e.name);
    CHECK(names.insert(e.name).second);
    CHECK(places.insert(e.place).second);
    CHECK(e.place >= last);
    last = e.place;
    CHECK(std::string(e.question).ends_with("?"));
    CHECK_NOTHROW(Parameters(e, {}, Effort::fast));  // the defaults lie in their ranges
    CHECK_NOTHROW(Parameters(e, {}, Effort::full));
    for (const Parameter& p : e.parameters) CHECK(!p.help.empty());
  }
  for (const char* name :
       {"gradient_underflow", "loss_scaling", "attention_overflow", "gradient_accumulation", "accumulator_width",
        "fp8_scaling", "stochastic_rounding", "operation_policy", "memory_and_speed", "format_choice", "order_matters",
        "gradient_direction", "all_reduce", "gpu_block"})
    CHECK_MESSAGE(names.count(name) == 1, name);
}

// report gives a parameter to every experiment that has it.
TEST_CASE("analysis: a parameter of one name is of one kind in all experiments") {
  std::map<std::string, std::pair<ParameterKind, std::vector<std::string>>> known;
  for (const Experiment& e : experiments())
    for (const Parameter& p : e.parameters) {
      const auto [before, is_new] = known.emplace(p.name, std::pair{p.kind, p.choices});
      CHECK_MESSAGE((is_new || before->second == std::pair(p.kind, p.choices)), e.name << " " << p.name);
    }
}

TEST_CASE("analysis: an unknown experiment is named with the closest") {
  CHECK(std::string(require_experiment("format_choice").name) == "format_choice");
  CHECK(contains(test::error_of([] { require_experiment("format_choise"); }), "did you mean 'format_choice'?"));
}

TEST_CASE("analysis: tables carry the parameters of the run") {
  chosen = good;
  CHECK(run_one().tables[0].parameters == narrow::report::ParameterTexts{{"n", "7"}});
}

TEST_CASE("analysis: what is undefined is an empty cell in every table") {
  chosen = [] {
    Outcome out = good();
    out.tables[0].columns.push_back(narrow::report::real_column("r"));
    out.tables[0].rows = {{std::string("x"), std::nan("")}, {std::string("y"), 1.0}};
    return out;
  };
  const Table t = run_one().tables[0];
  CHECK(std::holds_alternative<std::monostate>(t.rows[0][1]));
  CHECK(std::get<double>(t.rows[1][1]) == 1);
  chosen = good;
}

TEST_CASE("analysis: what an answer rests on stands under every table and picture, strongest first, each thing once") {
  using enum narrow::Evidence;
  CHECK(evidence_text({{published, "b"}, {measured, "x"}, {published, "a"}, {published, "b"}}) ==
        "measured (x), published (b, a)");
  CHECK(evidence_text({}).empty());
  CHECK(basis_of(narrow::hardware_model("blackwell.tcgen05.f32.f16.f16")) ==
        Basis{published, "Blackwell's tensor cores"});
  CHECK(basis_of(*narrow::find_dot_model("software.fma.f32.f16.f16")).evidence == by_definition);
  chosen = [] {
    Outcome out = good();
    out.data = {"recorded", {measured, "a recording"}};
    out.evidence = {{assumed, "a guess"}};
    out.tables[0].note = "a note";
    return out;
  };
  const Outcome out = run_one();
  const std::string said = "Evidence: measured (a recording), assumed (a guess), by definition (formats and casts).";
  CHECK(out.tables[0].note == "a note. " + said);
  CHECK(out.plots[0].subtitle == said);
  chosen = good;
}

// The sentence that rests on a row nobody compared with a machine says so itself.
TEST_CASE("analysis: the finding about Blackwell says that its model is published") {
  const Experiment& e = require_experiment("accumulator_width");
  Progress progress;
  const Outcome out = run_experiment(e, Parameters(e, {"longest=256", "outputs=2"}, Effort::fast), progress);
  CHECK(out.finding.find("on Blackwell (published, not compared with data here)") != std::string::npos);
  std::set<std::string> classes;
  for (const auto& row : out.tables[0].rows) classes.insert(std::get<std::string>(row.back()));
  CHECK(classes == std::set<std::string>{"measured", "replayed", "published", "by definition"});
}

TEST_CASE("analysis: an answer without a finding or without a table is no answer") {
  chosen = [] {
    Outcome out = good();
    out.finding = "";
    return out;
  };
  CHECK_THROWS_AS(run_one(), std::logic_error);
  chosen = [] {
    Outcome out = good();
    out.data = "";
    return out;
  };
  CHECK_THROWS_AS(run_one(), std::logic_error);
  chosen = [] {
    Outcome out = good();
    out.tables.clear();
    return out;
  };
  CHECK_THROWS_AS(run_one(), std::logic_error);
  chosen = [] {
    Outcome out = good();
    out.plots[0].panels.clear();
    return out;
  };
  CHECK_THROWS_AS(run_one(), std::logic_error);
  // Two tables of one name would write one file.
  chosen = [] {
    Outcome out = good();
    out.tables.push_back(out.tables[0]);
    return out;
  };
  CHECK_THROWS_AS(run_one(), std::logic_error);
  chosen = good;
}
