// Folders of watched runs: good ones, torn ones, broken ones, and what their counts tell about other formats.
#include "narrow/tensor/watched_run.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "archive.hpp"
#include "make_tensors.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/tensor_statistics.hpp"
#include "narrow/tensor/watched_counts.hpp"
#include "watched_folder.hpp"

using namespace narrow;
using test::Folder;
using test::line_by_hand;
using test::run_json;
using test::Watched;
using test::watched_line;
using test::write_run;

namespace {

std::vector<WatchedTensor> read_all(const std::string& folder) {
  std::vector<WatchedTensor> all;
  WatchedRun(folder).for_each_tensor([&](const WatchedTensor& t) { all.push_back(t); });
  return all;
}

std::string with(std::string line, const std::string& before, const std::string& after) {
  const std::size_t at = line.find(before);
  REQUIRE(at != std::string::npos);
  return line.replace(at, before.size(), after);
}

// As RFC 1952 says: a head without a name, the data as they are in deflate's words, checksum and length.
std::string gzipped(const std::string& text) {
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) + test::deflated_as_is(text) +
         test::little_endian(test::slow_crc32(text), 4) + test::little_endian(text.size(), 4);
}

// What is said about a second line in which `before` is `after`.
std::string refusal(const std::string& before, const std::string& after) {
  const Folder folder;
  write_run(folder, line_by_hand + with(line_by_hand, before, after));
  const std::string said = test::error_of([&] { read_all(folder.path()); });
  const std::string where = folder / "tensors.jsonl: line 2: ";
  CHECK(said.rfind(where, 0) == 0);
  return said.substr(std::min(said.size(), where.size()));
}

}  // namespace

TEST_CASE("tensor: a record of a watched run is what its line says") {
  const Folder folder;
  const WatchedRun run(write_run(folder, line_by_hand) + "//");
  CHECK(run.folder() == folder.path());
  CHECK(run.model() == "Tiny");
  REQUIRE(run.formats().size() == 2);
  CHECK(run.formats()[1].format == "e4m3"_fmt);
  CHECK(run.find("E4M3") == &run.formats()[1]);
  CHECK(run.find("e5m2") == nullptr);
  const std::vector<WatchedTensor> all = read_all(folder.path());
  REQUIRE(all.size() == 1);
  const WatchedTensor& t = all[0];
  CHECK(t.label() == "gradient/h.0.w@50");
  CHECK(t.count == 6);
  CHECK(t.amax == 2);
  CHECK(t.min_nonzero == 0x1p-10);
  CHECK(t.scale == 1);
  CHECK(t.histogram().count() == 6);
  CHECK(t.histogram().zero.positive == 1);
  CHECK(t.histogram().binade(1).negative == 1);
  CHECK(t.histogram().binade(0).positive == 2);
  CHECK(t.histogram().binade(-10).positive == 1);
  CHECK(std::isinf(t.formats[0].sqnr_db));
  CHECK(t.formats[1].underflow == 1);
  // What a line by hand says is what the values give.
  const Watched same{50, "gradient", "h.0.w", {0, 1, 1.5f, -2, 0.125f, 0x1p-10f}};
  const Folder second;
  write_run(second, {same});
  CHECK(read_all(second.path())[0].binades.size() == t.binades.size());
  CHECK(read_all(second.path())[0].formats[1].mse == t.formats[1].mse);
}

