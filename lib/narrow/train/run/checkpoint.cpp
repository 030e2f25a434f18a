#include "narrow/train/run/checkpoint.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "narrow/base/error.hpp"
#include "narrow/tensor/crc32.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/mapped_file.hpp"
#include "narrow/tensor/new_file.hpp"
#include "narrow/tensor/safetensors_json.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "narrow/train/policy/config_json.hpp"

namespace narrow::train {

namespace {

constexpr double StepRow::*real_columns[] = {
    &StepRow::loss,           &StepRow::gradient_norm, &StepRow::update_ratio,  &StepRow::underflow_share,
    &StepRow::overflow_share, &StepRow::largest_logit, &StepRow::learning_rate, &StepRow::clipped_norm,
    &StepRow::clip_factor};
constexpr std::size_t columns = std::size(real_columns) + 2;  // and scale and skipped

// --- the checksum ---

// The metadata hold the CRC-32 of the whole file, in which its own eight digits count as zeros:
//   header length | {"__metadata__":{"checksum":"00000000",... | data
constexpr std::string_view before_digits = "{\"__metadata__\":{\"checksum\":\"", zeros = "00000000";
constexpr std::size_t digits_at = 8 + before_digits.size();

std::string to_digits(std::uint32_t crc) {
  std::string text(zeros);
  for (std::size_t i = text.size(); i-- > 0; crc >>= 4) text[i] = "0123456789abcdef"[crc & 15];
  return text;
}

// Empty where the file does not begin as it should.
std::string checksum_of(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.size() < digits_at + zeros.size() || text.substr(8, before_digits.size()) != before_digits) return "";
  std::uint32_t crc = crc32_of(0, file.first(digits_at));
  crc = crc32_of(crc, std::as_bytes(std::span(zeros)));
  return to_digits(crc32_of(crc, file.subspan(digits_at + zeros.size())));
}

// --- out ---

// What is at path gets the other name too, so that it stays when path is given to the next one.
void keep_previous(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);  // a link to a file has the file kept
  if (error) return;                                                           // nothing there yet
  const std::string previous = previous_checkpoint(path);
  unlink(previous.c_str());
  if (link(real.c_str(), previous.c_str()) == 0) return;
  // No second names in this file system, or the file is in another one.
  NewFile copy(previous);
  copy.write(MappedFile::open(path)->bytes());
  copy.finish();
}

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
  void write(const std::string& path, std::vector<std::pair<std::string, std::string>> metadata,
             bool is_checkpoint = false) const {
    if (is_checkpoint) {
      metadata.insert(metadata.begin(), {"checksum", std::string(zeros)});
      const std::string header = safetensors_header_text(headers, metadata);
      std::uint32_t crc = crc32_of(0, std::as_bytes(std::span(header)));
      for (const std::span<const std::byte> bytes : data) crc = crc32_of(crc, bytes);
      metadata[0].second = to_digits(crc);
    }
    TensorWriter writer(path, headers, std::move(metadata));
    for (const std::span<const std::byte> bytes : data) writer.write(bytes);
    if (is_checkpoint) keep_previous(path);
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

// The values of a tensor that has this type and this shape.
template <class T>
std::vector<T> read_tensor(const TensorFile& file, const std::string& name, const std::vector<std::uint64_t>& shape) {
  constexpr std::string_view type = sizeof(T) == 1 ? "U8" : sizeof(T) == 4 ? "F32" : "F64";
  const narrow::Tensor* tensor = file.find(name);
  if (tensor == nullptr || tensor->type.name != type || tensor->shape != shape)
    fail(file.path, "damaged: a checkpoint of this run has a tensor '" + name + "' of " + std::string(type) +
                        " and shape " + shape_text(shape));
  std::vector<T> values(tensor->values());
  if constexpr (std::is_same_v<T, std::uint8_t>) read_codes(*tensor, 0, values);
  else read_values(*tensor, 0, values);
  return values;
}

std::vector<StepRow> read_rows(const TensorFile& file) {
  const narrow::Tensor* flags = file.find("found_inf");
  const std::uint64_t steps = flags == nullptr ? 0 : flags->elements();
  const std::vector<std::uint8_t> found_inf = read_tensor<std::uint8_t>(file, "found_inf", {steps});
  const std::vector<double> table = read_tensor<double>(file, "rows", {steps, columns});
  std::vector<StepRow> rows(steps);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double* values = &table[i * columns];
    const double skipped = values[columns - 1];
    if (found_inf[i] > 1 || (skipped != 0 && skipped != 1))
      fail(file.path, "damaged: found_inf or skipped of step " + std::to_string(i) + " is neither 0 nor 1");
    rows[i].step = i;
    for (std::size_t c = 0; c < std::size(real_columns); ++c) rows[i].*real_columns[c] = values[c];
    rows[i].scale = narrow::detail::to_float(values[columns - 2]);
    rows[i].skipped = skipped != 0;
    rows[i].found_inf = found_inf[i] != 0;
  }
  return rows;
}

