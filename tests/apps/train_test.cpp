// narrow train from outside: tables, files, going on after a break, and requests that cannot be met.
#include <signal.h>
#include <sys/resource.h>

#include <sstream>

#include "tensor_files.hpp"

using test::check_refused;
using test::contains;
using test::Json;
using test::narrow_json;
using test::Ran;
using test::run;

namespace {

std::size_t count_lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

pid_t start_training(const std::string& folder, bool ignores_hangup) {
  const pid_t child = fork();
  if (child != 0) return child;
  for (const int s : {SIGINT, SIGQUIT}) signal(s, SIG_DFL);
  signal(SIGHUP, ignores_hangup ? SIG_IGN : SIG_DFL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  dup2(open("/dev/null", O_WRONLY), 1);
  execl(NARROW_PROGRAM, "narrow", "train", "--recipe", "fp32,bf16-amp", "--steps", "1000000", "-o", folder.c_str(),
        nullptr);
  _exit(127);
}

}  // namespace

TEST_CASE("apps: train sends block formats between ranks, and what rounding held back is sent later") {
  const auto loss = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"train", "--recipe", "fp32", "--steps", "30", "--ranks", "4"};
    words.insert(words.end(), more.begin(), more.end());
    return narrow_json(words)[0]["final_loss"].get<double>();
  };
  const double exact = loss({}), rough = loss({"--reduce", "e5m1"}),
               fed = loss({"--reduce", "e5m1", "--error-feedback"});
  CHECK(rough != exact);
  CHECK(std::abs(fed - exact) < std::abs(rough - exact));
  CHECK(loss({"--reduce", "mxfp8_e5m2"}) != exact);
  check_refused({"train", "--recipe", "fp32", "--error-feedback"}, {"--error-feedback", "--ranks"});
  check_refused({"train", "--recipe", "fp32", "--ranks", "2", "--error-feedback", "--resume", "-o", "x"},
                {"checkpoint"});
  check_refused({"train", "--recipe", "fp32", "--ranks", "2", "--reduce", "nonsense"}, {"--reduce", "nonsense"});
  check_refused({"train", "--recipe", "fp32", "--ranks", "2", "--order", "mpi"}, {"--order", "mpi"});
}

TEST_CASE("apps: train compares recipes from the same start") {
  const std::vector<std::string> request = {"train", "--recipe", "fp32,bf16-amp,fp16-pure", "--steps", "30"};
  const Ran ran = run(request);
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, "digits: MLP 64-128-128-10, 26122 parameters, batch 64, 30 steps of AdamW"));
  for (const char* word : {"final loss", "held out", "right %", "where it broke", "fp16-pure", "broke at step 0"})
    CHECK(contains(ran.out, word));
  CHECK(run(request).out == ran.out);

  const Json rows = narrow_json(request);
  REQUIRE(rows.size() == 3);
  for (const Json& row : rows)
    for (const char* key : {"recipe", "task", "seed", "steps", "final_loss", "best_loss", "skipped", "first_nonfinite"})
      CHECK(row.contains(key));
  CHECK(rows[0]["task"] == "digits");
  CHECK(rows[0]["steps"] == 30);
  CHECK(rows[0]["first_nonfinite"].is_null());
  CHECK(rows[0]["final_loss"].get<double>() < 2);  // of log 10 = 2.3 at the start
  CHECK(rows[2]["final_loss"] == "nan");
  CHECK(rows[2]["first_nonfinite"] == "step 0: update of layers.0.weight");
}

TEST_CASE("apps: train --model cnn trains convolutions on images and is refused elsewhere") {
  const std::vector<std::string> request = {"train", "--model", "cnn", "--recipe", "fp32,mxfp8", "--steps", "6"};
  const Ran ran = run(request);
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, "digits: CNN of 8x8 images, channels 1-8-16, 3842 parameters, batch 64, 6 steps of AdamW"));
  CHECK(narrow_json(request)[1]["final_loss"].get<double>() < 2.3);  // log 10 at the start
  check_refused({"train", "--task", "lm", "--model", "cnn"}, {"--model", "'cnn'", "accepted: transformer"});
  check_refused({"train", "--model", "resnet"}, {"--model", "'resnet'", "accepted: mlp cnn"});
  check_refused({"train", "--model", "cnn", "--hidden", "0"}, {"--hidden"});
  check_refused({"train", "--model", "cnn", "--layers", "2"}, {"--layers"});
  check_refused({"train", "--model", "cnn", "--hidden", "2,2,2,2,2", "--batch", "1", "--recipe", "fp32"},
                {"norms.3", "one value a channel has no variance"});
}

