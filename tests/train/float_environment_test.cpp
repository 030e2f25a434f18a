// Does training give the same bits whatever rounding mode and flush-to-zero the caller has set?
#include "support/float_environments.hpp"
#include "train/runs.hpp"

TEST_CASE("train: runs give the same bits in every floating-point environment") {
  for (const char* recipe : {"fp32", "fp16-amp", "bf16-pure-stochastic", "fp8-delayed", "mxfp8", "bf16-hopper"})
    test::check_environments(recipe, [&](test::Digest& d) {
      for (narrow::train::RunRequest request : {test::digits_request(recipe, 2), test::small_lm_request(recipe, 2)}) {
        request.ranks = 2;
        request.optimiser = narrow::train::settings_of(request.task).optimiser;
        request.optimiser->clip = 0.5;
        narrow::train::Trainer trainer(request);
        while (!trainer.finished()) trainer.step();
        for (const std::vector<float>& values : trainer.state().parameters) d.add_all(values);
        for (const narrow::train::StepRow& row : trainer.rows())
          d.add(row.loss), d.add(row.gradient_norm), d.add(row.update_ratio);
        const narrow::train::RunResult result = trainer.result();
        d.add(result.final_loss), d.add(result.held_out_loss.value_or(-1));
      }
    });
}