TEST_CASE("tensor: a record may have binades without signs, and no largest value") {
  const std::string head = R"({"step": 3, "role": "gradient", "name": "w", "dtype": "fp32", "count": 6, )";
  const std::string counts = R"("zero": 1, "subnormal": 0, "inf": 1, "nan": 0, "first": -2, "binades": [0, 3, 1, 0])";
  const auto first_of = [&](const std::string& rest) {
    const Folder folder;
    write_run(folder, head + rest + R"(, "formats": []})" + "\n", "", "", R"({"narrow_run": 1, "formats": []})");
    return read_all(folder.path()).at(0);
  };
  const WatchedTensor t = first_of(counts + R"(, "amax": 1.1, "min_nonzero": 0.5)");
  CHECK_FALSE(t.has_signs);
  CHECK(t.has_extremes);
  CHECK(t.histogram().zero.total() == 1);
  CHECK(t.histogram().inf.total() == 1);
  CHECK(t.histogram().binade(-1).total() == 3);
  CHECK(t.amax == static_cast<double>(1.1f));  // as many digits as tell a float from others
  const std::string most = with(with(counts, "\"first\": -2", "\"first\": 126"), "[0, 3, 1, 0]", "[3, 1]");
  CHECK(first_of(most + R"(, "amax": 3.4028235e+38, "min_nonzero": 1.7014118e+38)").amax == 0x1.fffffep127);
  CHECK(contains(test::error_of([&] { first_of(most + R"(, "amax": 3.5e+38, "min_nonzero": 1.7014118e+38)"); }),
                 "amax is 3.5e+38; it is to be 0 or more, within FP32"));
  CHECK(contains(test::error_of([&] { first_of(counts + R"(, "amax": 1e-60, "min_nonzero": 1e-60)"); }),
                 "amax is 1e-60"));
  const WatchedTensor bounded = first_of(counts);
  CHECK_FALSE(bounded.has_extremes);
  CHECK(bounded.amax == 0x1.fffffep0);
  CHECK(bounded.min_nonzero == 0.5);
  const WatchedTensor tiny = first_of(R"("zero": 0, "subnormal": 6, "inf": 0, "nan": 0, "first": 0, "binades": [])");
  CHECK(tiny.amax == static_cast<double>(std::nextafter(0x1p-126f, 0.0f)));
  CHECK(tiny.min_nonzero == static_cast<double>(std::numeric_limits<float>::denorm_min()));
  const WatchedTensor none = first_of(R"("zero": 6, "subnormal": 0, "inf": 0, "nan": 0, "first": 0, "binades": [])");
  CHECK(none.amax == 0);
  CHECK(none.min_nonzero == 0);
  const auto refused = [&](const std::string& before, const std::string& after) {
    return test::error_of([&] { first_of(with(counts, before, after)); });
  };
  CHECK(contains(refused("[0, 3, 1, 0]", "[0, 3, 2, 0]"), "its counts add up to 7, not to 6"));
  CHECK(contains(refused("[0, 3, 1, 0]", "[0, 3, -1, 0]"), "binades is -1; it is to be an integer"));
  CHECK(contains(refused("\"zero\": 1", "\"zero\": [0, 1]"), "zero is a list of 2; it is to be an integer"));
  CHECK(contains(refused("[0, 3, 1, 0]", "[0, 3, 1, 0], \"amax\": 1"), "there is no \"min_nonzero\""));
}

