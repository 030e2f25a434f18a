#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "program.hpp"

using test::check_refused;
using test::contains;
using test::Json;
using test::narrow_json;
using test::Ran;

namespace {

// A file with this content, gone at the end.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& content)
      : path_((std::filesystem::temp_directory_path() / ("narrow-scale-" + std::to_string(getpid()) + "-" + name))
                  .string()) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string recorded = NARROW_DATA "/scale/torch_gpt_fp16_scaled.tsv";

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("apps: scale-trace prints the true trajectory of the recorded run beside other frameworks") {
  const Json traces = narrow_json({"scale-trace", "--events", recorded, "--init", "2^24", "--growth-interval", "50"});
  for (const char* name : {"recorded", "torch", "megatron", "deepspeed", "apex", "keras"})
    REQUIRE(traces.contains(name));
  const Json &truth = traces["recorded"], &torch = traces["torch"];
  REQUIRE(truth.size() == 401);
  REQUIRE(torch.size() == 401);
  for (std::size_t i = 0; i < truth.size(); ++i) {
    REQUIRE(torch[i]["step"] == i);
    REQUIRE(torch[i]["scale"] == truth[i]["scale"]);
    REQUIRE(torch[i]["skipped"] == truth[i]["skipped"]);
    REQUIRE_FALSE(torch[i].contains("estimated"));  // its scale is the recorded one: nothing is guessed
  }
  // Hysteresis holds the first overflow back, so Megatron needs one step more to come down.
  CHECK(traces["megatron"][1]["scale"] == 16777216.0);
  CHECK(traces["megatron"][1]["event"] == "backed_off");
  CHECK(traces["megatron"][8]["scale"] == 131072.0);

  const Ran ran = test::narrow({"scale-trace", "--events", recorded, "--init", "2^24", "--growth-interval", "50"});
  CHECK(ran.status == 0);
  CHECK(ran.err == "");
  for (const char* word : {"401 steps with scale and found_inf", "recorded", "steps estimated)", "2^17",
                           "steps at each scale", "overflow: exact where the recorded step decides"})
    CHECK_MESSAGE(contains(ran.out, word), word);
  CHECK_FALSE(contains(ran.out, "+---"));  // the picture is for terminals
}

TEST_CASE("apps: scale-trace reads the JSON rows of a training log") {
  const TemporaryFile log(
      "rows.json", "[[0, 5.5, 1024, 1.0, 1.5],\n [1, NaN, 512, 0.0], [2, null, 512, 0, \"x\", [1, {\"a\": 2}]]]\n");
  const Json traces = narrow_json({"scale-trace", "--events", log.path(), "--policy", "torch:init=2^10,none"});
  CHECK(traces["recorded"].size() == 3);
  CHECK(traces["torch:init=2^10"][1]["scale"] == 512);
  CHECK(traces["none"][0]["skipped"] == false);
  const TemporaryFile objects("objects.json",
                              R"([{"step": 5, "amax": 1.0, "note": "a\"b"}, {"step": 9, "amax": "x"}])");
  check_refused({"scale-trace", "--events", objects.path()}, {"objects.json: line 1, column 64", "amax is a number"});
}

TEST_CASE("apps: scale-trace derives overflow from amax exactly") {
  const TemporaryFile log("amax.csv", "# a comment\nstep,loss,amax\n10,1,1.0\n11,2,1.0\n\n12,3,inf\n13,4,0\n");
  const Json torch =
      narrow_json({"scale-trace", "--events", log.path(), "--policy", "torch", "--init", "2^17"})["torch"];
  REQUIRE(torch.size() == 4);
  CHECK(torch[0]["step"] == 10);
  CHECK(torch[0]["skipped"] == true);  // 2^17 is beyond FP16
  CHECK(torch[1]["skipped"] == true);  // and 2^16 too
  CHECK(torch[2]["scale"] == 32768);
  CHECK(torch[2]["skipped"] == true);  // Inf is one at every scale
  CHECK(torch[3]["skipped"] == false);
  CHECK(contains(test::narrow({"scale-trace", "--events", log.path()}).out,
                 "exact: a step overflows when FP16(amax * scale) is Inf"));
}

// The lines of the summary, by policy.
std::string summary_of(const std::string& out, const std::string& policy) {
  const std::size_t table = out.find("\npolicy "), at = out.find("\n" + policy + " ", table);
  return at == std::string::npos ? "" : out.substr(at + 1, out.find('\n', at + 1) - at - 1);
}

