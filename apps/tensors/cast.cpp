// narrow cast: a tensor file to codes of a format, or to rounded values; names and metadata are kept.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "cli/command.hpp"
#include "cli/crew.hpp"
#include "cli/json_value.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/cluster/shared_tensor_file.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "narrow/text/quote.hpp"
#include "options/cast_options.hpp"
#include "options/format_list.hpp"
#include "options/model_index.hpp"
#include "options/tensor_choice.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace of_cast {

struct Options {
  std::vector<std::string> files;
  std::optional<std::string> to;
  TensorOptions choice;
  CastOptions cast;
  bool values = false, json = false;
};

// What the tensors of a file become: codes of a format, of a block format, or (values) FP32.
struct Target {
  std::string name;  // with its rule, where it is a block format
  narrow::FormatCast plain = {};
  std::optional<narrow::BlockFormat> blocks = {};
  narrow::CastResult result = narrow::CastResult::codes;
};

// One tensor of the input and the tensors that it becomes: itself, or codes and scales.
struct Planned {
  narrow::Tensor source;
  std::vector<narrow::TensorHeader> headers;
  bool is_cast = false;
  bool names_format = true;                 // the type says what the codes mean
  std::vector<narrow::Tensor> copies = {};  // not cast: what lies in the file
};

using Metadata = std::unordered_map<std::string_view, std::string_view>;