TEST_CASE("tensor: a line may hold a whole step, with what follows from the rest left out") {
  const Folder folder;
  const std::string first =
      R"({"step": 3, "tensors": 2, "role": ["gradient", "score"], "name": ["w", "s"], "dtype": ["fp16", "fp32"], )"
      R"("zero": [1, 0], "scale": [8, null], "first": [-2, 5], "amax": [1.5, null], "min_nonzero": [0.25, null], )"
      R"("binades": [[1, 0, 3], []], "inf": [0, 4]})";  // 1, 2, 7
  const std::string second = R"({"step": 9, "tensors": 2, "first": [0, 1], "binades": [[3, -6, 2], [0, 1, -1]]})";
  const auto read = [&](const std::string& lines) {
    write_run(folder, lines, "", "", R"({"narrow_run": 1, "formats": []})");
    return read_all(folder.path());
  };
  const std::vector<WatchedTensor> all = read(first + "\n" + second + "\n");
  REQUIRE(all.size() == 4);
  CHECK(all[0].label() == "gradient/w@3");
  CHECK(all[0].dtype == "fp16");
  CHECK(all[0].count == 11);
  CHECK(all[0].zero.total() == 1);
  CHECK(all[0].histogram().binade(-1).total() == 2);
  CHECK(all[0].histogram().binade(0).total() == 7);
  CHECK(all[0].scale == 8);
  CHECK(all[0].amax == 1.5);
  CHECK(all[1].label() == "score/s@3");
  CHECK(all[1].inf.total() == 4);
  CHECK(all[1].scale == 1);
  CHECK(all[2].label() == "gradient/w@9");
  CHECK(all[2].dtype == "fp16");
  CHECK_FALSE(all[2].has_extremes);
  CHECK(all[2].count == 5);
  CHECK(all[2].histogram().binade(0).total() == 3);
  CHECK(all[2].histogram().binade(1).total() == 0);
  CHECK(all[2].histogram().binade(2).total() == 2);
  CHECK(all[3].histogram().binade(2).total() == 1);
  CHECK(all[3].histogram().binade(3).total() == 1);

  const auto refused = [&](const std::string& before, const std::string& after) {
    return test::error_of([&] { read(first + "\n" + with(second, before, after) + "\n"); });
  };
  CHECK(contains(refused("[0, 1, -1]", "[0, 1, -3]"), "line 2, tensor 2: one of binades is -3; it is to be such that"));
  CHECK(contains(refused("[0, 1, -1]", "[0, 1099511627777]"), "one of binades is 1099511627777"));
  CHECK(contains(refused("[0, 1, -1]", "[0, 18446744073709551615]"), "one of binades is 18446744073709551615"));
  std::string many = "[0, 1099511627776";
  for (int k = 0; k < 3; ++k) many += ", -1099511627776";
  CHECK(contains(refused("[0, 1, -1]", many + "]"), "tensor 2: it has more than 1099511627776 values"));
  CHECK(contains(refused("[0, 1, -1]", "[1, 0.5]"), "one of binades is 0.5"));
  CHECK(contains(refused("[0, 1, -1]", "1"), "tensor 2: binades is 1; it is to be a list"));
  CHECK(
      contains(refused("[0, 1]", "[0]"), "line 2: first is a list of 1; it is to be a list of 2, one entry a tensor"));
  CHECK(contains(refused("\"tensors\": 2", "\"tensors\": 3"), "one entry a tensor"));
  CHECK(contains(refused(", \"first\": [0, 1]", ""), "line 2, tensor 1: there is no \"first\""));
  CHECK(contains(refused("\"first\"", "\"count\": [5, 3], \"first\""), "its counts add up to 2, not to 3"));
  CHECK(contains(refused("\"first\"", "\"nan\": [0, -1], \"first\""), "tensor 2: nan is -1"));
  std::filesystem::remove(folder / "tensors.jsonl");
  REQUIRE(mkfifo((folder / "tensors.jsonl").c_str(), 0600) == 0);
  CHECK(contains(test::error_of([&] { read_all(folder.path()); }), "tensors.jsonl' is no file of a run"));
  std::filesystem::remove(folder / "tensors.jsonl");
  CHECK(
      contains(test::error_of([&] { read(second + "\n"); }), "line 1: there is no \"role\", and no line before has 2"));
}

TEST_CASE("tensor: a line of a watched run that has no end yet is left out, and nothing else") {
  const Folder folder;
  for (const std::size_t cut : {std::size_t{1}, line_by_hand.size() / 2, line_by_hand.size() - 1}) {
    write_run(folder, line_by_hand + line_by_hand.substr(0, cut));
    CHECK(read_all(folder.path()).size() == 1);
  }
  write_run(folder, line_by_hand.substr(0, 10));
  CHECK(read_all(folder.path()).empty());
  write_run(folder, line_by_hand.substr(0, 10) + "\n" + line_by_hand);
  CHECK(contains(test::error_of([&] { read_all(folder.path()); }), "tensors.jsonl: line 1: no JSON"));
  write_run(folder, "");
  CHECK(read_all(folder.path()).empty());
  std::filesystem::remove(folder / "tensors.jsonl");
  CHECK(read_all(folder.path()).empty());
}