TEST_CASE("apps: scale-trace says unknown where no step of the log tells") {
  // FP32: scale 1 and never an overflow. Nothing follows for any scale above 1.
  std::string rows = "[";
  for (int i = 0; i < 30; ++i) rows += (i == 0 ? "[" : ",\n[") + std::to_string(i) + ", 2.5, 1.0, 0.0, 1.8]";
  const TemporaryFile log("fp32.json", rows + "]\n");
  const std::vector<std::string> request = {"scale-trace", "--events", log.path(), "--policy",
                                            "torch:init=2^100,torch:init=1:growth-interval=4,constant:init=0.5,none"};
  const Ran ran = test::narrow(request);
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, "unknown at scales above 1, of which no step tells"));
  const std::string high = summary_of(ran.out, "torch:init=2^100"),
                    low = summary_of(ran.out, "torch:init=1:growth-interval=4");
  CHECK(contains(high, "2^100  unknown   unknown  unknown  unknown  unknown from step 0 (scales above 1)"));
  CHECK(contains(low, " 0, unknown from step 4 (scales above 1)"));
  CHECK_FALSE(contains(summary_of(ran.out, "constant:init=0.5"), "unknown"));
  CHECK_FALSE(contains(summary_of(ran.out, "none"), "unknown"));
  CHECK(contains(ran.out, "?2^100"));

  const Json traces = narrow_json(request);
  const Json& torch = traces["torch:init=1:growth-interval=4"];
  REQUIRE(torch.size() == 30);  // as many as the log has, as ever
  for (std::size_t i = 0; i < 30; ++i) {
    REQUIRE(torch[i].contains("scale"));
    CHECK(torch[i]["skipped"] == (i < 4 ? Json(false) : Json()));
    CHECK(torch[i]["scale"] == (i < 4 ? Json(1.0) : i == 4 ? Json(2.0) : Json()));
  }
  CHECK(torch[4]["known_up_to"] == 1);
  CHECK(torch[4]["known_from"].is_null());
  CHECK(traces["none"][29]["skipped"] == false);
  const TemporaryFile out("unknown.csv", "");
  CHECK(test::narrow({"scale-trace", "--events", log.path(), "--policy", "torch:init=1:growth-interval=4", "-o", out.path()})
            .status == 0);
  CHECK(contains(read(out.path()), "\n4,1,0,2,\n5,1,0,,\n"));
  const std::string story =
      test::narrow({"scale-trace", "--events", log.path(), "--policy", "torch:init=1:growth-interval=4", "--explain"}).out;
  CHECK(contains(story, "from step 4 on"));
  CHECK(contains(story, "unknown: the scale is 2^1, and no step of the log tells"));
  CHECK(contains(story, "0 of 4 known steps skipped"));
}

TEST_CASE("apps: scale-trace takes found_inf alone as recorded by the one policy or by the one that is named") {
  const TemporaryFile log("found.csv", "step,found_inf\n0,1\n1,true\n2,0\n");
  const Ran ran = test::narrow({"scale-trace", "--events", log.path(), "--policy", "torch"});
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, "taken as recorded by torch"));
  CHECK(narrow_json({"scale-trace", "--events", log.path(), "--policy", "torch"})["torch"][2]["scale"] == 16384);
  // With two policies it is anybody's.
  const Ran two = test::narrow({"scale-trace", "--events", log.path(), "--policy", "torch,keras"});
  CHECK(contains(summary_of(two.out, "torch"), "unknown from step 0 (every scale)"));
  const Json named =
      narrow_json({"scale-trace", "--events", log.path(), "--policy", "torch,keras", "--recorded", "torch:init=2^17"});
  CHECK(named["recorded"][2]["scale"] == 32768);
  CHECK(named["torch"][0]["skipped"] == true);
  CHECK(named["torch"][0]["estimated"] == true);  // 2^16 was found at the next step
  check_refused({"scale-trace", "--events", recorded, "--recorded", "torch"}, {"--recorded", "has its scales"});
  check_refused({"scale-trace", "--events", log.path(), "--recorded", "tourch"},
                {"--recorded", "did you mean 'torch'?"});
  check_refused({"scale-trace", "--events", log.path(), "--policy", "te-delayed"},
                {"te-delayed", "needs a log with amax"});
}

