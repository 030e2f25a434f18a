#include "narrow/train/policy/recipe.hpp"

#include <doctest/doctest.h>

#include <set>

#include "narrow/format/find_format.hpp"
#include "narrow/train/policy/recipe_words.hpp"
#include "support/contains.hpp"
#include "tensor/files.hpp"

using namespace narrow::train;
using narrow::operator""_fmt;
using test::error_of;

namespace {

// Two policies are the same when they print the same: everything is printed.
std::string recipe_refusal(const std::string& json) {
  return error_of([&] { parse_recipe(json, "r.json"); });
}

}  // namespace

TEST_CASE("train: every recipe can be computed and has a name of its own") {
  std::set<std::string_view> names;
  for (const RecipeRow& row : recipe_table()) {
    CAPTURE(std::string(row.name));
    CHECK(names.insert(row.name).second);
    CHECK_NOTHROW(check(row.policy()));
    CHECK_NOTHROW(checked_loss_scaler(std::string(row.loss_scaler)));
    CHECK_FALSE(row.what.empty());
  }
  for (const char* name : {"fp32", "tf32", "bf16-amp", "fp16-amp", "fp16-amp-noscale", "fp16-pure", "bf16-pure",
                           "bf16-pure-stochastic", "bf16-pure-kahan", "fp8-current", "fp8-delayed", "fp8-block",
                           "mxfp8", "nvfp4", "nvfp4-4over6", "nvfp4-plain", "fp8-noscale", "int8"})
    CHECK_MESSAGE(names.count(name) == 1, name);
}

TEST_CASE("train: a recipe that is printed and read again is the same") {
  for (const RecipeRow& row : recipe_table()) {
    CAPTURE(std::string(row.name));
    const std::string text = recipe_json(require_recipe(std::string(row.name)));
    CHECK(recipe_json(parse_recipe(text, "r.json")) == text);
  }
}

TEST_CASE("train: torch's switches are recipes of their own names") {
  const auto operations = [](const std::string& name) {
    const std::string text = recipe_json(require_recipe(name));
    return text.substr(text.find("\"base\""));
  };
  for (const char* name : {"allow_tf32", "torch.backends.cuda.matmul.allow_tf32", "matmul-high", "matmul-medium"})
    CHECK(operations(name) == operations("tf32"));
  const Policy highest = require_recipe("matmul-highest").policy;
  CHECK(highest[Operation::linear].weights.format == "fp32"_fmt);
  CHECK(highest[Operation::convolution].weights.format == "tf32"_fmt);
}

TEST_CASE("train: a recipe file says what differs from its base") {
  const Recipe r = parse_recipe(R"({"name": "mine", "base": "fp16-amp", "loss_scaler": "torch:init=2^10",
    "operations": {"softmax": {"arithmetic": "bf16", "output": {"format": "e4m3", "overflow": "saturate"}},
                   "linear": {"weights": {"scaling": "tensor_current", "rule": "torchao_fp8", "format": "e4m3"},
                              "output": {"rounding": "toward_zero"},
                              "forward": {"accumulation": "every_operation", "accumulator": "fp16"}}},
    "training": {"reduction": "bf16", "kahan": true}, "delayed": {"history": 16}})",
                                "r.json");
  const Policy base = require_recipe("fp16-amp").policy;
  CHECK(r.name == "mine");
  CHECK(r.loss_scaler == "torch:init=2^10");
  CHECK(r.policy[Operation::softmax].arithmetic.format == "bf16"_fmt);
  CHECK(r.policy[Operation::softmax].output.format == "e4m3"_fmt);
  CHECK(r.policy[Operation::softmax].output.cast.overflow == narrow::Overflow::saturate);
  CHECK(r.policy[Operation::linear].weights.format == "e4m3"_fmt);
  CHECK(r.policy[Operation::linear].weights.scaling == Scaling::tensor_current);
  CHECK(r.policy[Operation::linear].output.format == "fp16"_fmt);  // the base's
  CHECK(r.policy[Operation::linear].output.cast.rounding == narrow::Rounding::toward_zero);
  CHECK(r.policy[Operation::linear].forward.accumulation == Accumulation::every_operation);
  CHECK(r.policy[Operation::linear].activations == base[Operation::linear].activations);
  CHECK(r.policy.training.reduction.format == "bf16"_fmt);
  CHECK(r.policy.training.kahan);
  CHECK(r.policy.delayed.history == 16);
}

