#include "narrow/train/run/checkpoint.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "narrow/base/random.hpp"
#include "support/scale.hpp"
#include "tensor/files.hpp"
#include "train/runs.hpp"

using namespace narrow::train;
using test::digits_request;
using test::error_of;
using test::same_state;
using test::small_lm_request;
using test::take_steps;

namespace {

// CRC-32 bit by bit, from its polynomial.
std::string crc_digits(const std::string& bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", ~crc);
  return digits;
}

// The file with another text in its header, whose length and checksum are right again.
std::string forged(const std::string& file, const std::string& from, const std::string& to) {
  const std::size_t length = static_cast<unsigned char>(file[0]) | static_cast<unsigned char>(file[1]) << 8;
  std::string header = file.substr(8, length);
  const std::size_t at = header.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  header.replace(at, from.size(), to);
  const std::string key = "\"checksum\":\"";
  if (header.find(key) == std::string::npos) return test::safetensors(header, file.substr(8 + length));
  header.replace(header.find(key) + key.size(), 8, "00000000");
  const std::string digits = crc_digits(test::safetensors(header, file.substr(8 + length)));
  return test::safetensors(header.replace(header.find(key) + key.size(), 8, digits), file.substr(8 + length));
}

}  // namespace

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
  CHECK(refusal(lying).find("damaged: its checksum is ") != std::string::npos);
  CHECK(same_state(trainer.state(), before));
}

TEST_CASE("train: a checkpoint with any byte changed or any part missing is refused") {
  const test::Folder folder;
  RunRequest request = digits_request("fp8-delayed", 3);
  request.shape = settings_of(request.task).shape;
  request.shape->hidden = {4};
  Trainer trainer(request);
  take_steps(trainer, 2);
  const std::string path = folder / "a.safetensors";
  write_checkpoint(path, trainer);
  const std::string good = test::read_file(path);
  const TrainingState before = trainer.state();
  std::size_t accepted = 0;
  const auto try_bytes = [&](const std::string& bytes) {
    folder.write("a.safetensors", bytes);
    const std::string why = error_of([&] { read_checkpoint(path, trainer); });
    const std::string progress = error_of([&] { read_progress(path); });
    accepted += test::is_one_line(why) && test::is_one_line(progress) && test::read_file(path) == bytes ? 0 : 1;
  };
  const std::size_t stride = std::max<std::size_t>(1, good.size() / test::scaled(400));
  for (std::size_t at = 0; at < good.size(); at += stride) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    try_bytes(bytes);
  }
  for (std::size_t size = 0; size < good.size(); size += 5 * stride) try_bytes(good.substr(0, size));
  try_bytes(good + '\0');
  CHECK(accepted == 0);
  CHECK(same_state(trainer.state(), before));
  folder.write("a.safetensors", good);
  CHECK(error_of([&] { read_checkpoint(path, trainer); }) == "");
}

// A checksum is no signature: what a program wrote for itself is looked at as well.
TEST_CASE("train: values that no run can have are refused although the checksum is right") {
  const test::Folder folder;
  Trainer trainer(digits_request("fp16-amp", 5));
  trainer.step([](Model<float>&, Batch& batch) { batch.inputs[0] = std::numeric_limits<float>::infinity(); });
  take_steps(trainer, 2);
  write_checkpoint(folder / "a.safetensors", trainer);
  const std::string good = test::read_file(folder / "a.safetensors");
  const TrainingState before = trainer.state();
  const auto refusal = [&](const std::string& from, const std::string& to) {
    const std::string path = folder.write("b.safetensors", forged(good, from, to));
    const std::string message = error_of([&] { read_checkpoint(path, trainer); });
    CHECK(same_state(trainer.state(), before));
    return message;
  };
  CHECK(refusal("broke", "broke") == "");  // the checksum is the one that the library means
  const std::string steps = R"(\"optimiser_steps\":2)", broke = R"(\"broke\":null)", step = R"(\"step\":0)";
  for (const char* value :
       {"-1", "0", "1", "3", "4", "2.0", "2e0", "true", "null", R"(\"2\")", "[2]", "1e400", "2,2",
        "18446744073709551615", "18446744073709551616", R"(2,\"optimiser_steps\":2)", R"(2,\"x\":2)"})
    CHECK_MESSAGE(
        refusal(steps, R"(\"optimiser_steps\":)" + std::string(value)).find(": damaged: ") != std::string::npos, value);
  for (const char* value : {"-1", "3", "0.5", "false", R"(\"0\")", "18446744073709551615"})
    CHECK_MESSAGE(refusal(broke, R"(\"broke\":)" + std::string(value))
                          .find("progress.broke: must be an integer from 0 "
                                "to 2") != std::string::npos,
                  value);
  CHECK(refusal(broke, R"(\"broke\":2)") == "");
  trainer.restore(before);
  for (const char* value : {"-1", "3", "0.5", "null"})
    CHECK(refusal(step, R"(\"step\":)" + std::string(value)).find("first_nonfinite.step: must be") !=
          std::string::npos);
  CHECK(refusal(R"(\"operation\":)", R"(\"operation\":99)").find("operation: must be") != std::string::npos);
  CHECK(refusal(R"(\"in_model\":true)", R"(\"in_model\":1)").find("in_model: must be true") != std::string::npos);
  CHECK(refusal(R"(\"in_model\":true)", R"(\"in_model\":true,\"in_model\":true)").find("given twice") !=
        std::string::npos);
  CHECK(refusal(R"(,\"in_model\":true)", "").find("must have a step") != std::string::npos);
  CHECK(refusal(R"(\"tensor\":\")", R"(\"tensor\":\"\\u001b)").find("printable") != std::string::npos);
  CHECK(refusal(broke, R"(\"brake\":null)").find("'brake'") != std::string::npos);
  CHECK(refusal("," + broke, "").find("damaged: progress has ") != std::string::npos);
  CHECK(refusal(R"("dtype":"F32")", R"("dtype":"I32")").find("damaged: a checkpoint of this run has a tensor") !=
        std::string::npos);
  CHECK(refusal(R"("shape":[3,11])", R"("shape":[11,3])").find("'rows' of F64 and shape [3, 11]") != std::string::npos);
  CHECK(refusal("\"checksum\"", "\"what_is_it\"").find("has no checksum: of an older version") != std::string::npos);
}