TEST_CASE("apps: scale-trace reads JSON lines and standard input and a log of scales alone") {
  const std::string csv = "step,scale\n0,1024\n1,512\n2,512\n3,512\n";
  const TemporaryFile scales("scales.csv", csv);
  const Ran ran = test::narrow({"scale-trace", "--events", scales.path(), "--policy", "torch:init=2^10"});
  CHECK(contains(ran.out, "found_inf is taken from the scale, which falls after an overflow (1 of 4 steps)"));
  CHECK(contains(summary_of(ran.out, "recorded"), "1 (1 step unknown)"));  // the last one
  const Json json = narrow_json({"scale-trace", "--events", scales.path(), "--policy", "torch:init=2^10"});
  CHECK(json["recorded"][0]["skipped"] == true);
  CHECK(json["recorded"][3]["skipped"].is_null());
  CHECK(json["recorded"][3]["scale"] == 512);
  CHECK(json["torch:init=2^10"][0]["skipped"] == true);
  CHECK(json["torch:init=2^10"][3]["estimated"] == true);

  const TemporaryFile lines("lines.jsonl",
                            "{\"step\": 0, \"scale\": 1024, \"found_inf\": true}\n"
                            "{\"step\": 1, \"scale\": 512, \"found_inf\": false}\n\n"
                            "{\"step\": 2, \"scale\": 512, \"found_inf\": false, \"note\": null}\n");
  const TemporaryFile arrays("arrays.jsonl", "[0, 2.5, 1024, 1]\n[1, 2.5, 512, 0]\n[2, null, 512, 0, \"x\"]\n");
  const Json expected = narrow_json({"scale-trace", "--events", lines.path(), "--policy", "torch:init=2^10"});
  CHECK(expected["recorded"].size() == 3);
  CHECK(expected == narrow_json({"scale-trace", "--events", arrays.path(), "--policy", "torch:init=2^10"}));
  const Ran piped = test::run_program(
      {"/bin/sh", "-c",
       std::string(NARROW_PROGRAM) + " scale-trace --events - --policy torch:init=2^10 --json < " + arrays.path()});
  CHECK(piped.status == 0);
  CHECK(Json::parse(piped.out) == expected);
  const Ran empty =
      test::run_program({"/bin/sh", "-c", std::string(NARROW_PROGRAM) + " scale-trace --events - < /dev/null"});
  CHECK(empty.status == 2);
  CHECK(contains(empty.err, "standard input"));
}

// Numbers that JSON cannot hold come as narrow writes them; null is what record_gpt.py writes for them.
TEST_CASE("apps: scale-trace takes an amax that is not recorded or not finite") {
  const TemporaryFile log("null.json",
                          "[{\"amax\": 1, \"scale\": 4096, \"found_inf\": 0},"
                          " {\"amax\": null, \"scale\": 65536, \"found_inf\": 1},"
                          " {\"amax\": \"inf\", \"scale\": 32768, \"found_inf\": 1},"
                          " {\"amax\": 1, \"scale\": 16384, \"found_inf\": 0}]");
  const Ran ran = test::narrow({"scale-trace", "--events", log.path(), "--policy", "constant:init=1024,constant:init=2^17"});
  CHECK(contains(ran.out, "exact at the 3 of 4 steps with amax"));
  CHECK(contains(ran.out, "amax is Inf or NaN at 1 of 4 steps"));
  CHECK(contains(summary_of(ran.out, "constant:init=1024"), " 1 (1 step estimated)"));
  CHECK(contains(summary_of(ran.out, "constant:init=2^17"), " 4  "));
  check_refused({"scale-trace", "--events", log.path(), "--policy", "te-current"},
                {"te-current", "the amax of every step; step 1 has none"});
}

TEST_CASE("apps: scale-trace says where a log disagrees with itself") {
  const TemporaryFile log("odd.csv",
                          "step,amax,scale,found_inf\n0,1,1024,0\n1,1,1024,1\n2,1,512,0\n5,1,512,0\n6,1,256,0\n");
  const Ran ran = test::narrow({"scale-trace", "--events", log.path(), "--policy", "constant:init=4096"});
  CHECK(contains(ran.out, "amax and found_inf disagree at 1 of 5 steps, first at step 1"));
  CHECK(contains(ran.out, "the steps have gaps"));
  CHECK(contains(ran.out, "the recorded scale falls after 1 of 5 steps without found_inf"));
  CHECK(contains(summary_of(ran.out, "constant:init=4096"), "1 (4 steps estimated)"));
  const std::string story =
      test::narrow({"scale-trace", "--events", log.path(), "--policy", "constant:init=4096", "--explain"}).out;
  CHECK(contains(story, "(as recorded at 2^10 already)"));
}

