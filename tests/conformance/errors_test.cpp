// What named_cast refuses, and how it says so: one line that names the request and lists what is accepted.
#include <doctest/doctest.h>

#include "narrow/round/named_cast.hpp"
#include "support/contains.hpp"

using namespace narrow;

namespace {

// The message of the Error that the request raises; empty when there is none.
std::string refusal(std::string_view system, const Format& f, Rounding rounding = Rounding::nearest_even) {
  return test::error_of([&] { named_cast(system, f, rounding); });
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

void check_refusal(const std::string& message, std::initializer_list<std::string_view> parts) {
  CAPTURE(message);
  CHECK(!message.empty());
  CHECK(!has(message, "\n"));
  for (const std::string_view part : parts) {
    CAPTURE(part);
    CHECK(has(message, part));
  }
}

}  // namespace

TEST_CASE("conformance: an unknown system is refused with the list of systems") {
  check_refusal(refusal("jax", "e4m3"_fmt),
                {"'jax'", "accepted: cuda cuda-sat cuda-nosat torch torch-2.13 ml_dtypes onnx onnx-nosat"});
  check_refusal(refusal("", "e4m3"_fmt), {"''", "torch"});
  check_refusal(refusal("torch-cpu", "fp16"_fmt), {"'torch-cpu'", "torch"});
}

TEST_CASE("conformance: a format that the system lacks is refused with the list of its formats") {
  check_refusal(refusal("torch", "e2m1"_fmt), {"'torch'", "fp16", "bf16", "e4m3", "e8m0"});
  check_refusal(refusal("onnx", "tf32"_fmt), {"'onnx'", "e4m3", "e5m2fnuz", "e8m0"});
  check_refusal(refusal("cuda", "fp64"_fmt), {"'cuda'", "tf32", "int8"});
}

TEST_CASE("conformance: a rounding that the system lacks is refused with the list of its roundings") {
  check_refusal(refusal("torch", "fp16"_fmt, Rounding::up), {"'torch'", "up", "nearest_even"});
  check_refusal(refusal("cuda", "e8m0"_fmt, Rounding::down), {"'cuda'", "down", "up toward_zero"});
  check_refusal(refusal("cuda", "tf32"_fmt, Rounding::up),
                {"'cuda'", "up", "nearest_even", "toward_zero", "nearest_away"});
  check_refusal(refusal("cuda", "fp16"_fmt, Rounding::stochastic), {"stochastic", "nearest_even toward_zero up down"});
}

TEST_CASE("conformance: every system accepts each of its formats and roundings") {
  for (const NamedCast& row : named_cast_table)
    for (const NamedFormat& format : format_table)
      for (int r = 0; r < 8; ++r) {
        const auto rounding = static_cast<Rounding>(r);
        if (!detail::has_word(row.formats, format.name) ||
            !detail::has_word(row.roundings, detail::rounding_name(rounding)))
          continue;
        CAPTURE(row.system);
        CAPTURE(format.name);
        CHECK(refusal(row.system, format.format, rounding).empty());
        CHECK(named_cast(row.system, format.format, rounding).rounding == rounding);
      }
}

TEST_CASE("conformance: system names ignore letter case and the default of cuda for e8m0 rounds up") {
  CHECK(named_cast("CUDA", "fp16"_fmt) == named_cast("cuda", "fp16"_fmt));
  CHECK(named_cast("cuda", "e8m0"_fmt).rounding == Rounding::up);
  CHECK(named_cast("cuda-nosat", "e8m0"_fmt).rounding == Rounding::up);
  CHECK(named_cast("torch", "e8m0"_fmt).rounding == Rounding::nearest_even);
}