TEST_CASE("train: the checkpoint before the last stays beside it") {
  const test::Folder folder, other;
  const std::string path = folder / "a.safetensors", previous = folder / "a.previous.safetensors";
  Trainer trainer(digits_request("fp32", 5));
  write_checkpoint(path, trainer);
  CHECK_FALSE(std::filesystem::exists(previous));
  for (std::uint64_t steps = 1; steps < 4; ++steps) {
    const std::string before = test::read_file(path);
    trainer.step();
    write_checkpoint(path, trainer);
    CHECK(test::read_file(previous) == before);
    CHECK(read_progress(previous).steps == steps - 1);
    CHECK(read_progress(path).steps == steps);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
  // A link leads to a file elsewhere, perhaps in another file system: the file is kept, not the link.
  const std::string far = "/dev/shm/narrow_checkpoint_" + std::to_string(getpid()) + ".safetensors";
  for (const std::string& target : {other / "b.safetensors", far}) {
    if (target == far && access("/dev/shm", W_OK) != 0) continue;
    std::filesystem::copy_file(path, target);
    std::filesystem::remove(path);
    std::filesystem::create_symlink(target, path);
    trainer.step();
    write_checkpoint(path, trainer);
    CHECK(std::filesystem::is_symlink(path));
    CHECK(read_progress(path).steps == read_progress(previous).steps + 1);
  }
  std::filesystem::remove(far);
}

// Saved after every step and killed at any moment: what is there is whole, and the run that goes on from it, killed
// again and again, ends with the bits of one that was left alone.
TEST_CASE("train: a run that is killed while it saves always leaves a whole checkpoint") {
  const test::Folder folder;
  const std::string path = folder / "a.safetensors", previous = previous_checkpoint(path);
  RunRequest request = digits_request("fp8-delayed", 1'000'000);
  request.batch = 2;
  request.threads = 1;  // a child of fork has no threads to share work with
  request.shape = settings_of(request.task).shape;
  request.shape->hidden = {4};
  Trainer whole(request);
  request = whole.request();  // the data are opened
  std::uint64_t done = 0;
  std::chrono::duration<double> first_save{};  // on this machine, with these sanitizers: the measure of when to kill
  for (std::uint64_t round = 0; round < test::scaled(30, 10); ++round) {
    const auto start = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child == 0) {
      Trainer trainer(request);
      if (std::filesystem::exists(path)) read_checkpoint(path, trainer);
      for (;;) trainer.step(), write_checkpoint(path, trainer);
    }
    if (round == 0) {
      while (!std::filesystem::exists(path) && first_save < std::chrono::minutes(1)) {
        usleep(200);
        first_save = std::chrono::steady_clock::now() - start;
      }
    } else {
      std::this_thread::sleep_for(first_save * (0.25 + 0.01 * static_cast<double>(narrow::random_bits(7, round) % 300)));
    }
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    if (std::filesystem::exists(path)) {
      const std::uint64_t steps = read_progress(path).steps;
      CHECK(steps >= done);
      done = steps;
    } else {
      CHECK(done == 0);
    }
    if (std::filesystem::exists(previous)) CHECK(read_progress(previous).steps + 1 >= done);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string name = entry.path().string();
      CHECK((name == path || name == previous || name.starts_with(path + ".tmp")));
    }
  }
  REQUIRE(done > 0);
  Trainer resumed(request);
  read_checkpoint(path, resumed);
  for (std::uint64_t i = 0; i < done; ++i) whole.step();
  CHECK(same_state(resumed.state(), whole.state()));
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