TEST_CASE("apps: scale-trace reads the files of record_gpt.py") {
  const std::string logs = NARROW_DATA "/torch/logs.json", histograms = NARROW_DATA "/torch/histograms.json";
  const Ran first = test::narrow({"scale-trace", "--events", logs, "--policy", "torch"});
  CHECK(first.status == 0);
  CHECK(contains(first.out, "run 'fp16', the first of 'fp16', 'fp32', 'bf16'"));
  CHECK(contains(first.out, "1001 steps with amax and scale and found_inf"));
  // The run itself again, from its own amax: what torch's scaler did.
  const Json high = narrow_json(
      {"scale-trace", "--events", logs + ":fp16 from 2^30", "--policy", "torch:init=2^30:growth-interval=20"});
  const Json &truth = high["recorded"], &torch = high["torch:init=2^30:growth-interval=20"];
  REQUIRE(truth.size() == torch.size());
  for (std::size_t i = 0; i < truth.size(); ++i) REQUIRE(truth[i]["skipped"] == torch[i]["skipped"]);
  const Ran wide = test::narrow({"scale-trace", "--events", logs + ":fp32", "--policy", "torch"});
  CHECK(contains(wide.out, "logs.json:fp32: 1001 steps"));
  CHECK_FALSE(contains(wide.out, "unknown"));  // amax tells
  check_refused({"scale-trace", "--events", logs + ":fp17"}, {"logs.json", "no run 'fp17'", "'fp16 interval 20'"});
  check_refused({"scale-trace", "--events", histograms + ":fp16"}, {"histograms.json", "without runs"});
  const Ran passes = test::narrow({"scale-trace", "--events", histograms, "--policy", "constant:init=2^20"});
  CHECK(contains(passes.out, "the largest of all gradients of 5 passes"));
  CHECK(contains(passes.out, "the steps have gaps: the policies count the rows of the log"));
}

TEST_CASE("apps: scale-trace reads the steps of narrow train") {
  const TemporaryFile folder("train", "");
  const std::string out = folder.path() + ".d";
  REQUIRE(test::narrow({"train", "--recipe", "fp16-amp,fp16-amp-noscale", "--steps", "3", "-o", out}).status == 0);
  const Json traces = narrow_json({"scale-trace", "--events", out + "/fp16-amp-seed1.csv", "--policy", "torch"});
  CHECK(traces["torch"] == traces["recorded"]);
  CHECK(traces["torch"].size() == 3);
  std::filesystem::remove_all(out);
}

TEST_CASE("apps: scale-trace finds collapse and stall and the end of a run") {
  std::string rows = "step,amax\n";
  for (int i = 0; i < 200; ++i) rows += std::to_string(i) + ",inf\n";
  const TemporaryFile log("inf.csv", rows);
  const Ran ran = test::narrow({"scale-trace", "--events", log.path(), "--policy", "torch,deepspeed,keras"});
  CHECK(contains(ran.out, "collapsed at step 144"));
  CHECK(contains(ran.out, "run ends at step 17: the framework raises"));
  CHECK(contains(ran.out, "stalled from step 0: 200 steps in a row skipped"));
  const Json traces = narrow_json({"scale-trace", "--events", log.path(), "--policy", "torch,deepspeed"});
  CHECK(traces["deepspeed"].size() == 18);
  CHECK(traces["deepspeed"][17]["event"] == "ended");
  CHECK(traces["torch"][165]["event"] == "lost");
  CHECK(traces["torch"][166]["scale"] == 0.0);
}

TEST_CASE("apps: scale-trace writes every step as CSV and whole or not at all") {
  const TemporaryFile out("out.csv", "old");
  CHECK(test::narrow({"scale-trace", "--events", recorded, "--policy", "torch,keras", "-o", out.path()}).status == 0);
  const std::string text = read(out.path());
  CHECK(text.rfind("step,recorded scale,recorded skipped,torch scale,torch skipped", 0) == 0);
  CHECK(std::count(text.begin(), text.end(), '\n') == 402);
  check_refused({"scale-trace", "--events", recorded, "-o", "/nonexistent-folder/x.csv"},
                {"/nonexistent-folder/x.csv"});
}