TEST_CASE("apps: train shows the spread over seeds") {
  const Ran ran = run({"train", "--recipe", "fp32", "--steps", "5", "--seed", "1,2,3"});
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, " +- "));
  CHECK(narrow_json({"train", "--recipe", "fp32", "--steps", "5", "--seed", "1,2,3"}).size() == 3);
}

TEST_CASE("apps: train trains a language model on a text of one's own") {
  const test::Folder folder;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the quick brown fox jumps over the lazy dog. ";
  const Json rows =
      narrow_json({"train", "--task", "lm", "--text", folder.write("fox.txt", text), "--recipe", "fp32", "--layers",
                   "1", "--width", "32", "--heads", "2", "--context", "16", "--steps", "60", "--lr", "0.01"});
  CHECK(rows[0]["final_loss"].get<double>() < 1.5);  // of 5.5 at the start; the letters of one sentence are soon known
  CHECK(rows[0]["held_out_accuracy"].is_null());
  const Ran piped = test::run_program({"/bin/sh", "-c",
                                       "exec " NARROW_PROGRAM
                                       " train --task lm --text - --recipe fp32 --layers 1 --width 32 --heads 2 "
                                       "--context 16 --steps 2 < " +
                                           (folder / "fox.txt")});
  CHECK(piped.status == 0);
  CHECK(contains(piped.out, "context 16"));
}

TEST_CASE("apps: train has flags for QK-norm and soft cap and RMSNorm") {
  const auto heading = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"train", "--task",  "lm", "--recipe",  "fp32", "--layers", "1", "--width",
                                      "32",    "--heads", "2",  "--context", "16",   "--steps",  "2"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run(words);
    CHECK(ran.status == 0);
    return ran.out;
  };
  const std::string plain = heading({});
  for (const char* word : {"QK-norm", "soft cap", "RMSNorm"}) CHECK_FALSE(contains(plain, word));
  CHECK(contains(plain, " 29664 parameters"));
  CHECK(contains(heading({"--qk-norm"}), "QK-norm, context 16, 29696 parameters"));   // 2 gains of 16
  CHECK(contains(heading({"--rms-norm"}), "RMSNorm, context 16, 29568 parameters"));  // 3 biases of 32 less
  CHECK(contains(heading({"--soft-cap", "0.001"}), "soft cap 0.001, context 16, 29664 parameters"));
  CHECK(heading({"--soft-cap", "0.001", "--json"}) != heading({"--json"}));
  const std::string help = run({"train", "--help"}).out;
  for (const char* flag : {"--qk-norm", "--soft-cap", "--rms-norm"}) {
    CHECK(contains(help, flag));
    std::vector<std::string> on_digits = {"train", flag};
    if (std::string(flag) == "--soft-cap") on_digits.push_back("30");
    check_refused(on_digits, {flag, "no attention", "lm"});
  }
  for (const char* x : {"0", "-1", "inf", "nan", "many"})
    check_refused({"train", "--task", "lm", "--soft-cap", x}, {"--soft-cap"});
}

TEST_CASE("apps: train writes every step and goes on where it stopped") {
  const test::Folder folder;
  const auto train = [&](const std::string& name, const std::string& steps, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"train", "--recipe", "fp16-amp", "--steps", steps, "-o", folder / name};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  CHECK(train("whole", "9").status == 0);
  const std::string whole = test::read_file(folder / "whole/fp16-amp-seed1.csv");
  CHECK(count_lines(whole) == 10);
  CHECK(whole.rfind("step,loss,scale,skipped,gradient_norm,update_ratio,", 0) == 0);
  CHECK(train("parts", "4").status == 0);
  const Ran rest = train("parts", "9", {"--resume"});
  CHECK(rest.status == 0);
  CHECK(rest.out == train("whole", "9").out);
  CHECK(test::read_file(folder / "parts/fp16-amp-seed1.csv") == whole);
  CHECK(test::read_file(folder / "parts/fp16-amp-seed1.safetensors") ==
        test::read_file(folder / "whole/fp16-amp-seed1.safetensors"));
  check_refused({"train", "--recipe", "fp16-amp", "--steps", "9", "--lr", "0.5", "--resume", "-o", folder / "parts"},
                {"fp16-amp-seed1.safetensors", "the checkpoint of another run", "optimiser"});
}