// Of a step that was done.
std::uint64_t step_of(const Node& node, std::uint64_t steps) {
  if (steps == 0) node.fail("names a step, and none was done");
  return static_cast<std::uint64_t>(node.count(0, static_cast<std::int64_t>(steps) - 1));
}

std::optional<FirstNonFinite> first_of(const Node& node, std::uint64_t steps) {
  if (node.value.is_null()) return std::nullopt;
  FirstNonFinite first;
  std::size_t keys = 0;
  node.each({"step", "tensor", "operation", "role", "in_model"}, [&](std::size_t key, const Node& child) {
    ++keys;
    switch (key) {
      case 0: first.step = step_of(child, steps); break;
      case 1: first.tensor = child.text(); break;
      case 2: first.operation = static_cast<Operation>(child.count(0, operation_count - 1)); break;
      case 3: first.role = static_cast<Role>(child.count(0, role_count - 1)); break;
      case 4: first.in_model = child.truth(); break;
    }
  });
  const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (keys != 5 || first.tensor.size() > 200 || !std::all_of(first.tensor.begin(), first.tensor.end(), is_printable))
    node.fail("must have a step, a tensor of at most 200 printable characters, an operation, a role and in_model");
  return first;
}

struct Opened {
  TensorFile file;
  TrainingState state;  // all but the tensors
};

// Every byte is looked at, and all that can be known without the run.
Opened open_checkpoint(const std::string& path) {
  Opened opened{open_tensor_file(path), {}};
  const auto& metadata = opened.file.metadata;
  metadata_of(opened.file, "run");
  if (std::none_of(metadata.begin(), metadata.end(), [](const auto& entry) { return entry.first == "checksum"; }))
    fail(path, "has no checksum: of an older version of narrow, or damaged; start again without --resume");
  const std::string stated = metadata_of(opened.file, "checksum");
  if (const std::string found = checksum_of(MappedFile::open(path)->bytes()); found != stated)
    fail(path, "damaged: its checksum is " + quote(stated) + " and its bytes give " + quote(found));
  TrainingState& state = opened.state;
  state.rows = read_rows(opened.file);
  const std::uint64_t steps = state.rows.size();
  const std::string where = quote_path(path) + ": damaged: progress";
  const Json progress = parse_strict_json<Json>(metadata_of(opened.file, "progress"), where);
  std::size_t keys = 0;
  Node{progress, where}.each({"optimiser_steps", "first_nonfinite", "broke"}, [&](std::size_t key, const Node& child) {
    ++keys;
    if (key == 0) state.optimiser_steps = static_cast<std::uint64_t>(child.count(0, static_cast<std::int64_t>(steps)));
    if (key == 1) state.first_nonfinite = first_of(child, steps);
    if (key == 2 && !child.value.is_null()) state.broke = step_of(child, steps);
  });
  if (keys != 3) fail(path, "damaged: progress has optimiser_steps, first_nonfinite and broke");
  return opened;
}