TEST_CASE("apps: scale-trace draws on a terminal") {
  test::RunOptions terminal;
  terminal.output = test::RunOptions::Output::terminal;
  const Ran ran = test::narrow({"scale-trace", "--events", recorded, "--policy", "torch,megatron"}, terminal);
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, "r recorded, t torch, m megatron"));
  CHECK(contains(ran.out, "+-----"));
  CHECK(contains(test::narrow({"scale-trace", "--events", recorded, "--plot"}).out, "r recorded"));
}

TEST_CASE("apps: scale-trace names the line and column of what is wrong in a log") {
  const auto refused = [](const std::string& name, const std::string& content, const std::string& place,
                          const std::string& word) {
    const TemporaryFile log(name, content);
    check_refused({"scale-trace", "--events", log.path()}, {place, word});
  };
  refused("a.csv", "step,amax\n0,1\n1,abc\n", "line 3, column 3", "'abc' is no number");
  refused("b.csv", "step,amax\n0,1,2\n", "line 2, column 1", "3 values under 2 names");
  refused("c.csv", "step,loss\n0,1\n", "line 1, column 1", "no column amax, found_inf or scale");
  refused("d.csv", "step,amax\n1,1\n1,1\n", "line 3, column 1", "steps ascend");
  refused("e.csv", "step,amax\n0,-1\n", "line 2, column 3", "0 or more");
  refused("f.csv", "step,scale,found_inf\n0,0,1\n", "line 2, column 3", "a positive finite number");
  refused("f2.csv", "step,scale,found_inf\n0,-8,1\n", "line 2, column 3", "a positive finite number");
  refused("g.csv", "step,amax\n", "line", "no steps");
  refused("h.csv", "", "line 1, column 1", "no steps");
  refused("i.csv", "step,found_inf\n0,-1\n", "line 2, column 3", "found_inf is 0 or 1");
  refused("j.csv", "amax,amax\n0,1\n", "line 1, column 6", "a second column");
  refused("k.csv", "step,amax\n0.5,1\n", "line 2, column 1", "a step is an integer");
  refused("a.json", "[[0, 1, 2, 0],\n [1, 2, 3]]", "line 2, column 2", "a row of 3 values");
  refused("b.json", "[[0, 1, 2, 0]", "line 1, column 14", "expected");
  refused("c.json", "[[0, 1, x, 0]]", "line 1, column 9", "'x' is no JSON value");
  refused("d.json", "{\"a\": 1}", "line 1, column 1", "neither amax nor found_inf nor scale");
  refused("e.json", "[1, 2]", "line 1, column 1", "a row of 2 values; expected [step, loss, scale, found_inf, ...]");
  refused("e2.json", "[[1], 2]", "line 1, column 2", "a row of 1 values");
  refused("e3.json", "[{\"scale\": 1}, 2]", "line 1, column 16", "a row is an array or an object");
  refused("f.json", "[[0, 1, 2, 0]] x", "line 1, column 16", "after the end");
  refused("g.json", "[[0, 1, 0, 0]]", "line 1, column 9", "a positive finite number");
  refused("h.json", "[{\"step\": 0}]", "line 1, column 2", "neither amax nor found_inf nor scale");
  refused("i.json", "[{\"step: 0}]", "line 1, column 3", "a string without an end");
  refused("j.json", "[" + std::string(100000, '['), "line 1", "nested too deep");
  refused("names.json", "{\"columns\": [\"st\x07p\", \"amax\"], \"rows\": [[]]}", "line 1, column 40",
          "expected ['st\\x07p', 'amax', ...]");
  refused("two.json", R"({"rows": [[0, 1, 2, 0]], "rows": []})", "line 1, column 26", "a second 'rows'");
  refused("end.json", R"({"rows": [[0, 1, 2, 0]]} {})", "line 1, column 26", "text after the end");
  refused("k.json", "[{\"amax\": 1, \"amax\": 2}]", "line 1, column 14", "a second 'amax'");
  refused("l.json", "[]", "line 1", "no steps");
  refused("m.json", "[0, 1, 2, 0]\n[1, 2, 3]\n", "line 2, column 1", "a row of 3 values");
  refused("n.json", "{\"runs\": []}", "line 1, column 10", "no runs");
  refused("o.json", "{\"runs\": [{\"name\": \"a\"}]}", "line 1", "no \"rows\"");
  refused("p.json", "{\"runs\": [{\"columns\": [\"step\", \"amax\"], \"rows\": [[0, \"x\"]]}]}", "line 1, column 54",
          "amax is a number");
  refused("q.json", "{\"steps\": [{\"tensors\": []}]}", "line 1, column 11", "no pass with gradients");
  refused("r.json", "[{\"step\": null, \"amax\": 1}]", "line 1, column 11", "a step is an integer");
  refused("s.json", "[{\"scale\": null, \"found_inf\": 1}]", "line 1, column 12", "a positive finite number");
  check_refused({"scale-trace", "--events", "/tmp"}, {"cannot read '/tmp'", "a folder"});
  check_refused({"scale-trace", "--events", "/dev/zero"}, {"cannot read '/dev/zero'", "a device"});
  check_refused({"scale-trace", "--events", "/nonexistent.csv"}, {"cannot read '/nonexistent.csv'"});
}

