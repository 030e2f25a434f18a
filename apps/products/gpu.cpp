// narrow gpu: the hardware's own opinion. Arguments only; see gpu_run.cpp.
#include "products/gpu.hpp"

#include <algorithm>
#include <charconv>
#include <memory>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "narrow/golden/instruction.hpp"
#include "narrow/golden/product_types.hpp"
#include "narrow/golden/share.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/find_data.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/split.hpp"
#include "narrow/text/text.hpp"

namespace app {

void add_origin(Json& row, const narrow::ProductOrigin& recorded, const narrow::CublasVersion& used,
                const std::string& warning) {
  Json with = Json::object();
  with["gpu"] = recorded.gpu, with["toolkit"] = recorded.toolkit, with["cublas"] = recorded.cublas;
  with["torch"] = recorded.torch == "none" ? Json() : Json(recorded.torch);
  row["recorded_with"] = with, row["cublas"] = used.number.empty() ? "CUDA " + used.cuda : used.number;
  row["warning"] = warning.empty() ? Json() : Json(warning);
}

namespace of_gpu {

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
  if (!request.torch) (void)narrow::find_product_type(request.type.value_or("f16"));
}

// --torch matmul, linear, linear+bias, bmm or bmm:8, and @cublaslt behind it where torch prefers that.
void read_torch(GpuRequest& request) {
  const std::vector<std::string_view> sides = narrow::parts_of(*request.torch, "@");
  if (sides.size() == 2) request.library = sides[1];
  if (sides.size() > 2)
    throw narrow::Error("--torch: " + narrow::quote(*request.torch) + " names more than one library");
  const std::vector<std::string_view> words = narrow::parts_of(sides.front(), ":");
  request.function = words.front();
  const std::string_view batch = words.size() == 2 ? words[1] : "1";
  const auto [end, error] = std::from_chars(batch.data(), batch.data() + batch.size(), request.batch);
  if (words.size() > 2 || error != std::errc{} || end != batch.data() + batch.size() || request.batch < 1 ||
      request.batch > 1 << 20)
    throw narrow::Error("--torch: " + narrow::quote(*request.torch) + " is no call; bmm:8 is a batch of 8");
  blame("--torch", [&] {
    (void)narrow::torch_product(request.function, request.type.value_or("f16"), {1, 1, 1}, request.batch,
                                request.library);
  });
}

// The recorded products: of the file that was named, else the project's own.
void read_table(GpuRequest& request) {
  const std::string path =
      request.learned ? *request.learned
      : request.table ? *request.table
                      : narrow::require_data(request.torch ? "golden/torch-products.tsv" : "golden/products.tsv");
  const std::string text = blame(request.table ? "--check" : "--learned", [&] { return narrow::read_text(path); });
  blame(path, [&] {
    request.recorded_with = narrow::read_product_origin(text);
    if (request.torch || request.table) request.torch_products = narrow::read_torch_products(text);
    else request.recorded = narrow::read_recorded_products(text);
  });
}

// The plan that was seen for that call through that library.
int torch_plan_from_table(const GpuRequest& request) {
  const narrow::CublasVersion used = blame("--cublas", [&] { return narrow::parse_cublas_version(*request.cublas); });
  const std::string type = request.type.value_or("f16"), warning = narrow::version_warning(request.recorded_with, used);
  Json rows = Json::array();
  std::string text;
  for (const narrow::RecordedTorchProduct& r : request.torch_products) {
    if (r.type != type || r.function != request.function || r.library != request.library || r.batch != request.batch ||
        r.model.empty() || std::to_string(r.shape.m) != request.words[1] ||
        std::to_string(r.shape.n) != request.words[2] || std::to_string(r.shape.k) != request.words[3])
      continue;
    Json row = Json::object();
    row["type"] = type, row["torch"] = *request.torch, row["m"] = r.shape.m, row["n"] = r.shape.n;
    row["k"] = r.shape.k, row["library"] = r.library, row["predicted_model"] = r.model;
    row["predicted_plan"] = r.plan, row["recorded"] = true;
    add_origin(row, request.recorded_with, used, warning);
    rows.push_back(row);
    text += "through " + r.library + ": " + r.model + ", plan " + r.plan + "\n";
  }
  if (rows.empty())
    throw narrow::Error("gpu plan: no " + *request.torch + " of " + type + " of this shape was recorded (" +
                        request.recorded_with.text() + "); without --cublas a GPU is asked");
  if (request.json) print(json_text(rows));
  else
    print("recorded with " + request.recorded_with.text() + "\n" + text +
          (warning.empty() ? "" : "warning: " + warning + "\n"));
  return 0;
}

// --cublas: what was recorded for this shape, without asking a GPU. It holds for the pair that the table names.
int plan_from_table(const GpuRequest& request) {
  const narrow::CublasVersion used = blame("--cublas", [&] { return narrow::parse_cublas_version(*request.cublas); });
  const std::string type = request.type.value_or("f16");
  const auto is_it = [&](const narrow::RecordedProduct& r) {
    return r.type == type && r.shape.m == std::stoi(request.words[1]) && r.shape.n == std::stoi(request.words[2]) &&
           r.shape.k == std::stoi(request.words[3]);  // checked in check_plan
  };
  const auto r = std::find_if(request.recorded.begin(), request.recorded.end(), is_it);
  if (r == request.recorded.end() || r->model.empty())
    throw narrow::Error("gpu plan: no product " + type + " of this shape was recorded (" +
                        request.recorded_with.text() + "); without --cublas a GPU is asked");
  const std::string warning = narrow::version_warning(request.recorded_with, used);
  if (request.json) {
    Json row = Json::object();
    row["type"] = type, row["m"] = r->shape.m, row["n"] = r->shape.n, row["k"] = r->shape.k;
    row["algorithm"] = r->algorithm.text(), row["predicted_model"] = r->model, row["predicted_plan"] = r->plan;
    row["recorded"] = true;
    add_origin(row, request.recorded_with, used, warning);
    print(json_text(row));
  } else {
    print("recorded with " + request.recorded_with.text() + "\ncuBLASLt chose " + r->algorithm.text() + ": " +
          r->model + ", plan " + r->plan + "\n" + (warning.empty() ? "" : "warning: " + warning + "\n"));
  }
  return 0;
}

// The emulator against files of `check --share`; needs no GPU.
int replay(const GpuRequest& request) {
  if (request.words.size() < 2) throw narrow::Error("gpu replay: a file of `narrow gpu check --share` is needed");
  bool fine = true;
  Json rows = Json::array();
  for (std::size_t n = 1; n < request.words.size(); ++n) {
    const std::string& path = request.words[n];
    const narrow::ShareFile file = narrow::read_share(narrow::read_text(path), path);
    const narrow::ShareReplay r = narrow::replay_share(file, 1);
    fine = fine && r.wrong.empty();
    rows.push_back({{"file", path},
                    {"gpu", file.gpu},
                    {"sm", file.sm},
                    {"dots", r.dots},
                    {"tiles", r.tiles},
                    {"tiles_not_replayed", r.recorded_tiles - r.tiles},
                    {"conversions_not_replayed", file.conversions.size()},
                    {"without_model", r.without_model},
                    {"wrong", r.wrong}});
    if (request.json) continue;
    print(path + ": " + file.gpu + ", sm_" + std::to_string(file.sm) + ", cuBLAS " + file.cublas + ": " +
          std::to_string(r.dots) + " dot products and " + std::to_string(r.tiles) + " tiles replayed, " +
          std::to_string(r.wrong.size()) + " wrong, " + std::to_string(r.without_model) +
          " instructions without a model; as the GPU's owner compared them, not replayed: " +
          std::to_string(r.recorded_tiles - r.tiles) + " tiles, " + std::to_string(file.conversions.size()) +
          " conversions and operations\n");
    for (const std::string& line : r.wrong) print("  " + line + "\n");
  }
  if (request.json) print(json_text(rows));
  return fine ? 0 : 1;
}

int run(GpuRequest& request) {
  const std::vector<std::string_view> jobs{"check", "record", "bench", "plan", "replay"};
  if (request.words.empty())
    throw narrow::Error("gpu: what to do is missing; one of check, record, bench, plan M N K, replay FILE");
  const std::string& job = request.words.front();
  if (std::find(jobs.begin(), jobs.end(), job) == jobs.end()) {
    throw narrow::Error("gpu: unknown job '" + job + "'; " + narrow::hint(job, jobs) +
                        "one of check, record, bench, plan M N K, replay FILE");
  }
  if (job == "replay") return replay(request);
  if ((request.share || request.seconds) && (job != "check" || !request.share))
    throw narrow::Error("gpu " + job + ": " +
                        (request.share ? "--share goes with check" : "--seconds goes with check --share"));
  if (job != "plan" && request.words.size() > 1)
    throw narrow::Error("gpu " + job + ": unexpected argument '" + request.words[1] + "'");
  if (request.list && job != "check")
    throw narrow::Error("gpu " + job + ": --list goes with check: narrow gpu check --list");
  if (request.list) return list_instructions(request.json);
  if (request.cublas && job != "plan") throw narrow::Error("gpu " + job + ": --cublas goes with plan");
  if ((request.torch || request.table) && job != "plan")
    throw narrow::Error("gpu " + job + ": " + (request.torch ? "--torch" : "--check") + " goes with plan");
  if (request.table && (request.words.size() > 1 || request.torch || request.cublas || request.learned))
    throw narrow::Error(
        "gpu plan: --check takes its products from the table: no sizes, --torch, --cublas or --learned");
  if (job == "plan") {
    if (!request.table) check_plan(request);
    if (request.torch) read_torch(request);
    read_table(request);
  }
  if (request.cublas) return request.torch ? torch_plan_from_table(request) : plan_from_table(request);
  return run_gpu(request);
}

Action declare(Arguments& arguments) {
  auto request = std::make_shared<GpuRequest>();
  arguments.values("JOB", request->words, "check, record, bench, plan M N K, or replay FILE");
  arguments.option(
      "--section", request->sections, "LIST",
      "check: 1 conversions, 2 arithmetic, 3 tensor cores, 4 products, 5 special functions (default: all)");
  arguments.option("--only", request->only, "WORDS",
                   "check, record: items whose name contains one of these words, with commas between");
  arguments.option("--dots", request->dots, "N", "check: dot products an instruction (default 1e10)");
  arguments.option("--scale", request->scale, "X", "check: share of the full count, from 0 to 1 (default 1)");
  arguments.option("--seed", request->seed, "N", "seed of everything sampled (default 1)");
  arguments.option("-o,--output", request->folder, "PATH",
                   "record: the folder; check --share: the file (default narrow-share-GPU-smNN.txt)");
  arguments.option("--type", request->type, "T", "plan: f16, bf16, tf32, e4m3, e4m3-slow, s8 (default f16)");
  arguments.option("--learned", request->learned, "FILE",
                   "plan: recorded products to foretell from (default data/golden/products.tsv)");
  arguments.option(
      "--cublas", request->cublas, "VERSION",
      "plan: answer from the recorded products, without a GPU, for 13.1.0 or 'CUDA 13.0'; warns where it is another");
  arguments.option(
      "--torch", request->torch, "CALL",
      "plan: as PyTorch asks for matmul, linear, linear+bias, bmm or bmm:8, with @cublaslt behind it where torch "
      "prefers that; set LD_LIBRARY_PATH to torch's own library");
  arguments.option(
      "--check", request->table, "FILE",
      "plan: foretell every product of a table as data/golden/torch-products.tsv, and count what was found so");
  arguments.flag("--predict", request->predict, "plan: foretell the plan and stop, without running the product");
  arguments.flag(
      "--share", request->share,
      "check: two minutes of all, written to one file that can be contributed and replayed without this GPU");
  arguments.option("--seconds", request->seconds, "S", "check --share: how long it may take (default 120)");
  arguments.flag("--list", request->list, "check: name the instructions and stop (needs no device)");
  arguments.flag("--json", request->json, "machine-readable");
  return [request] { return run(*request); };
}

}  // namespace of_gpu

const Command gpu_command{
    "gpu", "the emulator against the GPU's own instructions (CUDA builds)", "narrow gpu check --section 1,2",
    of_gpu::declare,
    "check compares conversions, arithmetic, tensor cores, products and special functions of the GPU with the "
    "emulator, all inputs where that is possible; check --share makes the file that data/contributed asks for. "
    "record writes the recordings that tests replay without a GPU, plan foretells what cuBLASLt will do, "
    "replay reads a recording again. check --list, plan --cublas and replay need no GPU."};

}  // namespace app