struct Plan {
  std::vector<Planned> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// An .npy file has no name inside; .safetensors needs one.
std::string name_in_output(const narrow::Tensor& tensor, const std::string& input) {
  if (!tensor.name.empty()) return tensor.name;
  const std::string stem = std::filesystem::path(input).stem().string();
  return stem.empty() || stem == "-" ? "tensor" : stem;
}

bool can_cast(const narrow::Tensor& tensor, const Target& to) {
  return tensor.type.kind == narrow::ElementKind::floating ||
         (tensor.type.kind == narrow::ElementKind::complex && !to.blocks && to.result == narrow::CastResult::values);
}

Planned plan_copy(const narrow::Tensor& tensor, const std::string& name) {
  Planned planned{tensor, {}, false, true, {tensor}};
  planned.copies[0].name = name;
  if (tensor.blocks && tensor.blocks->layout != "gguf") planned.copies = tensor.blocks->stored;
  planned.headers.assign(planned.copies.begin(), planned.copies.end());
  return planned;
}

Planned plan_cast(const narrow::Tensor& tensor, const std::string& name, const Target& to) {
  Planned planned{tensor, {tensor}, true};
  planned.headers[0].name = name;
  if (to.blocks && to.result == narrow::CastResult::codes) {
    planned.headers = narrow::block_headers(planned.headers[0], *to.blocks);
  } else {
    const narrow::Format& f = to.blocks ? to.blocks->element : to.plain.format;
    const narrow::ElementType from = to.blocks ? *narrow::find_element_type("F32") : tensor.type;
    const narrow::ResultType type = narrow::cast_type(from, tensor.elements(), f, to.result);
    planned.headers[0].type = type.type;
    planned.names_format = type.names_format;
  }
  return planned;
}

// What the file says about its tensors is said of those that are written, as they are written.
void add_metadata(Plan& plan, const Metadata& metadata, const Planned& planned, const Target& to) {
  const std::string& name = planned.headers[0].name;
  if (planned.is_cast) {
    if (!planned.names_format) plan.metadata.emplace_back(format_key(name), to.name);
    if (planned.headers.size() > 1) plan.metadata.emplace_back(narrow::block_format_key(name), to.name);
    if (planned.headers.size() > 2) plan.metadata.emplace_back(narrow::scale2_key(name), narrow::scale2_is_factor);
    return;
  }
  for (const std::string& key : {format_key(name), narrow::block_format_key(name), narrow::scale2_key(name)})
    if (const auto said = metadata.find(key); said != metadata.end()) plan.metadata.emplace_back(key, said->second);
}

Plan make_plan(const ChosenFile& input, const Target& to) {
  Plan plan;
  for (const auto& entry : input.file.metadata) {
    const auto begins = [&](const std::string& prefix) { return entry.first.starts_with(prefix); };
    if (!begins(format_key("")) && !begins(narrow::block_format_key("")) && !begins(narrow::scale2_key("")))
      plan.metadata.push_back(entry);
  }
  const Metadata metadata(input.file.metadata.begin(), input.file.metadata.end());
  std::unordered_map<std::string_view, const narrow::Tensor*> chosen;
  for (const narrow::Tensor& tensor : input.tensors) chosen.emplace(tensor.name, &tensor);
  std::unordered_set<std::string_view> broken;
  for (const narrow::Unreadable& b : input.unreadable) broken.insert(b.name);
  for (const std::vector<narrow::Tensor>* list : {&input.file.tensors, &input.file.parts})
    for (const narrow::Tensor& tensor : *list) {
      const auto found = chosen.find(tensor.name);
      const bool is_chosen = found != chosen.end();
      if (!is_chosen && (input.one_named || list == &input.file.parts)) continue;
      if (broken.contains(tensor.name)) continue;
      const std::string name = name_in_output(tensor, input.file.path);
      plan.tensors.push_back(is_chosen && can_cast(*found->second, to) ? plan_cast(*found->second, name, to)
                                                                       : plan_copy(tensor, name));
      add_metadata(plan, metadata, plan.tensors.back(), to);
    }
  return plan;
}

std::vector<narrow::TensorHeader> headers_of(const Plan& plan) {
  std::vector<narrow::TensorHeader> headers;
  for (const Planned& p : plan.tensors) headers.insert(headers.end(), p.headers.begin(), p.headers.end());
  return headers;
}

std::uint64_t bytes_to_read(const Planned& p, const Target& to) {
  return p.is_cast ? p.source.bytes() * (to.blocks && to.blocks->needs_tensor_amax() ? 2 : 1)
                   : narrow::stored_bytes(p.source);
}

// Writes what one tensor of the input becomes.
template <class Write>
narrow::NotKept write_tensor(const Planned& p, const Target& to, const Write& write, const narrow::TensorPass& pass) {
  std::uint64_t at = 0;
  for (const narrow::Tensor& copy : p.copies) {
    narrow::copy_tensor(copy, narrow::WriteAt([&](std::uint64_t place, auto bytes) { write(at + place, bytes); }),
                        pass);
    at += copy.bytes();
  }
  if (!p.is_cast) return {};
  if (to.blocks) return narrow::quantise_tensor(p.source, *to.blocks, to.result, narrow::WriteAt(write), pass);
  narrow::cast_tensor(p.source, to.plain, to.result, narrow::WriteAt(write), pass);
  return {};
}

// One process writes it all, from the first byte to the last.
narrow::NotKept write_alone(const Plan& plan, const std::string& path, const Target& to, std::uint64_t seed,
                            Progress& progress) {
  const narrow::TensorPass pass{seed, 0, [&](std::uint64_t done) { progress.add(done); }};
  narrow::TensorWriter writer(path, headers_of(plan), plan.metadata);
  narrow::NotKept lost;
  for (const Planned& p : plan.tensors)
    lost += write_tensor(
        p, to, [&](std::uint64_t, std::span<const std::byte> bytes) { writer.write(bytes); }, pass);
  writer.finish();
  return lost;
}

// A crew writes it, each rank what it casts.
narrow::NotKept write_together(const Plan& plan, const std::string& path, const Target& to, std::uint64_t seed,
                               Progress& progress) {
  narrow::cluster::SharedTensorFile file(*crew(), path, headers_of(plan), plan.metadata);
  std::vector<std::uint64_t> sizes, begins;
  std::vector<narrow::NotKept> lost(plan.tensors.size());
  std::uint64_t begin = 0;
  for (const Planned& p : plan.tensors) {
    sizes.push_back(bytes_to_read(p, to));
    begins.push_back(begin);
    for (const narrow::TensorHeader& h : p.headers) begin += h.bytes();
  }
  const auto name = [&](std::size_t i) {
    return narrow::quote(plan.tensors[i].headers[0].name) + " of " + narrow::quote(path);
  };
  share_tensors(sizes, name, [&](std::size_t i, narrow::PieceLog* log) {
    const narrow::TensorPass pass{seed, 0, [&](std::uint64_t done) { progress.add(done); }, log};
    const auto write = [&](std::uint64_t at, std::span<const std::byte> bytes) { file.write(begins[i] + at, bytes); };
    lost[i] = write_tensor(plan.tensors[i], to, write, pass);
  });
  file.finish();
  narrow::NotKept all;
  for (const narrow::NotKept& one : lost) all += one;
  return all;
}

bool is_npy(const std::string& path) { return path.ends_with(".npy"); }

void check_output(const std::string& path, const Plan& plan, const ChosenFile& input, const Target& to, bool may_copy) {
  const bool scales = to.blocks && to.result == narrow::CastResult::codes;
  if (!is_npy(path) && !path.ends_with(".safetensors"))
    throw narrow::Error("cast: the ending of " + narrow::quote(path) + " says what to write; accepted: .safetensors" +
                        (scales ? "" : ", .npy"));
  const bool any =
      may_copy || std::any_of(plan.tensors.begin(), plan.tensors.end(), [](const Planned& p) { return p.is_cast; });
  if (!any) (void)input.floating();  // says why
  if (!any)
    throw narrow::Error("cast: nothing to cast in " + narrow::quote(input.argument) +
                        (to.blocks ? "; block formats take real tensors" : "; complex tensors need --values"));
  std::vector<std::string> names;
  for (const Planned& p : plan.tensors)
    for (const narrow::TensorHeader& h : p.headers) names.push_back(h.name);
  if (is_npy(path) && names.size() != 1)
    throw narrow::Error("cast: " + narrow::quote(path) + " holds one tensor, " +
                        (scales ? "codes and scales are " : narrow::quote(input.argument) + " has ") +
                        std::to_string(names.size()) + "; " +
                        (scales ? "write .safetensors, or take one tensor with --values"
                                : "name one (FILE:TENSOR), or write .safetensors"));
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw narrow::Error("cast: " + narrow::quote(input.argument) +
                        (scales ? " has a tensor " + narrow::quote(*twice) + " already, where the scales would go"
                                : " would give two tensors the name " + narrow::quote(*twice)));
}

// Sizes are those on disk. Of one tensor of many there is none before.
struct Outcome {
  std::optional<std::uint64_t> before;
  std::uint64_t after = 0;
  narrow::NotKept not_kept = {};
};

Json to_json(const Plan& plan, const std::string& path, const Target& to, const Outcome& outcome) {
  Json tensors = Json::array();
  for (const Planned& p : plan.tensors)
    for (const narrow::TensorHeader& h : p.headers) {
      Json row = Json::object();
      row["name"] = h.name;
      row["from"] = p.source.type.name;
      row["dtype"] = h.type.name;
      row["cast"] = p.is_cast;
      row["bytes"] = is_npy(path) && h.type.bits < 8 ? h.elements() : h.bytes();  // .npy holds one code a byte
      tensors.push_back(std::move(row));
    }
  Json out = Json::object();
  out["file"] = path;
  out["format"] = to.name;
  out["values"] = to.result == narrow::CastResult::values;
  out["tensors"] = std::move(tensors);
  out["bytes_before"] = outcome.before ? Json(*outcome.before) : Json();
  out["bytes_after"] = outcome.after;
  out["lost_blocks"] = outcome.not_kept.blocks;
  out["not_finite"] = outcome.not_kept.values;
  return out;
}

std::string summary(const Plan& plan, const std::string& path, const Target& to, const Outcome& outcome) {
  std::size_t cast = 0, plain = 0;
  std::vector<std::string> types;
  std::string plain_type;
  for (const Planned& p : plan.tensors) {
    if (!p.is_cast) continue;
    ++cast;
    for (const narrow::TensorHeader& h : p.headers)
      if (std::find(types.begin(), types.end(), h.type.name) == types.end()) types.emplace_back(h.type.name);
    if (!p.names_format) ++plain, plain_type = p.headers[0].type.name;
  }
  std::string list;
  for (std::size_t i = 0; i < types.size(); ++i)
    list += (i == 0 ? "" : i + 1 < types.size() || !to.blocks ? ", " : " and ") + types[i];
  const bool values = to.result == narrow::CastResult::values;
  const std::size_t copied = plan.tensors.size() - cast;
  const std::string sizes =
      "; " + (outcome.before ? size_text(*outcome.before) + " -> " : "") + size_text(outcome.after) + "\n";
  if (cast == 0)
    return printable(path) + ": nothing to cast, " + std::to_string(copied) + (copied == 1 ? " tensor" : " tensors") +
           " copied" + sizes;
  std::string text = printable(path) + ": " + std::to_string(cast) + (cast == 1 ? " tensor" : " tensors") +
                     " cast to " + to.name +
                     (values      ? " values in "
                      : to.blocks ? ", codes and scales in "
                                  : " codes in ") +
                     list + (copied != 0 ? ", " + std::to_string(copied) + " copied" : "") + sizes;
  text += not_kept_text(outcome.not_kept, to.name);
  if (plain != 0)
    text += "note: " + std::to_string(plain) + (plain == 1 ? " tensor" : " tensors") + " of " + to.name +
            " codes without a type in the file are written as " + plain_type +
            (is_npy(path) ? "; read them with --format " + to.name
                          : "; metadata '" + format_key("NAME") + "' says so, and narrow reads it") +
            "\n";
  return text;
}

Target read_target(const Options& options) {
  Target to;
  to.result = options.values ? narrow::CastResult::values : narrow::CastResult::codes;
  if (narrow::is_block_format_name(*options.to)) {
    if (!options.cast.is_plain())
      throw narrow::Error("cast: --cast, --rounding, --overflow and --subnormals do not go with " +
                          narrow::quote(*options.to) + ", whose rule fixes them");
    const ChosenBlockFormat chosen = blame("--to", [&] { return choose_block_format(*options.to); });
    // The rule included: what reads the file need not know the defaults of this program.
    to.name = chosen.name.substr(0, chosen.name.find(':')) + ":" + std::string(narrow::row_of(chosen.format.rule).name);
    to.blocks = chosen.format;
    return to;
  }
  const ChosenFormat chosen = blame("--to", [&] { return choose_format(*options.to); });
  to.name = chosen.name;
  to.plain = {chosen.format, blame(chosen.name, [&] { return options.cast.cast_to(chosen.format); })};
  return to;
}

// One file of the request, and what became of it.
struct Job {
  std::string in, out;
  std::uint64_t bytes = 0;
  bool together = false;  // written by all ranks
};
template <class Archive>
void members(Archive& archive, Job& j) {
  archive(j.in, j.out, j.bytes, j.together);
}
struct Done {
  Outcome outcome;
  std::string said, left_out;
  std::vector<std::pair<std::string, std::uint64_t>> tensors;  // names and bytes, for an index
};
template <class Archive>
void members(Archive& archive, Done& d) {
  archive(d.outcome, d.said, d.left_out, d.tensors);
}

Done cast_file(const Options& options, const Job& job, const Target& to, Progress& progress, bool in_folder) {
  TensorOptions choice = options.choice;
  choice.may_match_none = in_folder;
  const ChosenFile input = open_chosen(job.in, choice);
  const Plan plan = make_plan(input, to);
  check_output(job.out, plan, input, to, in_folder);
  Done done;
  done.outcome.not_kept =
      (job.together ? write_together : write_alone)(plan, job.out, to, options.cast.random_value(), progress);
  if (!input.one_named || input.file.tensors.size() == 1) done.outcome.before = input.file.bytes;
  if (!job.together || speaks()) done.outcome.after = std::filesystem::file_size(job.out);  // others may see it later
  done.left_out = left_out_text(input);
  done.said = options.json ? to_json(plan, job.out, to, done.outcome).dump() : summary(plan, job.out, to, done.outcome);
  for (const narrow::TensorHeader& h : headers_of(plan)) done.tensors.emplace_back(h.name, h.bytes());
  return done;
}

std::uint64_t size_on_disk(const std::string& argument) {
  std::error_code error;
  const std::string path = narrow::split_file_and_name(argument).first;
  if (path.ends_with(".json")) return narrow::open_tensor_file(path).bytes;  // with its shards
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

// A file that is much of the whole is written by all, any other by one rank.
void share_out(std::vector<Job>& jobs) {
  constexpr std::uint64_t least = std::uint64_t{1} << 24;
  std::uint64_t total = 0;
  for (const Job& job : jobs) total += job.bytes;
  if (crew() == nullptr || crew()->size() == 1) return;
  for (Job& job : jobs) {
    std::error_code error;
    const bool is_special =  // a device, a pipe
        std::filesystem::exists(job.out, error) && !std::filesystem::is_regular_file(job.out, error);
    job.together = job.bytes > std::max(total / (4 * crew()->size()), least) && !is_npy(job.out) && !is_special;
  }
}

std::vector<Done> cast_files(const Options& options, const std::vector<Job>& jobs, const Target& to, bool in_folder) {
  std::uint64_t total = 0;
  for (const Job& job : jobs) total += job.bytes;
  Progress progress("cast", total * (to.blocks && to.blocks->needs_tensor_amax() ? 2 : 1));
  std::vector<Done> done(jobs.size());
  if (crew() == nullptr) {
    for (std::size_t i = 0; i < jobs.size(); ++i) done[i] = cast_file(options, jobs[i], to, progress, in_folder);
    return done;
  }
  std::vector<narrow::cluster::Item> items;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = jobs[i];
    if (job.together) {
      done[i] = cast_file(options, job, to, progress, in_folder);
    } else {
      items.push_back({job.bytes, narrow::quote(job.in)});
      places.push_back(i);
    }
  }
  const std::vector<narrow::Bytes> results = crew()->share(items, [&](std::size_t k) {
    return narrow::to_bytes(cast_file(options, jobs[places[k]], to, progress, in_folder));
  });
  for (std::size_t k = 0; k < places.size(); ++k) done[places[k]] = narrow::from_bytes<Done>(results[k]);
  return done;
}

// The files of a folder and what they become in another: shards keep their names, and so does the index.
std::vector<Job> jobs_of(const std::string& from, const std::string& to_folder, const Target& to) {
  std::error_code error;
  if (std::filesystem::equivalent(from, to_folder, error))
    throw narrow::Error("cast: " + narrow::quote(from) + " would be replaced file by file; give another folder");
  std::vector<std::string> files = expand_folders({from});
  if (files[0].ends_with(model_index_name)) files = narrow::open_tensor_file(files[0]).shards;
  make_folder(to_folder);
  std::vector<Job> jobs;
  std::set<std::string> names;
  const bool has_scales = to.blocks && to.result == narrow::CastResult::codes;
  for (const std::string& file : files) {
    std::filesystem::path name = std::filesystem::path(file).filename();
    if (name.extension() == ".npz" || (has_scales && name.extension() == ".npy"))
      name.replace_extension(".safetensors");
    if (!names.insert(name.string()).second)
      throw narrow::Error("cast: two files of " + narrow::quote(from) + " would become " +
                          narrow::quote(name.string()));
    jobs.push_back({file, (std::filesystem::path(to_folder) / name).string(), size_on_disk(file)});
  }
  return jobs;
}

int run(const Options& options) {
  if (options.files.size() != 2)
    throw narrow::Error("cast: give IN and OUT; for example: narrow cast model.safetensors out.safetensors --to e4m3");
  if (!options.to) throw narrow::Error("cast: no format; give one: --to e4m3");
  options.cast.check();
  const Target to = read_target(options);
  const std::string &in = options.files[0], &out = options.files[1];
  std::error_code error;
  const bool folder = by_first([&] { return std::filesystem::is_directory(in, error); });
  const std::vector<Job> jobs = by_first([&] {
    std::vector<Job> list = folder ? jobs_of(in, out, to) : std::vector<Job>{{in, out, size_on_disk(in)}};
    share_out(list);
    // An index that is there is of other shards than those to come.
    if (folder) std::filesystem::remove(std::filesystem::path(out) / model_index_name, error);
    return list;
  });
  const std::vector<Done> done = cast_files(options, jobs, to, folder);
  // Last: it names files that are there.
  const std::string index = (std::filesystem::path(in) / model_index_name).string();
  if (folder && speaks() && std::filesystem::exists(index, error)) {
    ShardOf shards;
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i)
      for (const auto& [name, bytes] : done[i].tensors) {
        shards[name] = std::filesystem::path(jobs[i].out).filename().string();
        total += bytes;
      }
    write_file((std::filesystem::path(out) / model_index_name).string(), model_index_text(shards, total, index));
  }
  Json list = Json::array();
  for (const Done& d : done) {
    print_error(d.left_out);
    if (options.json) list.push_back(Json::parse(d.said));
    else print(d.said);
  }
  if (options.json) print(json_text(folder ? list : list[0]));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values(
      "FILE", options->files,
      "IN OUT: a tensor file (or FILE:TENSOR, or -) and the file to write, which may be the same; or two folders: each "
      "tensor file of the first becomes one of the same name in the second, and the index of a model follows");
  arguments.option(
      "--to", options->to, "FORMAT",
      "the format of the result; a block format (mxfp8_e4m3, nvfp4, see list-scaling) gives codes and scales, "
      "and fp32 decodes a file of them");
  options->choice.declare(arguments);
  arguments.flag("--values", options->values, "rounded values as F32 (F64 stays F64) instead of codes");
  options->cast.declare_for_arrays(arguments);
  arguments.flag("--json", options->json, "print JSON");
  return [options] { return run(*options); };
}

}  // namespace of_cast

const Command cast_command{
    "cast", "a tensor file to codes of a format, or to rounded values",
    "narrow cast model.safetensors model-e4m3.safetensors --to e4m3 --overflow saturate", of_cast::declare,
    "Codes go into the type of the file that fits (F16, BF16, F8_E4M3, U8, ...); --values writes rounded "
    "values as F32. A block format gives codes (NAME), scales (NAME.scale) and for NVFP4 a factor "
    "(NAME.scale2); every command reads them as the one tensor that they are, and --to fp32 decodes it. Values "
    "are rounded to nearest even unless --rounding says otherwise. Memory stays bounded for any size of file."};

}  // namespace app
