#include <doctest/doctest.h>

#include "analysis/framework/experiment.hpp"
#include "support/contains.hpp"

using namespace analysis;

namespace {

Outcome nothing(const Parameters&, Progress&) { return {}; }

Experiment example() {
  return {"example",
          "Is this a question?",
          99,
          {integer_parameter("count", {10, 100, 1000}, 1, 1e6, "how many"),
           real_parameter("rate", 0.1, 0, 1, "a share"), choice_parameter("kind", {"red", "green"}, "a colour"),
           text_parameter("name", "x y", "a word"), file_parameter("input", "tensors")},
          nothing};
}

// The message that the settings are refused with.
std::string refused_parameter(const std::vector<std::string>& settings) {
  return test::error_of([&] { const Parameters parameters(example(), settings); });
}

}  // namespace

TEST_CASE("analysis: parameters have defaults by effort") {
  CHECK(Parameters(example(), {}, Effort::fast).integer("count") == 10);
  CHECK(Parameters(example(), {}).integer("count") == 100);
  CHECK(Parameters(example(), {}, Effort::full).integer("count") == 1000);
  const Parameters p(example(), {});
  CHECK(p.real("rate") == 0.1);
  CHECK(p.text("kind") == "red");
  CHECK(p.text("name") == "x y");
  CHECK(p.text("input") == "");
  CHECK(!p.is_given("count"));
  CHECK(p.by_effort(1, 2, 3) == 2);
}

TEST_CASE("analysis: settings are read and numbers may be powers of two") {
  const Parameters p(example(), {"count=2^10", "rate=2^-3", "kind=green", "name=a=b", "input=f.npy"}, Effort::fast);
  CHECK(p.integer("count") == 1024);
  CHECK(p.real("rate") == 0.125);
  CHECK(p.text("kind") == "green");
  CHECK(p.text("name") == "a=b");
  CHECK(p.is_given("count"));
  CHECK(p.command() == "narrow run example count=2^10 rate=2^-3 kind=green name=a=b input=f.npy --fast -o out");
}

TEST_CASE("analysis: the command that makes a run again can be typed into a shell") {
  CHECK(Parameters(example(), {}).command() == "narrow run example -o out");
  CHECK(Parameters(example(), {"name=it's $HOME"}).command() == "narrow run example 'name=it'\\''s $HOME' -o out");
  const narrow::report::ParameterTexts texts = Parameters(example(), {}).texts();
  CHECK(texts.size() == 5);
  CHECK(texts[1] == std::pair<std::string, std::string>("rate", "0.1"));
  CHECK(texts[4].second == "(recorded)");
}

TEST_CASE("analysis: a wrong setting is refused with what would be right") {
  CHECK(contains(refused_parameter({"cuont=5"}), "did you mean 'count'?"));
  CHECK(contains(refused_parameter({"zzz=5"}), "parameters: count, rate, kind, name, input"));
  CHECK(contains(refused_parameter({"count=0"}), "an integer from 1 to 1000000"));
  CHECK(contains(refused_parameter({"count=1000001"}), "out of range"));
  CHECK(contains(refused_parameter({"count=1.5"}), "an integer"));
  CHECK(contains(refused_parameter({"count=many"}), "is no number"));
  CHECK(contains(refused_parameter({"count="}), "is no number"));
  CHECK(contains(refused_parameter({"count=nan"}), "out of range"));
  CHECK(contains(refused_parameter({"count=inf"}), "out of range"));
  CHECK(contains(refused_parameter({"count=2^1e9"}), "is no number"));
  CHECK(contains(refused_parameter({"rate=1.0001"}), "a number from 0 to 1"));
  CHECK(contains(refused_parameter({"kind=gren"}), "did you mean 'green'?"));
  CHECK(contains(refused_parameter({"count"}), "count=VALUE"));
  CHECK(contains(refused_parameter({"=5"}), "no parameter"));
  CHECK(contains(refused_parameter({"count=5", "count=6"}), "given twice"));
  CHECK(refused_parameter({"count=5"}) == "");
}

TEST_CASE("analysis: an experiment cannot ask for what it did not declare") {
  const Parameters p(example(), {});
  CHECK_THROWS_AS(p.integer("other"), std::logic_error);
  CHECK_THROWS_AS(p.integer("rate"), std::logic_error);
  CHECK_THROWS_AS(p.real("count"), std::logic_error);
  CHECK_THROWS_AS(p.text("count"), std::logic_error);
}
