#include "narrow/train/checkpoint.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

#include "narrow/base/error.hpp"
#include "narrow/tensor/crc32.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/tensor/tensor_writer.hpp"

namespace narrow::train {

namespace {

using Json = nlohmann::ordered_json;

constexpr double StepRow::*real_columns[] = {
    &StepRow::loss,           &StepRow::gradient_norm, &StepRow::update_ratio,  &StepRow::underflow_share,
    &StepRow::overflow_share, &StepRow::largest_logit, &StepRow::learning_rate, &StepRow::clipped_norm,
    &StepRow::clip_factor};
constexpr std::size_t columns = std::size(real_columns) + 2;  // and scale and skipped

// --- out ---

// Tensors in memory, in the order in which they are written.
struct Pack {
  std::vector<TensorHeader> headers;
  std::vector<std::span<const std::byte>> data;

  void add(std::string name, std::string_view type, std::vector<std::uint64_t> shape,
           std::span<const std::byte> bytes) {
    headers.push_back({std::move(name), *find_element_type(type), std::move(shape)});
    data.push_back(bytes);
  }
  void add(std::string name, std::span<const float> values, std::vector<std::uint64_t> shape = {}) {
    if (shape.empty()) shape = {values.size()};
    add(std::move(name), "F32", std::move(shape), std::as_bytes(values));
  }
  void write(const std::string& path, std::vector<std::pair<std::string, std::string>> metadata) const {
    TensorWriter writer(path, headers, std::move(metadata));
    for (const std::span<const std::byte> bytes : data) writer.write(bytes);
    writer.finish();
  }
};

std::vector<std::uint64_t> shape_of(const Tensor<float>& tensor) { return {tensor.shape.begin(), tensor.shape.end()}; }

void add_moments(Pack& pack, const Parameter<float>& p, const Moments& m) {
  if (!m.first.empty()) pack.add("first." + p.name, m.first, shape_of(p.value));
  if (!m.second.empty()) pack.add("second." + p.name, m.second, shape_of(p.value));
  if (!m.compensation.empty()) pack.add("compensation." + p.name, m.compensation, shape_of(p.value));
}

std::vector<double> rows_to_table(const std::vector<StepRow>& rows) {
  std::vector<double> table;
  for (const StepRow& row : rows) {
    for (const auto column : real_columns) table.push_back(row.*column);
    table.push_back(static_cast<double>(row.scale));
    table.push_back(row.skipped);
  }
  return table;
}

Json to_json(const std::optional<FirstNonFinite>& first) {
  if (!first) return nullptr;
  return {{"step", first->step},
          {"tensor", first->tensor},
          {"operation", static_cast<int>(first->operation)},
          {"role", static_cast<int>(first->role)},
          {"in_model", first->in_model}};
}

// --- in ---

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(quote_path(path) + ": " + what);
}

std::string metadata_of(const TensorFile& file, std::string_view key) {
  for (const auto& [name, value] : file.metadata)
    if (name == key) return value;
  fail(file.path, "no checkpoint of narrow train (no '" + std::string(key) + "' in its metadata)");
}

std::uint64_t steps_of(const TensorFile& file) {
  const narrow::Tensor* flags = file.find("found_inf");
  if (flags == nullptr) fail(file.path, "no checkpoint of narrow train (no tensor 'found_inf')");
  return flags->values();
}

template <class T>
std::vector<T> read_tensor(const TensorFile& file, const std::string& name, std::uint64_t count) {
  const narrow::Tensor* tensor = file.find(name);
  if (tensor == nullptr || tensor->values() != count)
    fail(file.path, "a checkpoint of this run has a tensor '" + name + "' of " + std::to_string(count) + " values");
  std::vector<T> values(count);
  if constexpr (std::is_same_v<T, std::uint8_t>) read_codes(*tensor, 0, values);
  else read_values(*tensor, 0, values);
  return values;
}

std::vector<StepRow> table_to_rows(std::span<const double> table) {
  std::vector<StepRow> rows(table.size() / columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const double> values = table.subspan(i * columns, columns);
    rows[i].step = i;
    for (std::size_t c = 0; c < std::size(real_columns); ++c) rows[i].*real_columns[c] = values[c];
    rows[i].scale = narrow::detail::to_float(values[columns - 2]);
    rows[i].skipped = values[columns - 1] != 0;
  }
  return rows;
}

std::optional<FirstNonFinite> first_of(const Json& j) {
  if (j.is_null()) return std::nullopt;
  const auto operation = j.at("operation").get<std::size_t>(), role = j.at("role").get<std::size_t>();
  if (operation >= operation_count || role >= role_count) throw Error("no such operation");
  return FirstNonFinite{j.at("step").get<std::uint64_t>(), j.at("tensor").get<std::string>(),
                        static_cast<Operation>(operation), static_cast<Role>(role), j.at("in_model").get<bool>()};
}

// "task: now digits, then lm" for the first member that differs.
std::string first_difference(const std::string& now, const std::string& then) {
  const Json a = Json::parse(now), b = Json::parse(then, nullptr, false);
  for (const auto& [key, value] : a.items())
    if (!b.is_object() || !b.contains(key) || b[key] != value)
      return key + (key == "recipe" || key == "data" || !b.is_object() || !b.contains(key)
                        ? " differs"
                        : " is now " + value.dump() + " and was " + b[key].dump());
  return "something differs";
}

}  // namespace

