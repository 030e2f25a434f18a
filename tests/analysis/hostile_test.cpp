// Every experiment that takes a file, on files that nobody would wish for: what it prints follows from numbers, or it
// refuses in one line.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "stored.hpp"

using namespace analysis;
using test::has;
using test::Stored;
using test::stored;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

// Something between -1 and 1 that is never zero.
double low_wave(std::size_t i) { return 0.9 * std::sin(1.0 + static_cast<double>(i) * 2.4); }

// What all experiments look for, under the names that they look for, with values of one kind.
std::vector<Stored> everything(const std::function<double(std::size_t)>& value, const std::string& type = "F32") {
  std::vector<Stored> all;
  const std::pair<const char*, std::vector<std::size_t>> wanted[] = {{"micro.grad", {16, 32}},
                                                                     {"act.head", {32, 192}},
                                                                     {"act.blocks.3.residual", {64, 64}},
                                                                     {"act.blocks.0.residual", {64, 64}},
                                                                     {"act.blocks.3.ln2", {64, 64}},
                                                                     {"weight.blocks.3.up.weight", {64, 64}},
                                                                     {"attn.q", {2, 16, 8}},
                                                                     {"attn.k", {2, 16, 8}}};
  for (const auto& [name, shape] : wanted) all.push_back(stored(name, shape, value, type));
  return all;
}

std::vector<Stored> layers() {
  std::vector<Stored> all = everything(low_wave);
  for (int i = 0; i < 3; ++i)
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "mlp.weight.grad"})
      all.push_back(stored("model.layers." + std::to_string(i) + "." + name, {1, 4, 16, 8},
                           [i](std::size_t j) { return std::pow(30.0, i) * low_wave(j); }));
  all.erase(all.end() - 11, all.end() - 9);  // attn.q and attn.k: these layers have their own
  return all;
}

struct Hostile {
  const char* name;
  std::vector<Stored> tensors;
  const char* named = "";  // what a finding must name
};

std::vector<Hostile> hostile_files() {
  const auto spoiled = [](std::size_t i) { return i == 5 ? nan : i == 9 ? inf : i == 11 ? -inf : low_wave(i); };
  return {{"no tensors", {}},
          {"no values", {stored("micro.grad", {0, 4})}},
          {"zeros", everything([](std::size_t) { return 0.0; })},
          {"all NaN", everything([](std::size_t) { return nan; })},
          {"NaN and Inf in places", everything(spoiled), "NaN and "},
          {"one tensor", {stored("micro.grad", {16, 32}, low_wave)}},
          {"one value", {stored("micro.grad", {1}, low_wave)}},
          {"a scalar", {stored("micro.grad", {}, low_wave)}},
          {"several layers", layers()},
          {"integers",
           {stored(
               "w", {4, 4}, [](std::size_t i) { return static_cast<double>(i); }, "I32")}},
          {"integers beside", {stored("labels", {4}, low_wave, "I32"), stored("micro.grad", {16, 32}, low_wave)}},
          {"huge", everything([](std::size_t i) { return 3e38 * low_wave(i); })},
          {"tiny", everything([](std::size_t i) { return 1e-44 * (1 + static_cast<double>(i % 5)); })},
          {"huge and tiny", everything([](std::size_t i) { return (i % 2 == 0 ? 1e38 : 1e-38) * low_wave(i); })},
          {"one value repeated", everything([](std::size_t) { return 0.75; })},
          {"beyond FP32", everything([](std::size_t i) { return i == 3 ? 1e300 : low_wave(i); }, "F64"), "beyond FP32"}};
}

std::string all_text(const Outcome& o) {
  std::string text = o.finding + "\n" + o.data.text + "\n";
  for (const std::string& note : o.notes) text += note + "\n";
  for (const narrow::report::Plot& p : o.plots) text += p.title + "\n" + p.subtitle + "\n";
  for (const narrow::report::Table& t : o.tables) {
    text += t.title + "\n" + t.note + "\n";
    for (const auto& row : t.rows)
      for (std::size_t i = 0; i < row.size(); ++i) text += narrow::report::shown_text(t.columns[i], row[i]) + " ";
    text += "\n";
  }
  return text;
}

std::vector<std::string> small_settings(const Experiment& e) {
  std::vector<std::string> settings;
  for (const auto& [name, value] :
       {std::pair{"longest", "64"}, {"trials", "1"}, {"most", "16"}, {"ranks", "16"}, {"samples", "4096"}})
    for (const analysis::Parameter& p : e.parameters)
      if (p.name == name) settings.push_back(std::string(name) + "=" + value);
  return settings;
}

}  // namespace

TEST_CASE("analysis: no file makes an experiment print nan or inf or leave NaN and Inf of the data unnamed") {
  const test::Folder folder;
  const std::regex no_number("\\b(nan|inf|-inf)\\b");  // the data's own are spelled NaN and Inf
  std::size_t answered = 0, refused = 0;
  for (const Hostile& h : hostile_files()) {
    CAPTURE(h.name);
    const std::string path = folder.write("t.safetensors", test::file_of(h.tensors));
    for (const Experiment& e : experiments())
      for (const analysis::Parameter& p : e.parameters) {
        if (p.kind != ParameterKind::file) continue;
        CAPTURE(e.name);
        std::vector<std::string> settings = small_settings(e);
        settings.push_back(p.name + "=" + path);
        Outcome o;
        const std::string refusal = test::error_of([&] { o = test::run_experiment(e.name, settings); });
        if (!refusal.empty()) {
          CAPTURE(refusal);
          ++refused;
          CHECK(test::is_one_line(refusal));
          CHECK(has(refusal, "t.safetensors"));
          continue;
        }
        ++answered;
        CAPTURE(o.finding);
        const std::string text = all_text(o);
        std::smatch found;
        const bool clean = !std::regex_search(text, found, no_number);
        CHECK_MESSAGE(clean, "\"" << (clean ? ""
                                            : text.substr(static_cast<std::size_t>(found.position()) > 60
                                                              ? static_cast<std::size_t>(found.position()) - 60
                                                              : 0,
                                                          100))
                                  << "\"");
        CHECK(has(o.data.text, "t.safetensors"));
        CHECK(has(o.finding, h.named));
      }
  }
  CHECK(answered > 30);
  CHECK(refused > 30);
}

// What cannot be read is said, and what was taken for what.
TEST_CASE("analysis: integer tensors beside floating ones are named as not read") {
  const test::Folder folder;
  const std::string path = folder.write(
      "t.safetensors", test::file_of({stored("labels", {4}, low_wave, "I32"), stored("w.grad", {16, 32}, low_wave)}));
  for (const char* setting : {"gradient_underflow gradients=", "format_choice tensors=", "fp8_scaling tensors=",
                              "gradient_accumulation micro_batches=", "all_reduce micro_batches="}) {
    const std::string words = setting;
    const Outcome o =
        test::run_experiment(words.substr(0, words.find(' ')), {words.substr(words.find(' ') + 1) + path});
    CHECK(has(all_text(o), "labels (I32)"));
  }
}