TEST_CASE("apps: train writes reports and dumps of chosen steps") {
  const test::Folder folder;
  CHECK(run({"train", "--recipe", "fp8-current", "--steps", "5", "--instrument", "every=2", "--dump", "3", "-o",
             folder / "run"})
            .status == 0);
  const std::string report = test::read_file(folder / "run/fp8-current-seed1-step4.csv");
  CHECK(report.rfind("tensor,operation,role,format,count,underflow,overflow,nonfinite,amax,zeros,exponents\n", 0) == 0);
  CHECK(contains(report, "layers.1,linear,gradients,e5m2,"));
  CHECK(contains(test::read_file(folder / "run/fp8-current-seed1-step3.safetensors"), "gradient.layers.0.weight"));
  CHECK(run({"inspect", folder / "run/fp8-current-seed1-step3.safetensors"}).status == 0);
}

TEST_CASE("apps: train does not resume to fewer steps nor watch steps that are done") {
  const test::Folder folder;
  const std::string run_folder = folder / "run";
  const auto resume = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"train", "--recipe", "fp32", "-o", run_folder, "--resume"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  CHECK(run({"train", "--recipe", "fp32", "--steps", "6", "-o", run_folder}).status == 0);
  const std::string before = test::read_file(run_folder + "/fp32-seed1.safetensors");
  check_refused(resume({"--steps", "4"}), {"--steps", "fp32-seed1.safetensors", "has 6 steps already"});
  check_refused(resume({"--steps", "6", "--dump", "3"}), {"--dump", "has 6 steps already", "still to come"});
  check_refused(resume({"--steps", "9", "--dump", "5"}), {"--dump", "has 6 steps already"});
  check_refused(resume({"--steps", "6", "--instrument", "1"}), {"--instrument", "has 6 steps already"});
  check_refused(resume({"--steps", "9", "--instrument", "every=10"}),
                {"--instrument", "no step that is still to come"});
  // Nothing is begun before all runs are looked at, and nothing is touched.
  check_refused({"train", "--recipe", "bf16-amp,fp32", "--steps", "4", "-o", run_folder, "--resume"}, {"--steps"});
  CHECK_FALSE(std::filesystem::exists(run_folder + "/bf16-amp-seed1.safetensors"));
  CHECK(test::read_file(run_folder + "/fp32-seed1.safetensors") == before);
  CHECK(run(resume({"--steps", "6"})).status == 0);
  CHECK(run(resume({"--steps", "8", "--dump", "7", "--instrument", "every=7"})).status == 0);
  CHECK(std::filesystem::exists(run_folder + "/fp32-seed1-step7.safetensors"));
  CHECK(std::filesystem::exists(run_folder + "/fp32-seed1-step7.csv"));
}

TEST_CASE("apps: train says that a run broke before the step to be written") {
  const test::Folder folder;
  const Ran ran = run({"train", "--recipe", "fp16-pure", "--steps", "5", "--dump", "3", "-o", folder / "run"});
  CHECK(ran.status == 0);
  CHECK(contains(ran.err, "--dump: fp16-pure broke before step 3"));
  check_refused(
      {"train", "--recipe", "fp16-pure", "--steps", "5", "--resume", "--instrument", "1", "-o", folder / "run"},
      {"--instrument", "has 1 step already", "broke"});
}