// DeepSpeed's rule from its definition: with k good steps since the last overflow the scale doubles where k - 1 is a
// positive multiple of the window; an overflow halves it once `patience` of them came since the last growth.
TEST_CASE("apps: scale-trace reads the loss scale of ds_config.json and of Megatron's flags") {
  const TemporaryFile config("ds_config.json", R"({"train_batch_size": 8, "zero_optimization": {"stage": 2},
    "fp16": {"enabled": true, "initial_scale_power": 14, "loss_scale_window": 3, "hysteresis": 2}})");
  const TemporaryFile flags("args.txt", "--fp16 --initial-loss-scale 16384\n--loss-scale-window 3 # a window\n");
  std::string rows = "step,amax\n";
  std::vector<int> amax_log2;  // the product with a scale is a power of two: an overflow from 2^16 on
  for (unsigned i = 0, x = 1; i < 300; ++i) {
    x = x * 1664525u + 1013904223u;
    amax_log2.push_back(static_cast<int>((x >> 24) % 5) - 2 + (i / 100 % 2 == 1 ? 3 : 0));
    rows += std::to_string(i) + "," + std::to_string(std::ldexp(1.0, amax_log2.back())) + "\n";
  }
  const TemporaryFile log("amax.csv", rows);
  const std::string from_file = "deepspeed:" + config.path(), by_hand = "deepspeed:init=2^14:growth-interval=3";
  const std::string megatron = "megatron:" + flags.path(),
                    by_flags = "megatron:--fp16 --initial-loss-scale 2^14 --loss-scale-window 3",
                    set = "megatron:init=2^14:growth-interval=3";
  const Json traces = narrow_json({"scale-trace", "--events", log.path(), "--policy",
                                   from_file + "," + by_hand + "," + megatron + "," + by_flags + "," + set});
  CHECK(traces[from_file] == traces[by_hand]);
  CHECK(traces[megatron] == traces[set]);
  CHECK(traces[by_flags] == traces[set]);
  int scale = 14, good = 0, patience = 2, growths = 0;
  for (std::size_t i = 0; i < amax_log2.size(); ++i) {
    CAPTURE(i);
    REQUIRE(traces[from_file][i]["scale"] == std::ldexp(1.0, scale));
    const bool overflows = scale + amax_log2[i] >= 16;
    REQUIRE(traces[from_file][i]["skipped"] == overflows);
    if (overflows) {
      if (patience == 1) --scale;
      else --patience;
      good = 0;
    } else if (++good > 1 && (good - 1) % 3 == 0) {
      ++scale, ++growths, patience = 2;
    }
  }
  CHECK(growths > 10);
  const TemporaryFile brain("bf16.json", R"({"bf16": {"enabled": true}})"),
      typo("typo.json", R"({"fp16": {"hystersis": 3}})");
  check_refused({"scale-trace", "--events", log.path(), "--policy", "deepspeed:" + brain.path()},
                {"--policy", "scales no loss"});
  check_refused({"scale-trace", "--events", log.path(), "--policy", "deepspeed:" + typo.path()},
                {"--policy", "typo.json", "fp16", "'hystersis'", "did you mean 'hysteresis'"});
  check_refused({"scale-trace", "--events", log.path(), "--policy", "deepspeed:/no/such.json"}, {"/no/such.json"});
}

