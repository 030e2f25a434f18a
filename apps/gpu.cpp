// narrow gpu: the hardware's own opinion. Arguments only; see gpu_run.cpp.
#include "gpu.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <memory>

#include "command.hpp"
#include "json_value.hpp"
#include "narrow/cuda/instruction.hpp"
#include "narrow/cuda/product.hpp"
#include "narrow/report/find_data.hpp"
#include "narrow/text/names.hpp"
#include "narrow/text/quote.hpp"
#include "terminal.hpp"

namespace app {
namespace {

int list_instructions(bool json) {
  Json list = Json::array();
  for (const narrow::Instruction& i : narrow::all_instructions()) {
    if (json) list.push_back({{"name", i.name()}, {"model", i.model()}});
    else print(i.name() + "  " + i.model() + "\n");
  }
  if (json) print(json_text(list));
  return 0;
}

void check_plan(const GpuRequest& request) {
  if (request.words.size() != 4)
    throw narrow::Error("gpu plan: three sizes are needed: narrow gpu plan M N K --type T");
  for (std::size_t i = 1; i < 4; ++i) {
    const std::string& word = request.words[i];
    int size = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (error != std::errc{} || end != word.data() + word.size() || size < 1 || size > 1 << 20)
      throw narrow::Error("gpu plan: " + narrow::quote(word) + " is no size from 1 to 2^20");
  }
  (void)narrow::find_product_type(request.type.value_or("f16"));
}

// The recorded products: of the file that was named, else the project's own.
std::vector<narrow::RecordedProduct> recorded_products(const std::optional<std::string>& named) {
  const std::string path = named ? *named : narrow::require_data("golden/products.tsv");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw narrow::Error("--learned: cannot read " + narrow::quote(path));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return blame(path, [&] { return narrow::read_recorded_products(text); });
}

int run(GpuRequest& request) {
  const std::vector<std::string_view> jobs{"check", "record", "bench", "plan"};
  if (request.words.empty()) throw narrow::Error("gpu: what to do is missing; one of check, record, bench, plan M N K");
  const std::string& job = request.words.front();
  if (std::find(jobs.begin(), jobs.end(), job) == jobs.end()) {
    const std::string close = narrow::did_you_mean(job, jobs);
    throw narrow::Error("gpu: unknown job '" + job + "'; " + (close.empty() ? "" : "did you mean '" + close + "'? ") +
                        "one of check, record, bench, plan M N K");
  }
  if (job != "plan" && request.words.size() > 1)
    throw narrow::Error("gpu " + job + ": unexpected argument '" + request.words[1] + "'");
  if (request.list && job != "check")
    throw narrow::Error("gpu " + job + ": --list goes with check: narrow gpu check --list");
  if (request.list) return list_instructions(request.json);
  if (job == "plan") check_plan(request), request.recorded = recorded_products(request.learned);
  return run_gpu(request);
}

Action declare(Arguments& arguments) {
  auto request = std::make_shared<GpuRequest>();
  arguments.values("JOB", request->words, "check, record, bench, or plan M N K");
  arguments.option("--section", request->sections, "LIST",
                   "check: 1 conversions, 2 arithmetic, 3 tensor cores, 4 products (default 1,2,3,4)");
  arguments.option("--only", request->only, "WORDS",
                   "check, record: items whose name contains one of these words, with commas between");
  arguments.option("--dots", request->dots, "N", "check: dot products an instruction (default 1e10)");
  arguments.option("--scale", request->scale, "X", "check: share of the full count, from 0 to 1 (default 1)");
  arguments.option("--seed", request->seed, "N", "seed of everything sampled (default 1)");
  arguments.option("-o,--output", request->folder, "FOLDER", "record: where the recordings go");
  arguments.option("--type", request->type, "T", "plan: f16, bf16, tf32, e4m3, e4m3-slow, s8 (default f16)");
  arguments.option("--learned", request->learned, "FILE",
                   "plan: recorded products to foretell from (default data/golden/products.tsv)");
  arguments.flag("--predict", request->predict, "plan: foretell the plan and stop, without running the product");
  arguments.flag("--list", request->list, "check: name the instructions and stop (needs no device)");
  arguments.flag("--json", request->json, "machine-readable");
  return [request] { return run(*request); };
}

}  // namespace

const Command gpu_command{"gpu", "the emulator against the GPU's own instructions (CUDA builds)",
                          "narrow gpu check --section 1,2", declare};

}  // namespace app