// Seeds differ: what is shown must hold for all of them.
TEST_CASE("apps: train shows the range of scales and skipped steps over seeds and NaN where a run went on with it") {
  const Ran ran =
      run({"train", "--recipe", "fp16-amp", "--lr", "1e3", "--clip", "1e-30", "--steps", "30", "--seed", "1,2"});
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, "nan"));  // the loss of a run that did not break
  const Json rows = narrow_json(
      {"train", "--recipe", "fp16-amp", "--loss-scaler", "torch:init=2^22", "--steps", "12", "--seed", "1,2,3,4,5,6"});
  double least = 1e30, most = 0;
  for (const Json& row : rows)
    least = std::min(least, row["last_scale"].get<double>()), most = std::max(most, row["last_scale"].get<double>());
  const std::string out = run({"train", "--recipe", "fp16-amp", "--loss-scaler", "torch:init=2^22", "--steps", "12",
                               "--seed", "1,2,3,4,5,6"})
                              .out;
  CHECK(contains(out, " to ") == (least != most));
  CHECK(run({"train", "--recipe", "fp32", "--steps", "1"}).out.find("1 step of AdamW") != std::string::npos);
}

TEST_CASE("apps: train prints recipes that it reads again") {
  const test::Folder folder;
  const Ran shown = run({"train", "--print-recipe", "fp8-current"});
  CHECK(shown.status == 0);
  const std::string file = folder.write("mine.json", shown.out);
  CHECK(run({"train", "--print-recipe", file}).out == shown.out);
  CHECK(run({"train", "--recipe", file, "--steps", "5"}).out ==
        run({"train", "--recipe", "fp8-current", "--steps", "5"}).out);
  CHECK(contains(run({"train", "--list-recipes"}).out, "bf16-pure-kahan"));
  const Json recipes = narrow_json({"train", "--list-recipes"});
  CHECK(recipes.size() >= 27);
  for (const Json& recipe : recipes)
    for (const char* key : {"name", "loss_scaler", "what"}) CHECK(recipe.contains(key));
}

TEST_CASE("apps: train takes other frameworks' settings as recipes") {
  const test::Folder folder;
  const std::string file = folder.write("ds_config.json", R"({"train_batch_size": 32, "gradient_accumulation_steps": 2,
    "fp16": {"enabled": true, "initial_scale_power": 8}, "zero_optimization": {"stage": 2}, "scheduler": {},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.004}}, "gradient_clipping": "auto"})");
  const Ran ran = run({"train", "--recipe", "fp32," + file, "--steps", "20"});
  CHECK(ran.status == 0);
  CHECK(contains(ran.out, "batch 32 in 2 micro-batches, 20 steps of AdamW"));
  CHECK(contains(ran.out, "ds_config "));
  CHECK(contains(ran.out, "       256  -"));  // the scale
  for (const char* note : {"has no effect on numbers here: zero_optimization.stage\n", "not computed here: scheduler\n",
                           "taken as not given: gradient_clipping\n", "gradient_clipping is not given: 1",
                           "sets for all runs, where no flag does: batch 32, 2 micro-batches, AdamW with betas 0.9 and "
                           "0.999 and epsilon 1e-08, weight decay 0, learning rate 0.004, gradients clipped at 1\n"})
    CHECK_MESSAGE(contains(ran.err, note), note);
  // Flags win.
  CHECK(contains(run({"train", "--recipe", file, "--steps", "2", "--batch", "16"}).out, "batch 16 in 2 micro-batches"));
  const Ran several =
      run({"train", "--recipe", "fsdp:param_dtype=bfloat16,reduce_dtype=float32,fp32,allow_tf32", "--steps", "5"});
  CHECK(several.status == 0);
  for (const char* name : {"\nfsdp-param_dtype-bfloat16-reduce_dtype-float32 ", "\nfp32 ", "\nallow_tf32 "})
    CHECK_MESSAGE(contains(several.out, name), name);
  CHECK(several.err == "");
  CHECK(run({"train", "--recipe", "megatron:--bf16 --fp8-format hybrid", "--steps", "5"}).status == 0);
  CHECK(contains(run({"train", "--print-recipe", file}).out, "\"loss_scaler\": \"deepspeed:init=2^8\""));
  CHECK(contains(run({"train", "--list-recipes"}).out, "--recipe ds_config.json"));
  check_refused({"train", "--recipe", file + ",megatron:--fp16"}, {"--recipe", "ds_config", "set different things"});
  check_refused(
      {"train", "--recipe", folder.write("a.json", R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})")},
      {"--recipe", "a.json", "both enabled"});
  check_refused(
      {"train", "--recipe", folder.write("b.json", R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 5})")},
      {"--recipe", "b.json", "a batch of 64 is not 12 micro-batches of 5 on 1 rank"});
  check_refused({"train", "--recipe", folder.write("c.json", "{\"fp16\": {\"\\u001b[31m\": 1}}")},
                {"c.json", "fp16: key '\\x1B[31m'"});
}

