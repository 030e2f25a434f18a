#include "narrow/train/checkpoint.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tensor/files.hpp"
#include "train/runs.hpp"

using namespace narrow::train;
using test::digits_request;
using test::error_of;
using test::same_state;
using test::small_lm_request;
using test::take_steps;

TEST_CASE("train: a run that goes on from a checkpoint has the bits of one that was never interrupted") {
  const test::Folder folder;
  const std::string path = folder / "run.safetensors";
  std::vector<RunRequest> requests;
  for (const char* recipe : {"fp32", "fp16-amp", "bf16-pure-stochastic", "bf16-pure-kahan", "fp8-delayed"})
    requests.push_back(digits_request(recipe, 12));
  requests.push_back(small_lm_request("fp8-delayed", 12));
  for (const char* recipe : {"fp8-delayed", "bf16-pure-stochastic"}) requests.push_back(test::cnn_request(recipe, 12));
  requests.push_back(digits_request("fp16-amp", 12));
  requests.back().recipe.loss_scaler = "megatron:init=2^30:growth-interval=3";  // skips, and has a memory of its own
  requests.push_back(digits_request("bf16-pure-stochastic", 12));
  requests.back().ranks = 2;
  requests.back().micro_batches = 2;
  requests.back().optimiser = OptimiserSettings{.kind = OptimiserKind::sgd, .learning_rate = 0.05};
  requests.push_back(digits_request("fp16-amp", 12));  // the other orders, and skipped steps under a schedule
  requests.back().recipe.loss_scaler = "torch:init=2^24:growth-interval=3";
  requests.back().micro_batches = 2;
  requests.back().accumulate = AccumulateAs::sum;
  requests.back().optimiser = OptimiserSettings{.kind = OptimiserKind::sgd, .clip = 1};
  requests.back().clip_order = ClipOrder::before_unscale;
  requests.back().schedule = {ScheduleKind::cosine, 3, ScheduleCounts::steps};
  requests.push_back(requests.back());
  requests.back().schedule.counts = ScheduleCounts::calls;
  for (const RunRequest& request : requests) {
    CAPTURE(request.recipe.name);
    Trainer whole(request);
    take_steps(whole, 12);
    {
      Trainer first(request);
      take_steps(first, 5);
      write_checkpoint(path, first);
    }
    Trainer second(request);
    read_checkpoint(path, second);
    CHECK(second.rows().size() == 5);
    take_steps(second, 7);
    CHECK(same_state(second.state(), whole.state()));
    CHECK(second.result().held_out_loss == whole.result().held_out_loss);
  }
}

TEST_CASE("train: a checkpoint keeps where a run broke") {
  const test::Folder folder;
  Trainer broken(digits_request("fp32", 5));
  broken.step([](Model<float>&, Batch& batch) { batch.inputs[0] = std::numeric_limits<float>::infinity(); });
  write_checkpoint(folder / "a.safetensors", broken);
  Trainer again(digits_request("fp32", 5));
  read_checkpoint(folder / "a.safetensors", again);
  CHECK(again.finished());
  CHECK(again.result().first_nonfinite->text() == broken.result().first_nonfinite->text());
}

TEST_CASE("train: more steps can be asked for than the checkpoint was made with") {
  const test::Folder folder;
  Trainer few(digits_request("bf16-amp", 3)), more(digits_request("bf16-amp", 6)), whole(digits_request("bf16-amp", 6));
  take_steps(few, 3);
  write_checkpoint(folder / "a.safetensors", few);
  read_checkpoint(folder / "a.safetensors", more);
  take_steps(more, 3);
  take_steps(whole, 6);
  CHECK(same_state(more.state(), whole.state()));
}

