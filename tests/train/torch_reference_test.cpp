// The FP32 path against PyTorch: losses and gradients of two batches, and 50 steps of every optimiser (with the running
// statistics of batch norm that they leave), from the recording in data/train (record_reference.py says how it was
// made).
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "narrow/tensor/tensor_file.hpp"
#include "narrow/train/run/trainer.hpp"

using namespace narrow::train;
using Json = nlohmann::json;

namespace {

// FP32 sums in another order: 1e-5 of the tensor's norm, or of a thousandth of all gradients' norm where a tensor's
// true gradient is zero (key biases). The same noise, carried through 50 steps, stays below 1e-4 of the loss; torch's
// own FP32 and FP64 curves are 1.4e-6 apart.
constexpr double gradient_tolerance = 1e-5, least_share_of_all = 1e-3, loss_tolerance = 1e-4;
// Running statistics are 1e-6 apart as long as no input of a ReLU falls on the other side of 0. Where one does, torch
// in FP64 from starts that differ by 3e-7 is 2.9e-4 apart as well.
constexpr double running_tolerance = 1e-3;

struct Recording {
  narrow::TensorFile file = narrow::open_tensor_file(NARROW_DATA "/train/reference.safetensors");
  Json json = Json::parse(std::ifstream(NARROW_DATA "/train/reference.json"));

  std::vector<float> values(const std::string& name) const {
    const narrow::Tensor* tensor = file.find(name);
    REQUIRE_MESSAGE(tensor != nullptr, name);
    std::vector<float> all(tensor->values());
    read_values(*tensor, 0, all);
    return all;
  }
};

const Recording& recording() {
  static const Recording r;
  return r;
}

// The batches as they were recorded, one a step; the first is held out, because its loss is the last of a curve.
class RecordedBatches : public Dataset {
 public:
  explicit RecordedBatches(Task task) {
    const std::string name = std::string(name_of(task)) + ".batches";
    const std::vector<std::uint64_t>& shape = recording().file.find(name)->shape;  // [steps, size, row]
    const std::vector<float> bytes = recording().values(name);
    for (std::size_t step = 0; step < shape[0]; ++step) {
      Batch batch;
      batch.size = shape[1];
      for (std::size_t i = 0; i < shape[1]; ++i) {
        const float* row = bytes.data() + (step * shape[1] + i) * shape[2];
        for (std::size_t k = 0; k + 1 < shape[2]; ++k) {
          if (task == Task::lm) batch.tokens.push_back(static_cast<std::int32_t>(row[k]));
          if (task == Task::lm) batch.targets.push_back(static_cast<std::int32_t>(row[k + 1]));
          if (task == Task::digits) batch.inputs.push_back(row[k] / 16);
        }
        if (task == Task::digits) batch.targets.push_back(static_cast<std::int32_t>(row[64]));
      }
      batches_.push_back(std::move(batch));
    }
  }
  Batch training_batch(std::uint64_t, std::uint64_t step, std::size_t) const override { return batches_.at(step); }
  std::vector<Batch> held_out(std::size_t) const override { return {batches_[0]}; }
  bool has_classes() const override { return false; }