TEST_CASE("apps: train keeps what was done when a signal ends it") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, 0}) {  // 0: SIGHUP under nohup, then SIGTERM
    CAPTURE(signal);
    const test::Folder folder;
    const pid_t child = start_training(folder / "run", signal == 0);
    for (int i = 0; i < 500 && !std::filesystem::exists(folder / "run/fp32-seed1.safetensors"); ++i) usleep(20000);
    usleep(200000);
    int state = 0;
    if (signal == 0) {
      kill(child, SIGHUP);
      usleep(300000);
      CHECK(waitpid(child, &state, WNOHANG) == 0);
    }
    kill(child, signal == 0 ? SIGTERM : signal);
    waitpid(child, &state, 0);
    CHECK(WIFSIGNALED(state));
    CHECK(WTERMSIG(state) == (signal == 0 ? SIGTERM : signal));
    const std::size_t steps = count_lines(test::read_file(folder / "run/fp32-seed1.csv")) - 1;
    CHECK(steps >= 1);
    // Two steps more, and the rows that were there are the same.
    const std::string before = test::read_file(folder / "run/fp32-seed1.csv");
    CHECK(run({"train", "--recipe", "fp32", "--steps", std::to_string(steps + 2), "--resume", "-o", folder / "run"})
              .status == 0);
    const std::string after = test::read_file(folder / "run/fp32-seed1.csv");
    CHECK(after.rfind(before, 0) == 0);
    CHECK(count_lines(after) == steps + 3);
  }
}

TEST_CASE("apps: train refuses a damaged checkpoint and leaves it and goes on from the one before when it is removed") {
  const test::Folder folder;
  const std::string last = folder / "run/fp32-seed1.safetensors",
                    previous = folder / "run/fp32-seed1.previous.safetensors";
  const auto words = [&](const std::string& steps, const std::string& where) {
    return std::vector<std::string>{"train", "--recipe", "fp32", "--steps", steps, "--resume", "-o", folder / where};
  };
  for (const char* steps : {"3", "5"}) CHECK(run(words(steps, "run")).status == 0);
  std::string damaged = test::read_file(last);
  damaged[damaged.size() - 9] ^= 4;
  folder.write("run/fp32-seed1.safetensors", damaged);
  check_refused(words("7", "run"), {"fp32-seed1.safetensors': damaged: its checksum is ", "the one before it is '",
                                    "fp32-seed1.previous.safetensors' with 3 steps", "remove the damaged one"});
  CHECK(test::read_file(last) == damaged);
  std::filesystem::remove(last);
  CHECK(run(words("7", "run")).status == 0);
  CHECK(run(words("7", "whole")).status == 0);
  CHECK(test::read_file(last) == test::read_file(folder / "whole/fp32-seed1.safetensors"));
  // Nothing to go on from: no advice that does not help.
  folder.write("run/fp32-seed1.safetensors", damaged);
  folder.write("run/fp32-seed1.previous.safetensors", damaged);
  const Ran ran = run(words("7", "run"));
  CHECK(ran.status == 2);
  CHECK_FALSE(contains(ran.err, "the one before"));
}