TEST_CASE("apps: scale-trace refuses policies and parameters that cannot be") {
  const auto refused = [](std::vector<std::string> more, const std::vector<std::string>& words) {
    more.insert(more.begin(), {"scale-trace", "--events", recorded});
    check_refused(more, words);
  };
  refused({"--policy", "tourch"}, {"--policy", "did you mean 'torch'?"});
  refused({"--policy", "torch,,apex"}, {"--policy", "an empty name"});
  refused({"--policy", "torch,torch"}, {"named twice"});
  refused({"--policy", "torch:speed=2"}, {"parameter 'speed' is unknown"});
  refused({"--init", "0"}, {"init is 0", "a positive finite number"});
  refused({"--init", "-4"}, {"init is -4"});
  refused({"--init", "2^"}, {"--init"});
  refused({"--growth-interval", "0"}, {"growth-interval is 0", "at least 1"});
  refused({"--growth", "1"}, {"above 1"});
  refused({"--backoff", "1.5"}, {"below 1"});
  refused({"--hysteresis", "0"}, {"hysteresis is 0"});
  refused({"--min", "0"}, {"min is 0"});
  refused({"--policy", "torch", "--hysteresis", "2"}, {"--hysteresis", "none of these policies"});
  for (const char* flag : {"--init", "--growth-interval", "--growth", "--backoff", "--hysteresis", "--min", "--max"})
    for (const char* bad : {"0", "-1", "nan", "inf", "x", ""}) refused({flag, bad}, {flag});
  refused({"--gradients", "x.safetensors"}, {"exclude each other"});
  refused({"--model", "growth"}, {"--model goes with --gradients"});
  check_refused({"scale-trace"}, {"nothing to follow"});
  check_refused({"scale-trace", "--gradients", "x.npy"}, {"needs --model"});
  check_refused({"scale-trace", "--gradients", "x.npy", "--model", "up"}, {"--model", "growth decay spikes"});
  check_refused({"scale-trace", "--gradients", "x.npy", "--model", "decay", "--steps", "0"}, {"--steps"});
  check_refused({"scale-trace", "--gradients", "/nonexistent.npy", "--model", "decay"}, {"/nonexistent.npy"});
}

// A .npy of 8192 floats: the second half has the smaller amax, so that the model has two pieces to draw from.
TEST_CASE("apps: scale-trace models gradients from a tensor file") {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (8192,), }";
  header += std::string(64 - (10 + header.size() + 1) % 64, ' ') + "\n";
  std::string file = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 0xFF) +
                     static_cast<char>(header.size() >> 8) + header;
  for (int i = 0; i < 8192; ++i) {
    const float x = i < 4096 ? 0x1p-3f : 0x1p-5f;
    file.append(reinterpret_cast<const char*>(&x), 4);
  }
  const TemporaryFile gradients("g.npy", file);
  const std::vector<std::string> request = {"scale-trace", "--gradients", gradients.path(),
                                            "--model",     "growth",      "--steps",
                                            "500",         "--policy",    "torch:growth-interval=20,te-delayed"};
  const Json traces = narrow_json(request);
  CHECK(traces["torch:growth-interval=20"].size() == 500);
  // 2^16 times 2^-3 to 2^-5 at the end: at most 2^3 fits FP16 then.
  CHECK(traces["torch:growth-interval=20"][499]["scale"].get<double>() <= 64);
  CHECK(traces["te-delayed"][499]["scale"].get<double>() < traces["te-delayed"][1]["scale"].get<double>());
  CHECK(traces == narrow_json(request));
  const Ran ran = test::narrow(request);
  CHECK(contains(ran.out, "model growth, 500 steps"));
  CHECK(contains(ran.out, "steps clipped"));
}

TEST_CASE("apps: list-scaling shows every policy and rule with its source") {
  const Json rows = narrow_json({"list-scaling"});
  std::set<std::string> names;
  for (const Json& row : rows) {
    CHECK_FALSE(row["source"].get<std::string>().empty());
    names.insert(row["name"].get<std::string>());
  }
  for (const char* name : {"torch", "megatron", "deepspeed", "apex", "fairseq", "keras", "te-delayed", "te-current",
                           "mxfp8_e4m3", "nvfp4", "mxint8", "ocp_floor", "cuda_round_up", "torchao_even", "te_nvfp4"})
    CHECK_MESSAGE(names.count(name) == 1, name);
  const Ran ran = test::narrow({"list-scaling"});
  CHECK(ran.status == 0);
  for (const std::string& name : names) CHECK_MESSAGE(contains(ran.out, name), name);
}