std::string run_identity(const RunRequest& r) {
  const ModelShape& s = *r.shape;
  const OptimiserSettings& o = *r.optimiser;
  const Batch sample = r.data->training_batch(0, 0, 64);
  std::uint32_t data = crc32_of(0, std::as_bytes(std::span(sample.tokens)));
  data = crc32_of(data, std::as_bytes(std::span(sample.inputs)));
  const Json identity = {
      {"task", name_of(r.task)},
      {"seed", r.seed},
      {"batch", *r.batch},
      {"model",
       {static_cast<int>(s.kind), s.inputs, s.hidden, s.classes, s.layers, s.width, s.heads, s.rms_norm, s.qk_norm,
        s.soft_cap, s.context, s.vocabulary, s.image, s.patch}},
      {"optimiser",
       {static_cast<int>(o.kind), o.learning_rate, o.momentum, o.beta1, o.beta2, o.epsilon, o.weight_decay, o.clip}},
      {"micro_batches", r.micro_batches},
      {"ranks", r.ranks},
      {"order", name_of(r.order)},
      {"accumulate", accumulate_names[static_cast<std::size_t>(r.accumulate)]},
      {"clip_order", clip_order_names[static_cast<std::size_t>(r.clip_order)]},
      {"schedule",
       {schedule_names[static_cast<std::size_t>(r.schedule.kind)], r.schedule.warmup,
        schedule_count_names[static_cast<std::size_t>(r.schedule.counts)], r.schedule.length}},
      {"data", data},
      {"recipe", recipe_json(r.recipe)},
  };
  return identity.dump();
}

void write_checkpoint(const std::string& path, Trainer& trainer) {
  const TrainingState state = trainer.state();
  const std::vector<Parameter<float>*> parameters = trainer.model().parameters();
  const std::vector<double> table = rows_to_table(state.rows);
  Pack pack;
  pack.add("rows", "F64", {state.rows.size(), columns}, std::as_bytes(std::span(table)));
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    pack.add("parameter." + parameters[k]->name, state.parameters[k], shape_of(parameters[k]->value));
    add_moments(pack, *parameters[k], state.moments[k]);
  }
  for (const LayerState& s : state.layers) pack.add("state." + s.name, s.values);
  std::vector<std::uint8_t> found_inf;
  for (const StepRow& row : state.rows) found_inf.push_back(row.found_inf);
  pack.add("found_inf", "U8", {found_inf.size()}, std::as_bytes(std::span(found_inf)));
  const Json progress = {{"optimiser_steps", state.optimiser_steps},
                         {"first_nonfinite", to_json(state.first_nonfinite)},
                         {"broke", state.broke ? Json(*state.broke) : Json()}};
  pack.write(path, {{"run", run_identity(trainer.request())}, {"progress", progress.dump()}});
}

void read_checkpoint(const std::string& path, Trainer& trainer) {
  const TensorFile file = open_tensor_file(path);
  const std::string now = run_identity(trainer.request()), then = metadata_of(file, "run");
  if (now != then) fail(path, "the checkpoint of another run: " + first_difference(now, then));
  const TrainingState fresh = trainer.state();  // the sizes
  const std::vector<Parameter<float>*> parameters = trainer.model().parameters();
  TrainingState state;
  const std::uint64_t steps = steps_of(file);
  const std::vector<std::uint8_t> found_inf = read_tensor<std::uint8_t>(file, "found_inf", steps);
  state.rows = table_to_rows(read_tensor<double>(file, "rows", steps * columns));
  for (std::size_t i = 0; i < steps; ++i) state.rows[i].found_inf = found_inf[i] != 0;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const std::string& name = parameters[k]->name;
    state.parameters.push_back(read_tensor<float>(file, "parameter." + name, fresh.parameters[k].size()));
    const auto moment = [&](const char* which, const std::vector<float>& like) {
      return like.empty() ? std::vector<float>() : read_tensor<float>(file, which + name, like.size());
    };
    state.moments.push_back({moment("first.", fresh.moments[k].first), moment("second.", fresh.moments[k].second),
                             moment("compensation.", fresh.moments[k].compensation)});
  }
  for (const LayerState& s : fresh.layers) {
    const narrow::Tensor* tensor = file.find("state." + s.name);  // a history grows
    if (tensor == nullptr) fail(path, "a checkpoint of this run has a tensor 'state." + s.name + "'");
    state.layers.push_back({s.name, read_tensor<float>(file, "state." + s.name, tensor->values())});
  }
  try {
    const Json progress = Json::parse(metadata_of(file, "progress"));
    state.optimiser_steps = progress.at("optimiser_steps").get<std::uint64_t>();
    state.first_nonfinite = first_of(progress.at("first_nonfinite"));
    if (!progress.at("broke").is_null()) state.broke = progress.at("broke").get<std::uint64_t>();
    trainer.restore(std::move(state));
  } catch (const std::exception& error) {
    fail(path, std::string("a damaged checkpoint: ") + error.what());
  }
}

CheckpointProgress read_progress(const std::string& path) {
  const TensorFile file = open_tensor_file(path);
  const Json progress = Json::parse(metadata_of(file, "progress"), nullptr, false);
  const bool broke = progress.is_object() && progress.contains("broke") && !progress["broke"].is_null();
  return {steps_of(file), broke};
}

void write_dump(const std::string& path, Trainer& trainer) {
  const std::vector<Parameter<float>*> parameters = trainer.model().parameters();
  Pack pack;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    pack.add("parameter." + parameters[k]->name, parameters[k]->value.data, shape_of(parameters[k]->value));
    pack.add("gradient." + parameters[k]->name, parameters[k]->gradient.data, shape_of(parameters[k]->gradient));
    add_moments(pack, *parameters[k], trainer.optimiser().moments()[k]);
  }
  pack.write(path, {{"run", run_identity(trainer.request())}, {"steps", std::to_string(trainer.rows().size())}});
}

}  // namespace narrow::train