TEST_CASE("tensor: the logs of a watched run may be packed by gzip") {
  const Folder folder;
  std::string lines;
  for (int step = 0; step < 400; ++step)
    lines += with(line_by_hand, "\"step\": 50", "\"step\": " + std::to_string(step));
  REQUIRE(lines.size() > 200'000);  // more than a piece of the reader
  write_run(folder, lines);
  const std::string plain = folder / "tensors.jsonl", packed = plain + ".gz";
  const std::vector<WatchedTensor> before = read_all(folder.path());
  // Two streams in a row, as after `gzip` of two parts and `cat`.
  const std::size_t half = lines.find('\n', lines.size() / 2) + 1;
  const std::string bytes = gzipped(lines.substr(0, half)) + gzipped(lines.substr(half));
  folder.write("tensors.jsonl.gz", bytes);
  std::filesystem::remove(plain);
  const std::vector<WatchedTensor> after = read_all(folder.path());
  REQUIRE(after.size() == 400);
  REQUIRE(before.size() == 400);
  for (std::size_t i = 0; i < 400; ++i) CHECK(after[i].step == before[i].step);
  CHECK(after[399].binades.size() == before[399].binades.size());

  folder.write("tensors.jsonl.gz", bytes.substr(0, bytes.size() - 5));
  CHECK(test::error_of([&] { read_all(folder.path()); }) ==
        "cannot read " + quote_path(packed) + ": its compressed data stops before its end");
  std::string damaged = bytes;
  damaged[gzipped(lines.substr(0, half)).size() - 8] ^= 1;  // of the checksum
  folder.write("tensors.jsonl.gz", damaged);
  CHECK(test::error_of([&] { read_all(folder.path()); }).find("damaged") != std::string::npos);
  folder.write("tensors.jsonl.gz", "no gzip at all\n");
  CHECK(test::error_of([&] { read_all(folder.path()); }).find("its compressed data is damaged") != std::string::npos);
}

TEST_CASE("tensor: what is wrong in a watched run is said with its line") {
  CHECK(refusal("\"step\": 50", "\"step\": 49") == "step 49 follows step 50; steps ascend");
  CHECK(contains(refusal("\"step\": 50", "\"step\": -1"), "step is -1; it is to be an integer from 0"));
  CHECK(contains(refusal("\"step\": 50, ", ""), "there is no \"step\""));
  CHECK(contains(refusal("\"gradient\"", "\"grad\""), "role is 'grad'; it is to be one of gradient, "));
  CHECK(contains(refusal("\"h.0.w\"", "5"), "name is 5; it is to be a string"));
  CHECK(contains(refusal("\"h.0.w\"", "\"" + std::string(4097, 'x') + "\""), "name is longer than 4096 bytes"));
  CHECK(contains(refusal("\"count\": 6", "\"count\": 7"), "its counts add up to 6, not to 7"));
  CHECK(contains(refusal("\"count\": 6", "\"count\": 6.5"), "count is 6.5; it is to be an integer"));
  CHECK(contains(refusal("\"zero\": [0, 1]", "\"zero\": [-1, 2]"), "zero is -1; it is to be an integer"));
  CHECK(
      contains(refusal("\"zero\": [0, 1]", "\"zero\": [1]"), "zero is a list of 1; it is to be [negative, positive]"));
  CHECK(contains(refusal("\"zero\": [0, 1]", "\"zero\": [18446744073709551615, 2]"), "zero is 18446744073709551615"));
  CHECK(contains(refusal("\"negative\": [0, ", "\"negative\": ["), "negative has 11 binades and positive 12"));
  CHECK(
      contains(refusal("\"first\": -10", "\"first\": -127"), "the 12 binades from -127 on are not within -126 to 127"));
  CHECK(contains(refusal("\"first\": -10", "\"first\": 117"), "the 12 binades from 117 on are not within"));
  CHECK(contains(refusal("\"first\": -10", "\"first\": 18446744073709551606"), "are not within"));
  CHECK(contains(refusal("\"first\": -10", "\"first\": \"x\""), "the 12 binades from first on are not within"));
  CHECK(contains(refusal("\"amax\": 2.0", "\"amax\": null"), "amax is null; it is to be 0 or more, within FP32"));
  CHECK(contains(refusal("\"amax\": 2.0", "\"amax\": -2.0"), "amax is -2.0; it is to be 0 or more"));
  CHECK(contains(refusal("\"amax\": 2.0", "\"amax\": NaN"), "no JSON"));
  CHECK(contains(refusal("\"amax\": 2.0", "\"amax\": 1e39"), "amax is 1e+39; it is to be 0 or more, within FP32"));
  CHECK(contains(refusal("\"min_nonzero\": 0.0009765625", "\"min_nonzero\": 3"), "above 0 and at most amax"));
  CHECK(contains(refusal("\"min_nonzero\": 0.0009765625", "\"min_nonzero\": null"), "min_nonzero is null"));
  CHECK(contains(refusal("\"amax\": 2.0", "\"scale\": -1, \"amax\": 2.0"), "scale is -1; it is to be 0 or more"));
  CHECK(
      contains(refusal("\"underflow\": 1", "\"underflow\": 7"), "underflow is 7; it is to be an integer from 0 to 6"));
  CHECK(contains(refusal("\"mse\": 0.0", "\"mse\": -1"), "mse is -1; it is to be 0 or more"));
  CHECK(contains(refusal("\"sqnr_db\": \"inf\"", "\"sqnr_db\": \"much\""), "sqnr_db is 'much'; it is to be a number"));
  CHECK(contains(refusal("\"e4m3\"", "\"e5m2\""), "format is 'e5m2'; it is to be 'e4m3', as in run.json"));
  CHECK(contains(refusal("\"formats\": [", "\"formats\": [1, "), "it has 3 formats, run.json has 2"));
  CHECK(contains(refusal("{\"step\"", "[{\"step\""), "no JSON"));
  CHECK(contains(refusal(line_by_hand, "[]\n"), "this is a list of 0, not an object"));
  CHECK(contains(refusal(line_by_hand, "\n"), "no JSON"));
}

TEST_CASE("tensor: run.json is checked before any line is read") {
  const auto refused = [](const std::string& before, const std::string& after) {
    const Folder folder;
    write_run(folder, "", "", "", with(run_json, before, after));
    return test::error_of([&] { WatchedRun run(folder.path()); });
  };
  CHECK(contains(refused("\"narrow_run\": 1", "\"narrow_run\": 2"), "run.json: narrow_run is 2; it is to be 1"));
  CHECK(contains(refused("\"fp16\"", "\"fp15\""), "formats is 'fp15'; it is to be formats of narrow"));
  CHECK(contains(refused("\"fp16\"", "\"E4M3\""), "formats has 'e4m3' twice"));
  CHECK(contains(refused("\"formats\": [", "\"others\": ["), "there is no \"formats\""));
  CHECK(contains(refused("{", ""), "no JSON"));
  const Folder empty;
  CHECK_FALSE(is_watched_run(empty.path()));
  empty.write("run.json", "{\"run\": 1}");  // of somebody else
  CHECK_FALSE(is_watched_run(empty.path()));
  CHECK(contains(test::error_of([&] { WatchedRun run(empty.path()); }), "there is no \"narrow_run\""));
  std::filesystem::remove(empty / "run.json");
  CHECK(contains(test::error_of([&] { WatchedRun run(empty.path()); }), "it has no run.json"));
}

TEST_CASE("tensor: a line without an end in sight is refused, not kept") {
  const Folder folder;
  write_run(folder, std::string(longest_line + 1, ' '));
  CHECK(contains(test::error_of([&] { read_all(folder.path()); }), "line 1 has more than 1048576 bytes"));
}

TEST_CASE("tensor: two tensors of one name in a step are both kept, and told apart") {
  const Folder folder;
  write_run(folder, {{0, "activation", "act", {1}},
                     {0, "activation", "act", {2}},
                     {0, "gradient", "act", {3}},
                     {7, "activation", "act", {4}}});
  std::vector<std::string> labels;
  for (const WatchedTensor& t : read_all(folder.path())) labels.push_back(t.label());
  CHECK(labels ==
        std::vector<std::string>{"activation/act@0", "activation/act#2@0", "gradient/act@0", "activation/act@7"});
}

TEST_CASE("tensor: the last step counts only when it has all tensors of the one before") {
  const auto last_of = [](const std::vector<std::pair<int, int>>& steps) {
    LastStep last;
    for (const auto& [step, tensors] : steps)
      for (int i = 0; i < tensors; ++i) last.add({.step = step});
    return last.tensors().empty() ? -1 : last.tensors().front().step;
  };
  CHECK(last_of({}) == -1);
  CHECK(last_of({{3, 1}}) == 3);
  CHECK(last_of({{0, 2}, {50, 2}}) == 50);
  CHECK(last_of({{0, 2}, {50, 1}}) == 0);
  CHECK(last_of({{0, 3}, {50, 1}, {100, 1}}) == 100);  // 50 was all there: 100 follows it
}

TEST_CASE("tensor: the log of a watched run is its scaler's, or the largest gradients of its steps") {
  const Folder folder;
  const std::vector<Watched> tensors = {
      {0, "gradient", "a", {1, -4}, 2},       {0, "activation_gradient", "b", {6}, 2},
      {0, "activation", "c", {100}},          {50, "gradient", "a", {INFINITY, 1}},
      {100, "gradient", "a", {1}, 1, "fp16"}, {100, "gradient", "b", {NAN}, 1, "fp16"}};
  write_run(folder, tensors);
  const auto by_steps = WatchedRun(folder.path()).scale_log();
  REQUIRE(by_steps);
  CHECK(by_steps->log.steps == std::vector<std::int64_t>{0, 50, 100});
  CHECK(by_steps->log.amax == std::vector<float>{3, INFINITY, GradientLog::no_amax});
  CHECK(by_steps->what == "the largest of all gradients of 3 watched steps");
  write_run(folder, tensors, "{\"step\": 1, \"scale\": 4.0, \"found_inf\": true, \"amax\": null}\n{\"step\": 2");
  const auto of_scaler = WatchedRun(folder.path()).scale_log();
  REQUIRE(of_scaler);
  CHECK(of_scaler->log.steps == std::vector<std::int64_t>{1});
  CHECK(of_scaler->log.found_inf == std::vector<std::uint8_t>{1});
  write_run(folder, tensors, "{\"step\": 1, \"scale\": 4.0}\n{\"step\": 1, \"scale\": 4.0}\n");
  CHECK(contains(test::error_of([&] { WatchedRun(folder.path()).scale_log(); }), "scale.jsonl: line 2, column 10: "));
  write_run(folder, tensors,
            "{\"step\": 1, \"scale\": 4.0}\n{\"step\": 2, \"scale\": 0.0}\n{\"step\": 3, \"scale\": 0.0}\n");
  CHECK(WatchedRun(folder.path()).scale_log()->log.steps == std::vector<std::int64_t>{1});
  CHECK(WatchedRun(folder.path()).scale_log()->what == "up to step 2, where the loss scale became 0 or Inf");
  write_run(folder, tensors, "{\"step\": 1, \"scale\": \"inf\"}\n");
  CHECK(contains(test::error_of([&] { WatchedRun(folder.path()).scale_log(); }), "a loss scale is a positive finite"));
  write_run(folder, tensors, "{\"step\"");
  CHECK_FALSE(WatchedRun(folder.path()).scale_log());
}

TEST_CASE("tensor: losses of a watched run may be Inf and NaN, and come by step") {
  const Folder folder;
  write_run(folder, "", "",
            "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"loss\": \"inf\"}\n{\"step\": 3, \"loss\": null}\n{");
  const std::vector<WatchedLoss> losses = WatchedRun(folder.path()).losses();
  REQUIRE(losses.size() == 3);
  CHECK(losses[0].loss == 2.5);
  CHECK(std::isinf(losses[1].loss));
  CHECK(std::isnan(losses[2].loss));
  write_run(folder, "", "", "{\"step\": 2, \"loss\": 2.5}\n{\"step\": 1, \"loss\": 3.5}\n");
  CHECK(WatchedRun(folder.path()).losses()[0].loss == 3.5);
  write_run(folder, "", "", "{\"step\": 2}\n");
  CHECK(contains(test::error_of([&] { WatchedRun(folder.path()).losses(); }),
                 "loss.jsonl: line 1: there is no \"loss\""));
}

// Values around every limit of the formats, so that each of them cuts a binade.
TEST_CASE("tensor: counts give the fates of all binades, or say that they cannot") {
  std::vector<float> values;
  for (int e = -140; e <= 20; ++e)
    for (const float m : {1.0f, 1.001f, 1.25f, 1.5f, 1.75f, 1.9999f})
      for (const float sign : {1.0f, -1.0f}) values.push_back(sign * std::ldexp(m, e));
  for (const float x : {0.0f, -0.0f, INFINITY, -INFINITY, NAN}) values.push_back(x);
  const std::vector<std::string> names = {"fp16", "bf16", "e4m3", "e5m2", "e2m1", "e3m2", "fp32"};
  const Folder folder;
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "\"" : ", \"") + name + "\"";
  write_run(folder, watched_line({0, "gradient", "w", values}, names), "", "",
            with(run_json, "\"fp16\", \"e4m3\"", list));
  const WatchedTensor t = read_all(folder.path()).at(0);
  const Tensor tensor = test::tensor_of("F32", values);
  for (std::size_t k = 0; k < names.size(); ++k) {
    CAPTURE(names[k]);
    const FormatCast to{*find_format(names[k]), {}};
    const auto found = fates_of(t.histogram(), to, &t.formats[k]);
    REQUIRE(found);
    const BinadeFates truth = tensor_fates(tensor, to);
    REQUIRE(found->binades.size() == truth.binades.size());
    bool same = true;
    for (std::size_t i = 0; i < truth.binades.size(); ++i) same = same && found->binades[i].of == truth.binades[i].of;
    CHECK(same);
    CHECK(fates_of(t.histogram(), to).has_value() == (names[k] == "fp32"));
    for (const int delta : {-1, 1}) {  // counts that cannot be
      WatchedCounts wrong = t.formats[k];
      wrong.underflow += static_cast<std::uint64_t>(delta * 100000);
      CHECK_FALSE(fates_of(t.histogram(), to, &wrong));
    }
  }
  // Without values near a limit nothing is cut.
  ExponentHistogram few;
  few.binade(0) = {3, 4}, few.binade(-40) = {1, 0};
  const auto known = fates_of(few, {"fp16"_fmt, {}});
  REQUIRE(known);
  CHECK(known->all()[Fate::zero] == 1);
  CHECK(known->all()[Fate::normal] == 7);
  CHECK_FALSE(fates_of(few, {"e8m0"_fmt, {}}));  // has no sign
}

TEST_CASE("tensor: binades move with a power of two as long as they are known") {
  ExponentHistogram h;
  h.zero = {1, 2}, h.nan = {0, 1}, h.binade(0) = {3, 4}, h.binade(-126) = {0, 5}, h.binade(127) = {6, 0};
  CHECK(times_power_of_two(h, 3)->binade(3).negative == 3);
  CHECK(times_power_of_two(h, 3)->binade(-123).positive == 5);
  CHECK(times_power_of_two(h, 3)->inf.negative == 6);
  CHECK(times_power_of_two(h, -1)->subnormal.positive == 5);
  CHECK(times_power_of_two(h, -1)->binade(126).negative == 6);
  for (const int k : {-253, -1, 0, 1, 253}) CHECK(times_power_of_two(h, k)->count() == h.count());
  h.subnormal = {1, 0};
  CHECK(times_power_of_two(h, -1)->subnormal.negative == 1);
  CHECK_FALSE(times_power_of_two(h, 1));
}
