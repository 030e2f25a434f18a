#include "narrow/scale/torch_scaler.hpp"

#include <bit>
#include <fstream>
#include <sstream>

#include "transitions.hpp"

using narrow::ScaleEvent;
using narrow::TorchScaler;
using narrow::TorchState;
using test::after;

namespace {

std::vector<std::vector<std::string>> read_table(const char* path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '\t');) cells.push_back(cell);
    rows.push_back(cells);
  }
  return rows;
}

float from_hex(const std::string& bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(bits, nullptr, 16)));
}
std::uint32_t word(float x) { return std::bit_cast<std::uint32_t>(x); }

}  // namespace

TEST_CASE("scale: torch's recorded training run is reproduced at every step") {
  const TorchScaler scaler{.init = 0x1p24, .growth_interval = 50};
  TorchState state = initial(scaler);
  std::size_t steps = 0, skipped = 0;
  for (const auto& row : read_table(NARROW_DATA "/scale/torch_gpt_fp16_scaled.tsv")) {
    if (row[0] == "step") continue;
    CAPTURE(row[0]);
    REQUIRE(static_cast<double>(scale(state)) == std::stod(row[1]));
    const bool found_inf = row[2] == "1";
    state = next(scaler, state, {found_inf, 0});
    ++steps, skipped += found_inf ? 1 : 0;
  }
  CHECK(steps == 401);
  CHECK(skipped == 11);
}

// 11 runs on a GPU: bad initial scales, intervals of 1 to 2000, factors that are no powers of two, collapse to zero and
// what follows, growth at the top of FP32.
TEST_CASE("scale: torch's scale and growth tracker are those recorded on a GPU bit for bit") {
  TorchScaler scaler;
  TorchState state;
  std::size_t runs = 0, steps = 0;
  std::string name;
  for (const auto& row : read_table(NARROW_DATA "/scale/grad_scaler.tsv")) {
    if (row[0] == "run") {
      name = row[1];
      scaler = {.init = std::stod(row[2]),
                .growth = std::stod(row[3]),
                .backoff = std::stod(row[4]),
                .growth_interval = std::stoll(row[5])};
      state = initial(scaler);
      ++runs;
    } else if (row[0] == "step") {
      CAPTURE(name);
      CAPTURE(row[1]);
      REQUIRE(word(scale(state)) == word(from_hex(row[2])));
      state = next(scaler, state, {row[3] != "0", 0});
      REQUIRE(state.growth_tracker == std::stoi(row[4]));
      ++steps;
    }
  }
  CHECK(runs == 11);
  CHECK(steps == 3314);
}

TEST_CASE("scale: torch unscales as recorded on a GPU and a zero gradient becomes NaN unseen at 2^-128") {
  std::size_t rows = 0, unseen = 0;
  for (const auto& row : read_table(NARROW_DATA "/scale/grad_scaler.tsv")) {
    if (row[0] != "unscale") continue;
    const float gradient = from_hex(row[2]), expected = from_hex(row[3]);
    const narrow::Unscaled got = narrow::unscale(gradient, narrow::inverse_scale(from_hex(row[1])));
    CAPTURE(row[1]);
    CAPTURE(row[2]);
    if (std::isnan(expected)) CHECK(std::isnan(got.value));  // which NaN depends on the machine
    else CHECK(word(got.value) == word(expected));
    CHECK(got.found_inf == (row[4] == "1"));
    unseen += std::isnan(got.value) && !got.found_inf ? 1 : 0;
    ++rows;
  }
  CHECK(rows == 56);
  CHECK(unseen == 4);  // +0 and -0 at 2^-128 and 2^-149
}

// pytorch torch/amp/grad_scaler.py: growth happens on exactly the 2000th good step in a row.
TEST_CASE("scale: torch grows on the last step of the interval and not before") {
  const TorchScaler scaler;
  CHECK(after(scaler, test::repeat("g", 1999)) == TorchState{65536, 1999, ScaleEvent::none});
  CHECK(after(scaler, test::repeat("g", 2000)) == TorchState{131072, 0, ScaleEvent::grew});
  CHECK(after(scaler, test::repeat("g", 1999) + "b") == TorchState{32768, 0, ScaleEvent::backed_off});
  CHECK(after(scaler, test::repeat("g", 1999) + "b" + test::repeat("g", 1999)) ==
        TorchState{32768, 1999, ScaleEvent::none});
}

TEST_CASE("scale: torch's scale reaches zero after 166 halvings and its inverse is infinite from 2^-128 on") {
  const TorchScaler scaler;
  CHECK(after(scaler, test::repeat("b", 165)).scale == 0x1p-149f);
  CHECK(after(scaler, test::repeat("b", 166)) == TorchState{0, 0, ScaleEvent::lost});
  CHECK(narrow::inverse_scale(0x1p-127f) == 0x1p127f);
  CHECK(std::isinf(narrow::inverse_scale(0x1p-128f)));
  CHECK(std::isinf(narrow::inverse_scale(0.0f)));
  // A scale of zero never comes back: 0 * 2 is 0.
  CHECK(after(TorchScaler{.growth_interval = 1}, test::repeat("b", 166) + "ggg").scale == 0);
}

TEST_CASE("scale: torch does not keep growth to infinity but its old CUDA kernel did") {
  const TorchScaler now{.init = 0x1p127, .growth_interval = 1},
      then{.init = 0x1p127, .growth_interval = 1, .keep_finite = false};
  CHECK(after(now, "ggg") == TorchState{0x1p127f, 0, ScaleEvent::at_maximum});
  CHECK(after(then, "g").event == ScaleEvent::lost);
  CHECK(std::isinf(after(then, "g").scale));
  CHECK(std::isinf(after(then, "gb").scale));  // Inf * 0.5
}

// A float times the double 0.3, rounded once: 3 * 0.3 is 0.9f, where 3 * 0.3f would be the next float up.
TEST_CASE("scale: torch multiplies the float scale by a double factor and rounds once") {
  CHECK(after(TorchScaler{.init = 3, .backoff = 0.3}, "b").scale == 0.9f);
  CHECK(3.0f * 0.3f == std::nextafter(0.9f, 1.0f));
}

TEST_CASE("scale: torch's state prints") {
  CHECK(to_text(after(TorchScaler{}, "bgg")) == "scale 2^15, growth_tracker 2");
}