TEST_CASE("train: a wrong recipe file is refused with the key and what is accepted") {
  CHECK(contains(recipe_refusal("{"), "r.json: no JSON: "));
  CHECK(contains(recipe_refusal("[]"), "must be an object"));
  CHECK(contains(recipe_refusal(R"({"training": {"kahan": true, "kahan": true}})"), "'training': key 'kahan' is given twice"));
  CHECK(contains(recipe_refusal(R"({"base": "fp32"} {})"), "line 1, column 18"));
  // The parser underneath takes a zero byte for the end.
  CHECK(contains(recipe_refusal(R"({"base": "fp32"})" + std::string("\0 {}", 4)), "r.json: no JSON: a zero byte at byte 16"));
  CHECK(contains(recipe_refusal(R"({"base": "fp32"})" + std::string(1, '\0')), "a zero byte at byte 16"));
  CHECK(contains(recipe_refusal(R"({"opertions": {}})"),
                 "r.json: key 'opertions' is unknown; did you mean 'operations'? accepted: base name"));
  CHECK(contains(recipe_refusal(R"({"base": "fp17"})"), "r.json: base: recipe 'fp17' is unknown; "));
  CHECK(contains(recipe_refusal(R"({"base": 3})"), "r.json: base: must be a text"));
  CHECK(contains(
      recipe_refusal(R"({"operations": {"linear": {"wieghts": "fp16"}}})"),
      "r.json: operations.linear: key 'wieghts' is unknown; did you mean 'weights'? accepted: weights activations"));
  CHECK(contains(recipe_refusal(R"({"operations": {"gelu": {}}})"),
                 "r.json: operations: key 'gelu' is unknown; accepted: embedding norm"));
  CHECK(contains(recipe_refusal(R"({"operations": {"linear": {"weights": "fp8"}}})"), "r.json: operations.linear.weights: "));
  CHECK(contains(recipe_refusal(R"({"operations": {"linear": {"weights": {"scaling": "block"}}}})"),
                 "operations.linear.weights.scaling: scaling 'block' is unknown; accepted: none tensor_current"));
  CHECK(
      contains(recipe_refusal(R"({"operations": {"linear": {"forward": {"model": "hopper"}}}})"), "narrow models lists them"));
  CHECK(contains(recipe_refusal(R"({"operations": {"linear": {"forward": {"plan": "zig"}}}})"),
                 "operations.linear.forward.plan: "));
  CHECK(contains(recipe_refusal(R"({"training": {"kahan": 1}})"), "training.kahan: must be true or false"));
  CHECK(contains(recipe_refusal(R"({"delayed": {"history": 0}})"), "delayed.history: must be an integer from 1"));
  CHECK(contains(recipe_refusal(R"({"loss_scaler": "touch"})"), "loss_scaler: policy 'touch' is unknown"));
  CHECK(contains(recipe_refusal(R"({"loss_scaler": "te-delayed"})"),
                 "scales tensors, not losses; accepted: none constant torch"));
  CHECK(contains(recipe_refusal(R"({"name": "../../x"})"), "name: must be 1 to 60 letters"));
  // Each value is right, together they cannot be computed.
  CHECK(contains(recipe_refusal(R"({"operations": {"softmax": {"activations": {"scaling": "mx", "format": "e4m3"}}}})"),
                 "r.json: "));
  CHECK(contains(recipe_refusal(R"({"operations": {"linear": {"forward": {"accumulation": "model"}}}})"), "r.json: "));
}

TEST_CASE("train: a recipe file may only name what an operation has") {
  const auto key_of = [](const std::string& operation, const std::string& key, const std::string& value) {
    return recipe_refusal("{\"operations\": {\"" + operation + "\": {\"" + key + "\": " + value + "}}}");
  };
  CHECK(contains(key_of("softmax", "weights", "\"fp16\""), "r.json: operations.softmax: key 'weights' is unknown; "));
  CHECK(contains(key_of("softmax", "weights", "\"fp16\""),
                 "accepted: activations gradients output input_gradients arithmetic"));
  for (const char* product : {"forward", "dgrad", "wgrad"})
    for (const char* operation : {"softmax", "norm", "embedding", "residual", "loss"})
      CHECK(contains(key_of(operation, product, "{}"), "is unknown; "));
  for (const char* operation : {"scores", "context"})
    for (const char* key : {"weights", "weight_gradients", "arithmetic"})
      CHECK(contains(key_of(operation, key, "\"fp16\""),
                     "accepted: activations gradients output input_gradients forward"));
  CHECK_NOTHROW(parse_recipe(R"({"operations": {"norm": {"weights": "fp16"}, "scores": {"forward": {}}}})", "r.json"));
}

TEST_CASE("train: a recipe file may not ask for a rounding that would not happen") {
  CHECK(contains(recipe_refusal(R"({"operations": {"linear": {"weights": {"rounding": "stochastic"}}}})"),
                 "r.json: policy: linear.weights is fp32, which is not rounded"));
  CHECK(
      contains(recipe_refusal(R"({"base": "fp8-current", "operations": {"linear": {"weights": {"rounding": "stochastic"}}}})"),
               "linear.weights is scaled: "));
  CHECK(
      contains(recipe_refusal(R"({"base": "fp8-current", "operations": {"linear": {"weights": {"overflow": "to_special"}}}})"),
               "operations.linear.weights: is scaled: its elements saturate"));
  CHECK(contains(recipe_refusal(R"({"training": {"parameters": "e8m0"}})"), "training.parameters cannot be e8m0"));
  CHECK(contains(recipe_refusal(R"({"training": {"reduction": {"format": "e4m3", "scaling": "mx"}}})"),
                 "training.reduction cannot be scaled"));
}

TEST_CASE("train: a recipe is a name or a file") {
  CHECK(contains(error_of([] { require_recipe("fp16-apm"); }),
                 "did you mean 'fp16-amp'? accepted: a file that ends in .json, or fp32 tf32"));
  CHECK(contains(error_of([] { require_recipe("/no/such.json"); }), "/no/such.json"));
  const test::Folder folder;
  const std::string path = folder.write("mine.json", R"({"base": "bf16-pure"})");
  CHECK(require_recipe(path).policy.training.parameters.format == "bf16"_fmt);
}

TEST_CASE("train: the word for a format is read back as that format") {
  for (const char* name :
       {"fp16", "e5m3", "e5m3fn", "e3m0f", "e3m2fnuz", "e2m3ieee", "e4m3b9fn", "e4m3b9", "e2m3b5ieee", "e5m10b0f",
        "e4m3b1fnuz", "binary8p3se", "binary5p1uf", "binary15p9ue", "uint4"}) {
    const narrow::Format format = narrow::find_format(name).value();
    CHECK_MESSAGE(narrow::find_format(format_word(format)) == format, name);
  }
  CHECK(format_word(narrow::find_format("e4m3b9fn").value()) == "e4m3b9");  // the row e4m3 has no Inf either
  CHECK(format_word(narrow::find_format("BINARY6P2UE").value()) == "binary6p2ue");
}
