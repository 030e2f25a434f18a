#include "narrow/scale/scaler_table.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "narrow/base/error.hpp"
#include "support/inputs.hpp"
#include "support/scale.hpp"
#include "support/contains.hpp"

using narrow::make_scaler;
using narrow::Observation;
using narrow::scaler_table;
using narrow::ScaleEvent;

namespace {

std::string refusal(const std::string& text, const std::vector<narrow::ParameterValue>& common = {}) {
  return test::error_of([&] { make_scaler(text, common); });
}
}  // namespace

TEST_CASE("scale: every scaler of the table has a name of its own and a source and can be made") {
  std::set<std::string_view> names;
  for (const narrow::ScalerRow& row : scaler_table()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK_FALSE(row.source.empty());
    CHECK_FALSE(row.what.empty());
    CHECK(narrow::find_scaler(row.name) == &row);
    const narrow::NamedScaler made = make_scaler(row.name);
    CHECK(made.row == &row);
    CHECK(made.scaler->scale() > 0);
    CHECK(std::isfinite(made.scaler->scale()));
    CHECK_FALSE(made.scaler->state_text().empty());
    CHECK((made.scaler->limit() > 0) == (row.kind == narrow::ScalerKind::tensor_recipe));
  }
  for (const char* name : {"none", "constant", "torch", "megatron", "deepspeed", "apex", "fairseq", "keras",
                           "te-delayed", "te-current", "torchao", "te-block", "deepgemm"})
    CHECK(names.count(name) == 1);
}

TEST_CASE("scale: the defaults of the table are the frameworks' and every one can be set") {
  const auto value = [](const char* scaler, const char* name) {
    return narrow::find_scaler(scaler)->find(name)->initial;
  };
  CHECK(value("torch", "init") == 65536);
  CHECK(value("torch", "growth-interval") == 2000);
  CHECK(value("megatron", "init") == 0x1p32);
  CHECK(value("megatron", "hysteresis") == 2);
  CHECK(value("deepspeed", "growth-interval") == 1000);
  CHECK(value("deepspeed", "consecutive-hysteresis") == 0);
  CHECK(value("apex", "max") == 0x1p24);
  CHECK(value("keras", "min") == 1);
  CHECK(value("te-delayed", "history") == 1024);
  CHECK(value("te-block", "power-of-two") == 1);
  for (const narrow::ScalerRow& row : scaler_table())
    for (const narrow::ParameterRow& p : row.parameters) {
      if (p.kind == narrow::ParameterKind::limit) continue;  // 0 stands for none and cannot be asked for
      CAPTURE(p.name);
      CHECK_NOTHROW(row.make({{{std::string(p.name), p.initial}}}));
    }
}

TEST_CASE("scale: parameters come from common values where they fit and from the text last") {
  CHECK(make_scaler("torch:init=2^24:growth-interval=50").scaler->scale() == 0x1p24f);
  const std::vector<narrow::ParameterValue> common = {{"init", 1024}, {"hysteresis", 1}};
  CHECK(make_scaler("torch", common).scaler->scale() == 1024);
  CHECK(make_scaler("torch:init=8", common).scaler->scale() == 8);
  CHECK(make_scaler("none", common).scaler->scale() == 1);
  const narrow::NamedScaler megatron = make_scaler("Megatron", common);
  megatron.scaler->observe({true, 0});
  CHECK(megatron.scaler->scale() == 512);  // hysteresis 1
}

TEST_CASE("scale: unknown scalers and parameters are refused with what is accepted") {
  CHECK(contains(refusal("toch"), "did you mean 'torch'?"));
  CHECK(contains(refusal("toch"), "deepspeed"));
  CHECK(contains(refusal("torch:hysteresis=2"), "parameter 'hysteresis' is unknown"));
  CHECK(contains(refusal("torch:int=2"), "did you mean 'init'?"));
  CHECK(contains(refusal("torch:init"), "has no value"));
  CHECK(contains(refusal("torch:init=x"), "torch: init:"));
  CHECK(contains(refusal(""), "policy '' is unknown"));
}

TEST_CASE("scale: values out of range are refused with what is accepted") {
  for (const char* bad : {"torch:init=0",
                          "torch:init=-1",
                          "torch:init=inf",
                          "torch:init=nan",
                          "torch:init=2^200",
                          "torch:init=2^-200",
                          "torch:growth=1",
                          "torch:growth=0.5",
                          "torch:backoff=1",
                          "torch:backoff=0",
                          "torch:growth-interval=0",
                          "torch:growth-interval=-5",
                          "torch:growth-interval=1.5",
                          "megatron:hysteresis=0",
                          "megatron:min=0",
                          "apex:min=0",
                          "apex:max=-1",
                          "deepspeed:min=0",
                          "deepspeed:consecutive-hysteresis=2",
                          "te-delayed:history=0",
                          "te-delayed:margin=-1",
                          "te-delayed:margin=0.5",
                          "te-current:epsilon=-1",
                          "te-delayed:fp8-max=0",
                          "megatron:min=8:init=4"}) {
    CAPTURE(bad);
    CHECK_FALSE(refusal(bad).empty());
  }
  CHECK(contains(refusal("torch:init=0"), "a positive finite number"));
  CHECK(contains(refusal("torch:growth-interval=0"), "an integer of at least 1"));
}

TEST_CASE("scale: numbers of flags may be powers of two") {
  CHECK(narrow::parse_scale_number("2^16") == 65536);
  CHECK(narrow::parse_scale_number("2^-5") == 0x1p-5);
  CHECK(narrow::parse_scale_number("0x1p16") == 65536);
  CHECK(narrow::parse_scale_number("0.25") == 0.25);
  for (const char* bad : {"", "2^", "^2", "3^2", "2^1.5", "2^9999", "abc", "1e"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(narrow::parse_scale_number(bad), narrow::Error);
  }
}

// No scaler makes a scale that is 0, Inf or NaN unless its framework does, and then the event of that step says so.
TEST_CASE("scale: a scale that is lost is always announced") {
  const std::set<std::string_view> may_lose = {"torch",     "apex",    "fairseq", "megatron",
                                               "deepspeed", "torchao", "deepgemm"};
  for (const narrow::ScalerRow& row : scaler_table()) {
    CAPTURE(row.name);
    std::uint64_t losses = 0, unannounced = 0;
    for (std::uint64_t seed = 0; seed <= 20; ++seed) {  // from no overflow at all to nothing else
      const narrow::NamedScaler made =
          make_scaler(row.name, std::vector<narrow::ParameterValue>{{"growth-interval", 1}});
      bool was_lost = false;
      for (std::uint64_t i = 0; i < test::scaled(400, 400); ++i) {
        const std::uint64_t r = test::mix(seed * 1000 + i);
        made.scaler->observe({r % 20 < seed, std::abs(test::from_bits<float>(r >> 32))});
        const float scale = made.scaler->scale();
        const bool is_lost = !(scale > 0) || std::isinf(scale);
        losses += is_lost ? 1 : 0;
        unannounced += is_lost && !was_lost && made.scaler->event() != ScaleEvent::lost ? 1 : 0;
        was_lost = is_lost;
      }
    }
    CHECK(unannounced == 0);
    CHECK((losses > 0) == (may_lose.count(row.name) != 0));
  }
}