TEST_CASE("apps: train refuses what it cannot do and says what it can") {
  const test::Folder folder;
  check_refused({"train", "--task", "digit"},
                {"--task", "'digit'", "did you mean 'digits'", "accepted: digits lm fashion"});
  check_refused({"train", "--recipe", "fp17"}, {"--recipe", "'fp17'", "accepted", "fp16-amp"});
  check_refused({"train", "--recipe", "fp32,fp32"}, {"--recipe", "'fp32' is named twice"});
  check_refused({"train", "--recipe", "fp32,"}, {"--recipe", "empty"});
  check_refused({"train", "--recipe", folder.write("a.json", R"({"operations": {"linear": {"wieghts": "fp16"}}})")},
                {"a.json", "operations.linear", "'wieghts'", "did you mean 'weights'", "accepted"});
  check_refused({"train", "--recipe", folder.write("b.json", "{")}, {"b.json", "no JSON", "--print-recipe"});
  check_refused({"train", "--recipe", "no.json"}, {"no.json"});
  check_refused({"train", "--steps", "0"}, {"--steps", "integer from 1"});
  check_refused({"train", "--steps", "many"}, {"--steps", "'many'"});
  check_refused({"train", "--batch", "0"}, {"--batch"});
  check_refused({"train", "--ranks", "5", "--recipe", "fp32"}, {"--ranks", "batch of 64 does not divide", "5 ranks"});
  check_refused({"train", "--micro-batches", "3"}, {"--micro-batches", "batch of 64 does not divide"});
  check_refused({"train", "--batch", "9", "--ranks", "2"}, {"--ranks", "batch of 9 does not divide"});
  check_refused({"train", "--task", "lm", "--heads", "5"}, {"--heads", "5", "128"});
  check_refused({"train", "--task", "lm", "--width", "7"}, {"--width", "7"});
  check_refused({"train", "--heads", "5"}, {"--heads", "no such size"});
  check_refused({"train", "--reduce", "fp8", "--ranks", "2"}, {"--reduce", "e4m3"});
  check_refused({"train", "--reduce", "bf16"}, {"--reduce", "--ranks"});
  check_refused({"train", "--reduce", "e8m0", "--ranks", "2"}, {"--reduce", "training.reduction cannot be e8m0"});
  check_refused({"train", "--recipe", folder.write("c.json", R"({"training": {"parameters": "e8m0"}})")},
                {"c.json", "training.parameters cannot be e8m0"});
  check_refused({"train", "--order", "star", "--ranks", "2"}, {"--order", "ring tree"});
  check_refused({"train", "--order", "ring"}, {"--order", "--ranks"});
  for (const char* bad : {"0", "-1", "inf", "nan", "1e-400", "1e400", "x", ""}) {
    check_refused({"train", "--lr", bad}, {"--lr"});
    if (std::string(bad) != "0" && std::string(bad) != "1e-400") check_refused({"train", "--clip", bad}, {"--clip"});
  }
  check_refused({"train", "--lr", "fast"}, {"--lr", "fast"});
  check_refused({"train", "--loss-scaler", "touch"}, {"--loss-scaler", "touch", "torch"});
  check_refused({"train", "--optimiser", "adam"}, {"--optimiser", "sgd adamw"});
  check_refused({"train", "--text", "x"}, {"--text", "lm"});
  check_refused({"train", "--task", "lm", "--text", "/no/such/file"}, {"--text", "/no/such/file"});
  check_refused({"train", "--task", "lm", "--text", folder.write("short.txt", "abc")}, {"--text", "too short"});
  check_refused({"train", "--resume"}, {"--resume", "-o DIR"});
  check_refused({"train", "--dump", "3"}, {"--dump", "-o DIR"});
  check_refused({"train", "--instrument", "3"}, {"--instrument", "-o DIR"});
  check_refused({"train", "--task", "lm", "--text", "/tmp"}, {"--text", "a folder, not a text"});
  check_refused({"train", "--dump", "300", "-o", folder / "x"}, {"--dump", "299"});
  check_refused({"train", "--instrument", "every=0", "-o", folder / "x"}, {"--instrument"});
  check_refused({"train", "--print-recipe", "fp17"}, {"--print-recipe", "fp17"});
  check_refused({"train", "--seed", "-1"}, {"--seed"});
}

TEST_CASE("apps: train finds out before the work that it cannot write") {
  const test::Folder folder;
  const std::string file = folder.write("file", "x");
  check_refused({"train", "--recipe", "fp32", "--steps", "100000", "-o", file + "/run"}, {"file/run"});
  check_refused({"train", "--recipe", "fp32", "--steps", "100000", "-o", "/proc/narrow"}, {"/proc/narrow"});
}