TEST_CASE("train: the checkpoint of another run is refused and the difference named") {
  const test::Folder folder;
  const std::string path = folder / "a.safetensors";
  Trainer made(digits_request("fp32", 3));
  write_checkpoint(path, made);
  const auto refusal = [&](const RunRequest& request) {
    return error_of([&] {
      Trainer trainer(request);
      read_checkpoint(path, trainer);
    });
  };
  RunRequest seed = digits_request("fp32", 3), recipe = digits_request("bf16-amp", 3), rate = digits_request("fp32", 3);
  seed.seed = 5;
  rate.optimiser = OptimiserSettings{.learning_rate = 0.5};
  CHECK(refusal(seed) == "'" + path + "': the checkpoint of another run: seed is now 5 and was 1");
  CHECK(refusal(recipe) == "'" + path + "': the checkpoint of another run: recipe differs");
  CHECK(refusal(rate).find("optimiser is now ") != std::string::npos);
  RunRequest sum = digits_request("fp32", 3), order = sum, schedule = sum;
  sum.accumulate = AccumulateAs::sum;
  order.clip_order = ClipOrder::before_unscale;
  schedule.schedule = {ScheduleKind::cosine, 1, ScheduleCounts::calls};
  CHECK(refusal(sum).find("accumulate is now \"sum\" and was \"mean\"") != std::string::npos);
  CHECK(refusal(order).find("clip_order is now \"before-unscale\" and was") != std::string::npos);
  CHECK(refusal(schedule).find("schedule is now [\"cosine\",1,\"calls\",3] and was") != std::string::npos);
  CHECK(refusal(small_lm_request("fp32")).find("task is now \"lm\" and was \"digits\"") != std::string::npos);
  CHECK(refusal(digits_request("fp32", 3)) == "");
}

TEST_CASE("train: a file that is no checkpoint or a damaged one is refused") {
  const test::Folder folder;
  const std::string good = folder / "good.safetensors";
  Trainer trainer(digits_request("fp32", 3));
  trainer.step();
  write_checkpoint(good, trainer);
  const std::string bytes = test::read_file(good);
  const TrainingState before = trainer.state();
  const auto refusal = [&](const std::string& content) {
    const std::string path = folder.write("bad.safetensors", content);
    const std::string message = error_of([&] { read_checkpoint(path, trainer); });
    CHECK(test::is_one_line(message));
    return message;
  };
  CHECK(refusal("").find("bad.safetensors") != std::string::npos);
  CHECK(refusal(bytes.substr(0, bytes.size() / 2)) != "");
  CHECK(refusal(test::safetensors("{}")).find("no checkpoint of narrow train") != std::string::npos);
  // Metadata that lie: a number of steps that is no number.
  std::string lying = bytes;
  const std::size_t at = lying.find("optimiser_steps");
  REQUIRE(at != std::string::npos);
  lying.replace(at, 9, "optimizer");
  CHECK(refusal(lying).find("a damaged checkpoint") != std::string::npos);
  CHECK(same_state(trainer.state(), before));
}

TEST_CASE("train: a full disk leaves the last good checkpoint") {
  const test::Folder folder;
  const std::string path = folder / "a.safetensors";
  Trainer trainer(digits_request("fp32", 5));
  trainer.step();
  write_checkpoint(path, trainer);
  const std::string good = test::read_file(path);
  trainer.step();
  // A limit on the size of files stands for a full disk; in a child, because limits stay.
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = error_of([&] { write_checkpoint(path, trainer); });
    _exit(message.find("cannot write '" + path + "': ") == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(test::read_file(path) == good);
}

TEST_CASE("train: a dump holds parameters and gradients and moments by name") {
  const test::Folder folder;
  Trainer trainer(digits_request("fp32", 2));
  trainer.step();
  write_dump(folder / "a.safetensors", trainer);
  const std::string bytes = test::read_file(folder / "a.safetensors");
  for (const char* name :
       {"parameter.layers.0.weight", "gradient.layers.2.bias", "first.layers.1.weight", "second.layers.1.bias"})
    CHECK(bytes.find(name) != std::string::npos);
}
