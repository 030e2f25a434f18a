// narrow memory: what it prints, and what it refuses.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "program.hpp"

using test::check_refused;
using test::contains;
using test::Json;
using test::narrow_json;

TEST_CASE("apps: memory shares the states of a model by stage") {
  const Json rows = narrow_json({"memory", "--parameters", "7.5B", "--recipe", "fp16-amp", "--gradients", "fp16",
                                 "--devices", "64", "--device-memory", "32GB"});
  REQUIRE(rows.size() == 4);
  const double published[] = {120, 31.4, 16.6, 1.9};  // GB, ZeRO's figure 1, to half of their last digit
  for (std::size_t stage = 0; stage < 4; ++stage) {
    CHECK(rows[stage]["zero"] == stage);
    const double bytes = rows[stage]["device"]["total"];
    CHECK(std::abs(bytes / 1e9 - published[stage]) <= 0.05);
    CHECK(rows[stage]["total"] == 64 * bytes);
    CHECK(rows[stage]["fits"] == (stage > 0));
    CHECK(rows[stage]["device"]["activations"].is_null());
  }
  const auto one = [](const std::vector<std::string>& how) {
    std::vector<std::string> words = {"memory", "--parameters", "1e9", "--recipe", "bf16-amp", "--devices", "16"};
    words.insert(words.end(), how.begin(), how.end());
    const Json list = narrow_json(words);
    REQUIRE(list.size() == 1);
    return list[0]["device"]["total"].get<double>();
  };
  CHECK(one({"--sharding", "full_shard"}) == 18e9 / 16);
  CHECK(one({"--sharding", "shard_grad_op"}) == one({"--zero", "2"}));
  CHECK(one({"--sharding", "no_shard"}) == 18e9);
  CHECK(one({"--sharding", "hybrid_shard", "--group", "4"}) == 18e9 / 4);
  CHECK(one({"--zero", "3", "--optimiser", "sgd"}) == 14e9 / 16);
}

TEST_CASE("apps: memory counts activations where it knows the shape") {
  const std::vector<std::string> shape = {"memory",       "--layers", "2",        "--width", "128",
                                          "--vocabulary", "10",       "--recipe", "fp32"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = shape;
    words.insert(words.end(), more.begin(), more.end());
    return narrow_json(words)[0];
  };
  const Json plain = with({"--context", "8", "--batch", "3", "--attention", "plain"});
  CHECK(plain["parameters"] == 2 * 12 * 128 * 128 + 2 * 10 * 128);
  CHECK(plain["tokens"] == 24);
  const double head = 4 * (2 * 128 + 4 * 10);
  CHECK(plain["device"]["activations"] == 24 * (2 * 4 * (16 * 128 + 1 * 8) + head));  // width / 128: one head
  CHECK(with({"--tokens", "24", "--context", "8"})["device"]["activations"] == 24 * (2 * 4 * 16 * 128 + head));
  CHECK(with({"--tokens", "24", "--recompute", "full"})["device"]["activations"] ==
        24 * (2 * 4 * 128 + 4 * 15 * 128));  // all of one layer again, which is more than the head
  CHECK(with({"--parameters", "5"})["parameters"] == 5);

  const std::string text = test::narrow(shape).out;
  CHECK(contains(text, "2 layers of width 128, feed-forward 512, 1 heads, vocabulary 10, context 4096"));
  CHECK(contains(text, "selective"));
  CHECK(!contains(text, "Autocast keeps"));
  const std::string states = test::narrow({"memory", "--parameters", "7e9", "--device-memory", "80GB"}).out;
  CHECK(contains(states, "Activations are not counted"));
  CHECK(contains(states, "states fit 80 GB"));
  CHECK(contains(states, "no, by 32"));         // fp32: 112 GB
  CHECK(contains(states, "yes, 24 spare"));     // bf16-pure: 56 GB
  CHECK(contains(states, "--gradients fp16"));  // of bf16-amp
}

TEST_CASE("apps: memory takes recipes of a file") {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("narrow_memory_" + std::to_string(getpid()) + ".json")).string();
  std::ofstream(file) << R"({"base": "bf16-amp", "name": "own", "training": {"optimiser_state": {"format": "bf16"}}})";
  const Json rows = narrow_json({"memory", "--parameters", "10", "--recipe", "fp32," + file});
  CHECK(rows[0]["bytes_per_parameter"] == 16);
  CHECK(rows[1]["recipe"] == "own");
  CHECK(rows[1]["bytes_per_parameter"] == 14);
  std::remove(file.c_str());
}

TEST_CASE("apps: memory refuses what it cannot count") {
  for (const char* amount : {"0", "-5", "nan", "inf", "1e400", "1.5", "7X", "B", "", "1e16"})
    check_refused({"memory", "--parameters", amount}, {"--parameters", "7B"});
  check_refused({"memory"}, {"--parameters", "--layers"});
  check_refused({"memory", "--layers", "3"}, {"--width"});
  for (const char* flag : {"--batch", "--tokens", "--recompute", "--attention"})
    check_refused({"memory", "--parameters", "7e9", flag, "1"}, {flag, "--layers"});
  const auto refused = [](const std::vector<std::string>& how, const std::vector<std::string>& words) {
    std::vector<std::string> all = {"memory", "--layers", "2", "--width", "64"};
    all.insert(all.end(), how.begin(), how.end());
    check_refused(all, words);
  };
  refused({"--devices", "0"}, {"--devices"});
  refused({"--devices", "8", "--group", "3"}, {"--group", "8 devices"});
  refused({"--group", "2"}, {"--group"});
  refused({"--zero", "4"}, {"--zero", "0 1 2 3"});
  refused({"--zero", "1", "--sharding", "no_shard"}, {"--zero", "--sharding"});
  refused({"--sharding", "hybrid_shard", "--devices", "8"}, {"--group"});
  refused({"--sharding", "ddp"}, {"no_shard"});
  refused({"--batch", "2", "--tokens", "3"}, {"--batch", "--tokens"});
  refused({"--recompute", "some"}, {"selective"});
  refused({"--device-memory", "80XB"}, {"--device-memory", "80GB"});
  refused({"--device-memory", "80"}, {"--device-memory", "bytes", "80GB"});
  refused({"--heads", "7"}, {"--heads", "64"});
  refused({"--gradients", "fp8"}, {"--gradients", "e4m3"});
  refused({"--optimiser", "lion"}, {"adamw"});
  refused({"--recipe", "nix"}, {"--recipe", "bf16-amp"});
}

TEST_CASE("apps: memory takes the optimiser that a framework's settings name") {
  const test::Json rows =
      test::narrow_json({"memory", "--parameters", "1B", "--recipe", "megatron:--bf16 --optimizer sgd"});
  CHECK(rows[0]["optimiser"] == "sgd");
  CHECK(rows[0]["device"]["moments"] == 4e9);
  check_refused({"memory", "--parameters", "1B", "--recipe", "fp32,megatron:--bf16 --optimizer sgd"},
                {"--recipe", "another optimiser"});
}
