// Ranks that are processes (here threads) train as ranks in one process do, bit for bit.
#include <doctest/doctest.h>

#include "cluster/threads.hpp"
#include "tensor/files.hpp"
#include "train/runs.hpp"

using namespace narrow::train;
namespace cluster = narrow::cluster;

namespace {

TrainingState state_after(RunRequest request, cluster::Messages* messages) {
  request.messages = messages;
  request.threads = 1;
  Trainer trainer(request);
  while (!trainer.finished()) trainer.step();
  return trainer.state();
}

void check_ranks(const RunRequest& request) {
  const TrainingState expected = state_after(request, nullptr);
  std::vector<TrainingState> states(request.ranks);
  test::on_ranks(request.ranks, [&](cluster::Messages& m) { states[m.rank()] = state_after(request, &m); });
  for (const TrainingState& state : states) {
    CHECK(test::same_state(state, expected));
    CHECK(state.first_nonfinite.has_value() == expected.first_nonfinite.has_value());
    if (state.first_nonfinite && expected.first_nonfinite)
      CHECK(state.first_nonfinite->text() == expected.first_nonfinite->text());
    CHECK(state.broke == expected.broke);
  }
}

}  // namespace

TEST_CASE("train: ranks that send messages end in the bits of as many ranks in one process") {
  // Delayed scaling remembers the largest magnitude of all ranks; dynamic scaling skips where one of them overflows.
  for (const char* recipe : {"fp32", "fp16-amp", "fp8-delayed", "bf16-pure-stochastic"})
    for (const std::size_t ranks : {2, 4}) {
      CAPTURE(std::string(recipe));
      CAPTURE(ranks);
      RunRequest request = test::digits_request(recipe, 4);
      request.ranks = ranks;
      request.recipe.policy.training.reduction = {.format = narrow::operator""_fmt("bf16", 4)};
      check_ranks(request);
      RunRequest lm = test::small_lm_request(recipe, 3);
      lm.ranks = ranks;
      check_ranks(lm);
    }
}

TEST_CASE("train: every order, three ranks and micro-batches give the same bits by messages") {
  for (const cluster::Algorithm order :
       {cluster::Algorithm::ring, cluster::Algorithm::tree, cluster::Algorithm::recursive_doubling,
        cluster::Algorithm::fp32_once, cluster::Algorithm::linear}) {
    RunRequest request = test::digits_request("bf16-amp", 3);
    request.ranks = 3;
    request.micro_batches = 2;
    request.batch = 24;
    request.order = order;
    request.recipe.policy.training.reduction = {.format = narrow::operator""_fmt("e5m2", 4)};
    CAPTURE(std::string(name_of(order)));
    check_ranks(request);
  }
}

TEST_CASE("train: an overflow on one rank is found, traced and skipped on all") {
  RunRequest request = test::digits_request("fp16-amp", 6);
  request.ranks = 2;
  request.recipe.loss_scaler = "torch:init=2^40";
  check_ranks(request);
  request.recipe.loss_scaler = "constant:init=2^60";
  check_ranks(request);
}

TEST_CASE("train: what ranks in several processes cannot share is refused") {
  test::Post post;
  test::Mailbox two(0, 2, post);
  const auto error = [&](RunRequest request, cluster::Messages* messages) {
    request.messages = messages;
    return test::error_of([&] { Trainer trainer(request); });
  };
  RunRequest request = test::digits_request("fp32");
  request.ranks = 3;
  CHECK(error(request, &two).find("3 ranks in 2 processes") != std::string::npos);
  CHECK(error(test::cnn_request("fp32"), &two).find("batch norm") != std::string::npos);
  request = test::digits_request("fp32");
  request.instrument_every = 1;
  CHECK(error(request, &two).find("instrument") != std::string::npos);
  request = test::digits_request("fp32");
  request.order = cluster::Algorithm::mpi;
  CHECK(error(request, nullptr).find("not fixed") != std::string::npos);
}