// Each row tells the learning rate, which norm was held against the limit, and the factor.
TEST_CASE("apps: train clips and accumulates and schedules in the order that is asked for") {
  const test::Folder folder;
  const auto train = [&](const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> words = {"train", "--recipe", "fp16-amp", "--steps", "4", "-o", folder / name};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run(words);
    CAPTURE(ran.err);
    CHECK(ran.status == 0);
    return ran.out;
  };
  const auto column = [&](const std::string& name, const std::string& title) {
    std::istringstream lines(test::read_file(folder / (name + "/fp16-amp-seed1.csv")));
    std::vector<double> values;
    std::size_t place = 0;
    for (std::string line, cell; std::getline(lines, line);) {
      std::vector<std::string> cells;
      for (std::istringstream parts(line); std::getline(parts, cell, ',');) cells.push_back(cell);
      if (cells[0] == "step")
        place = static_cast<std::size_t>(std::find(cells.begin(), cells.end(), title) - cells.begin());
      else values.push_back(place < cells.size() && !cells[place].empty() ? std::stod(cells[place]) : -1);
    }
    return values;
  };
  CHECK(contains(train("wrong", {"--clip", "1", "--clip-order", "before-unscale"}), "clipped at 1 before unscaling"));
  CHECK_FALSE(contains(train("right", {"--clip", "1"}), "before unscaling"));
  CHECK(column("wrong", "clipped_norm")[0] == 65536 * column("right", "clipped_norm")[0]);
  CHECK(column("wrong", "clip_factor")[0] < 1e-3);
  CHECK(column("right", "clip_factor")[0] > 0);
  CHECK(column("right", "clip_factor")[0] <= 1);
  CHECK(contains(train("sum", {"--micro-batches", "4", "--accumulate", "sum"}), "4 micro-batches that are summed"));
  CHECK(column("sum", "clip_factor") == std::vector<double>(4, -1));  // nothing was clipped
  const std::vector<std::string> schedule = {"--schedule", "linear", "--warmup",      "2",
                                             "--lr",       "0.5",    "--loss-scaler", "torch:init=2^40"};
  CHECK(contains(train("steps", schedule), "linear learning rate after a warmup of 2 counting steps taken"));
  CHECK(column("steps", "learning_rate") == std::vector<double>(4, 0.25));  // all four are skipped
  std::vector<std::string> calls = schedule;
  calls.insert(calls.end(), {"--schedule-counts", "calls"});
  CHECK(contains(train("calls", calls), "counting calls"));
  CHECK(column("calls", "learning_rate") == std::vector<double>{0.25, 0.5, 0.5, 0.25});
  // Part of what a run is: another schedule, or a longer one, is another run.
  calls.insert(calls.begin(), {"train", "--recipe", "fp16-amp", "-o", folder / "calls", "--resume"});
  calls.insert(calls.end(), {"--steps", "8"});
  check_refused(calls, {"the checkpoint of another run", "schedule is now"});
  check_refused({"train", "--clip-order", "before-unscale"}, {"--clip-order", "nothing is clipped"});
  check_refused({"train", "--clip", "1", "--clip-order", "never"}, {"--clip-order", "after-unscale before-unscale"});
  check_refused({"train", "--accumulate", "sum"}, {"--accumulate", "--micro-batches"});
  check_refused({"train", "--micro-batches", "2", "--accumulate", "all"}, {"--accumulate", "mean sum"});
  check_refused({"train", "--schedule", "step"}, {"--schedule", "constant linear cosine"});
  check_refused({"train", "--schedule-counts", "calls"}, {"--schedule-counts", "--warmup"});
  check_refused({"train", "--warmup", "2", "--schedule-counts", "both"}, {"--schedule-counts", "steps calls"});
  check_refused({"train", "--schedule", "cosine", "--warmup", "9", "--steps", "9"}, {"--warmup", "nothing to decay"});
  check_refused({"train", "--warmup", "-1"}, {"--warmup", "integer from 0"});
}