// "task: now digits, then lm" for the first member that differs.
std::string first_difference(const std::string& now, const std::string& then) {
  const Json a = Json::parse(now), b = Json::parse(then, nullptr, false);  // b for a message alone
  for (const auto& [key, value] : a.items())
    if (!b.is_object() || !b.contains(key) || b[key] != value)
      return key + (key == "recipe" || key == "data" || !b.is_object() || !b.contains(key)
                        ? " differs"
                        : " is now " + value.dump() + " and was " + b[key].dump());
  for (const auto& [key, value] : b.items())
    if (!a.contains(key)) return key + " differs";
  return "something differs";
}

}  // namespace

std::string run_identity(const RunRequest& r) {
  const ModelShape& s = *r.shape;
  const OptimiserSettings& o = *r.optimiser;
  const Batch sample = r.data->training_batch(0, 0, 64);
  std::uint32_t data = crc32_of(0, std::as_bytes(std::span(sample.tokens)));
  data = crc32_of(data, std::as_bytes(std::span(sample.inputs)));
  Json identity = {
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
  if (r.reduce_blocks) {  // others are as they were before there was a choice
    const BlockFormat& b = *r.reduce_blocks;
    identity["reduce_blocks"] = {
        b.element.exponent_bits, b.element.mantissa_bits, b.scale.width(), b.block_rows, b.block_cols,
        row_of(b.rule).name};
  }
  if (r.error_feedback) identity["error_feedback"] = true;
  return identity.dump();
}

std::string previous_checkpoint(const std::string& path) {
  constexpr std::string_view ending = ".safetensors";
  return path.substr(0, path.size() - (path.ends_with(ending) ? ending.size() : 0)) + ".previous.safetensors";
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
  pack.write(path, {{"run", run_identity(trainer.request())}, {"progress", progress.dump()}}, true);
}

void read_checkpoint(const std::string& path, Trainer& trainer) {
  Opened opened = open_checkpoint(path);
  const TensorFile& file = opened.file;
  TrainingState& state = opened.state;
  if (trainer.request().error_feedback)
    fail(path, "has not what the ranks of error feedback hold back; start again without --resume");
  const std::string now = run_identity(trainer.request()), then = metadata_of(file, "run");
  if (now != then) fail(path, "the checkpoint of another run: " + first_difference(now, then));
  const TrainingState fresh = trainer.state();  // the sizes
  const std::vector<Parameter<float>*> parameters = trainer.model().parameters();
  std::size_t tensors = 2 + fresh.layers.size();  // found_inf and rows
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const auto take = [&, k](const std::string& which, const std::vector<float>& like) {
      if (like.empty()) return std::vector<float>();
      ++tensors;
      return read_tensor<float>(file, which + parameters[k]->name, shape_of(parameters[k]->value));
    };
    const Moments& m = fresh.moments[k];
    state.parameters.push_back(take("parameter.", fresh.parameters[k]));
    state.moments.push_back(
        {take("first.", m.first), take("second.", m.second), take("compensation.", m.compensation)});
  }
  for (const LayerState& s : fresh.layers) {
    const narrow::Tensor* tensor = file.find("state." + s.name);  // a history grows
    const std::uint64_t count = tensor == nullptr ? s.values.size() : tensor->elements();
    state.layers.push_back({s.name, read_tensor<float>(file, "state." + s.name, {count})});
  }
  if (const std::size_t all = file.tensors.size() + file.parts.size() + file.unreadable.size(); all != tensors)
    fail(path, "damaged: " + std::to_string(all) + " tensors; a checkpoint of this run has " + std::to_string(tensors));
  try {
    trainer.restore(std::move(state));
  } catch (const Error& error) {
    fail(path, std::string("damaged: ") + error.what());
  }
}

CheckpointProgress read_progress(const std::string& path) {
  const TrainingState state = open_checkpoint(path).state;
  return {state.rows.size(), state.broke.has_value()};
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