 private:
  std::vector<Batch> batches_;
};

// What was recorded: the prefix of its names, and the task whose batches it sees.
struct Recorded {
  std::string name;
  Task task;
};
const Recorded recorded[] = {{"lm", Task::lm}, {"digits", Task::digits}, {"cnn", Task::digits}};

RunRequest request_of(const Recorded& of, const OptimiserSettings& optimiser) {
  const Task task = of.task;
  RunRequest request;
  request.task = task;
  if (of.name == "cnn") request.shape = settings_of(task, "cnn").shape;
  request.steps = recording().json["steps"].get<std::uint64_t>();
  request.optimiser = optimiser;
  if (task == Task::lm) {
    const Json& s = recording().json["shape"];
    request.shape = settings_of(task).shape;
    request.shape->layers = s["layers"];
    request.shape->width = s["width"];
    request.shape->heads = s["heads"];
    request.shape->context = s["context"];
    request.shape->vocabulary = s["vocabulary"];
  }
  request.data = std::make_shared<RecordedBatches>(task);
  request.batch = request.data->training_batch(0, 0, 0).size;
  return request;
}

void set_initial_values(Model<float>& model, const std::string& name) {
  for (Parameter<float>* p : model.parameters()) {
    const std::vector<float> values = recording().values(name + ".initial." + p->name);
    REQUIRE(values.size() == p->value.size());
    p->value.data = values;
  }
}

double norm(const std::vector<float>& a) {
  double sum = 0;
  for (const float x : a) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
}

OptimiserSettings settings_from(const std::string& kind) {
  const Json& j = recording().json["optimisers"][kind];
  OptimiserSettings s;
  s.kind = kind == "sgd" ? OptimiserKind::sgd : OptimiserKind::adamw;
  s.learning_rate = j["lr"];
  s.weight_decay = j["weight_decay"];
  s.clip = j["clip"];
  if (kind == "sgd") s.momentum = j["momentum"];
  else s.beta1 = j["betas"][0], s.beta2 = j["betas"][1], s.epsilon = j["eps"];
  return s;
}

}  // namespace

TEST_CASE("train: losses and gradients are PyTorch's") {
  for (const Recorded& of : recorded) {
    CAPTURE(of.name);
    Trainer trainer(request_of(of, {}));
    set_initial_values(trainer.model(), of.name);
    for (std::uint64_t i = 0; i < 2; ++i) {
      const std::string prefix = of.name + ".gradient." + std::to_string(i) + ".";
      const float loss = trainer.model().forward(trainer.request().data->training_batch(0, i, 0));
      trainer.model().backward(1);
      const double theirs = recording().json[of.name]["losses"][i];
      CHECK(std::abs(static_cast<double>(loss) - theirs) <= loss_tolerance);
      std::vector<float> all;
      for (const Parameter<float>* p : trainer.model().parameters())
        for (const float g : recording().values(prefix + p->name)) all.push_back(g);
      for (const Parameter<float>* p : trainer.model().parameters()) {
        const std::vector<float> expected = recording().values(prefix + p->name);
        std::vector<float> difference(expected.size());
        for (std::size_t k = 0; k < expected.size(); ++k) difference[k] = p->gradient.data[k] - expected[k];
        CAPTURE(p->name);
        CHECK(norm(difference) <= gradient_tolerance * std::max(norm(expected), least_share_of_all * norm(all)));
      }
    }
  }
}

TEST_CASE("train: fifty steps of SGD and AdamW follow PyTorch's loss curves") {
  for (const Recorded& of : recorded)
    for (const char* kind : {"sgd", "adamw", "adamw-clipped"}) {
      Trainer trainer(request_of(of, settings_from(kind)));
      set_initial_values(trainer.model(), of.name);
      while (!trainer.finished()) trainer.step();
      const RunResult result = trainer.result();
      const Json& curve = recording().json[of.name]["curves"][kind];
      REQUIRE(curve.size() == result.rows.size() + 1);
      double worst = std::abs(*result.held_out_loss - curve.back().get<double>());
      for (std::size_t i = 0; i < result.rows.size(); ++i)
        worst = std::max(worst, std::abs(result.rows[i].loss - curve[i].get<double>()));
      CAPTURE(of.name);
      CAPTURE(std::string(kind));
      CHECK(worst <= loss_tolerance);
      for (const LayerState& state : trainer.model().states()) {
        const std::vector<float> theirs = recording().values(of.name + ".after." + kind + "." + state.name);
        std::vector<float> difference(theirs.size());
        for (std::size_t k = 0; k < theirs.size(); ++k) difference[k] = state.values[k] - theirs[k];
        CAPTURE(state.name);
        CHECK(norm(difference) <= running_tolerance * norm(theirs));
      }
    }
}
