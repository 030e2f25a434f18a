// What only the page has: count FILE.. keeps the counts of its tensors, at K FORMATS tells what a scale of 2^K makes of
// them. With --pieces, large tensors are left to other instances of the engine: each counts parts of them (piece TYPE),
// JavaScript brings their states back (part PLACE), and counted tells the rest.
#include <bit>
#include <map>
#include <memory>
#include <new>
#include <set>

#include "cli/json_value.hpp"
#include "cli/signals.hpp"
#include "cli/terminal.hpp"
#include "explorer/engine/counts.hpp"
#include "explorer/engine/pieces.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/text/quote.hpp"
#include "options/format_list.hpp"
#include "options/tensor_choice.hpp"

extern "C" __attribute__((import_module("page"), import_name("progress"))) void page_progress(double done,
                                                                                              double total);

namespace app {
namespace of_count {

std::vector<FineCounts> kept;

// A tensor that is counted elsewhere: its place in `kept`.
struct Pending {
  std::size_t place;
  std::string file;
  narrow::Tensor tensor;
  std::unique_ptr<ValueCounter> counter = nullptr;  // while some values are counted and some not
};
std::vector<Pending> pending;
constexpr std::uint64_t least_pending = std::uint64_t{1} << 22;  // bytes

std::optional<FilePlace> place_of(const narrow::Tensor& tensor) {
  const int bits = tensor.type.bits;
  if (tensor.bytes() < least_pending || tensor.big_endian || tensor.blocks != nullptr) return {};
  if (bits % 8 != 0 || 64 % bits != 0) return {};
  return place_in_file(*tensor.source);
}

Json binades_of(const FineCounts& counts, Json row) {
  std::vector<std::uint64_t> binades;
  std::uint64_t subnormal = 0;
  int first = 0;
  std::vector<std::uint64_t> all(256);
  for (const Bin& bin : counts.bins) all[bin.upper >> 7 & 0xFF] += bin.count;
  subnormal = all[0];
  std::size_t low = 1, high = 254;
  while (low <= high && all[low] == 0) ++low;
  while (high >= low && all[high] == 0) --high;
  if (low <= high)
    first = static_cast<int>(low) - 127,
    binades.assign(all.begin() + static_cast<std::ptrdiff_t>(low), all.begin() + static_cast<std::ptrdiff_t>(high) + 1);
  row["subnormal"] = subnormal;
  row["min_exponent"] = first;
  row["binades"] = binades;
  return row;
}

Json to_json(const std::string& file, const narrow::Tensor& tensor, const FineCounts& c) {
  Json row = Json::object();
  row["file"] = file, row["name"] = tensor.name, row["label"] = narrow::visible(tensor.name), row["type"] = tensor.type.name, row["shape"] = tensor.shape;
  row["values"] = c.values, row["zeros"] = c.zeros, row["inf"] = c.inf, row["nan"] = c.nan;
  row["amax"] = c.values == c.inf + c.nan ? Json() : json_number(std::bit_cast<float>(c.largest));
  row["min_nonzero"] = json_number(std::bit_cast<float>(c.smallest));
  return binades_of(c, std::move(row));
}

int run(const std::vector<std::string>& arguments, bool in_pieces) {
  kept.clear(), pending.clear();
  Json parts = Json::array();
  Json tensors = Json::array(), errors = Json::array(), left_out = Json::array();
  const auto guarded = [&](const std::string& file, const auto& action) {
    try {
      action();
    } catch (const narrow::Error& error) {
      errors.push_back({{"file", file}, {"message", error.what()}});
    } catch (const std::bad_alloc&) {
      errors.push_back({{"file", file}, {"message", narrow::quote_path(file) + ": " + short_of_memory}});
    }
  };
  std::vector<std::string> files;
  for (const std::string& argument : arguments)
    guarded(argument, [&] {
      for (std::string& file : expand_folders({argument})) files.push_back(std::move(file));
    });
  // Each file is let go before the next is opened: an archive lies in memory as a whole.
  double total = 0, done = 0;
  std::map<std::string, double> sizes;
  std::set<std::string> shards;  // of an index that is there too: its tensors are counted once
  for (const std::string& file : files)
    guarded(file, [&] {
      const ChosenFile chosen = open_chosen(file, {}, false);
      shards.insert(chosen.file.shards.begin(), chosen.file.shards.end());
      for (const narrow::Tensor& tensor : chosen.tensors)
        if (tensor.type.has_format()) sizes[file] += static_cast<double>(tensor.bytes());
      sizes.try_emplace(file);
    });
  std::erase_if(files, [&](const std::string& file) { return !sizes.contains(file) || shards.contains(file); });
  for (const std::string& file : files) total += sizes[file];
  for (const std::string& file : files)
    guarded(file, [&] {
      const ChosenFile chosen = open_chosen(file, {}, false);
      for (const narrow::Unreadable& broken : chosen.unreadable)
        errors.push_back(
            {{"file", file},
             {"message", narrow::quote_path(file) + ": tensor " + narrow::quote(broken.name) + ": " + broken.why}});
      for (const narrow::Tensor& tensor : chosen.tensors) {
        if (!tensor.type.has_format()) {
          left_out.push_back({{"file", file}, {"name", tensor.name}, {"type", tensor.type.name}});
          continue;
        }
        if (const auto place = in_pieces ? place_of(tensor) : std::nullopt) {
          pending.push_back({kept.size(), file, tensor});
          parts.push_back({{"place", kept.size()},
                           {"path", place->path},
                           {"begin", place->begin},
                           {"bytes", tensor.bytes()},
                           {"type", tensor.type.name}});
          tensors.push_back(nullptr);
          kept.emplace_back();
          continue;
        }
        guarded(file, [&] {
          FineCounts counts = count_values(tensor, [&](std::uint64_t bytes) {
            done += static_cast<double>(bytes);
            page_progress(done, total);
          });
          tensors.push_back(to_json(file, tensor, counts));
          kept.push_back(std::move(counts));
        });
      }
    });
  print(Json{{"tensors", tensors}, {"errors", errors}, {"left_out", left_out}, {"bytes", total}, {"parts", parts}}.dump(
      -1, ' ', false, Json::error_handler_t::replace));
  return 0;
}

Action declare(Arguments& arguments) {
  const auto files = std::make_shared<std::vector<std::string>>();
  const auto in_pieces = std::make_shared<bool>(false);
  arguments.values("FILE", *files, "files and folders");
  arguments.flag("--pieces", *in_pieces, "leave large tensors to others");
  return [files, in_pieces] { return run(*files, *in_pieces); };
}

// ---- counting for another instance: JavaScript puts bytes into the room, and takes the state
narrow::ElementType piece_type;
ValueCounter piece_counter;
std::vector<std::byte> room;
std::vector<std::uint64_t> state;
std::vector<float> values;

Action declare_piece(Arguments& arguments) {
  const auto words = std::make_shared<std::vector<std::string>>();
  arguments.values("TYPE", *words, "what the bytes are");
  return [words] {
    const narrow::ElementType* type = words->size() == 1 ? narrow::find_element_type(words->front()) : nullptr;
    if (type == nullptr) throw narrow::Error("piece: a type is needed");
    piece_type = *type, piece_counter = {};
    return 0;
  };
}

void count_room(std::size_t bytes) {
  if (piece_type.name == "F32")
    return piece_counter.add({reinterpret_cast<const float*>(room.data()), bytes / sizeof(float)});
  const std::uint64_t elements = bytes * 8 / static_cast<std::size_t>(piece_type.bits);
  const narrow::Tensor tensor = narrow::make_tensor(
      {"piece", piece_type, {elements}}, {room.begin(), room.begin() + static_cast<std::ptrdiff_t>(bytes)});
  piece_counter.add(narrow::view_values(tensor, 0, static_cast<std::size_t>(tensor.values()), values));
}

// The state of a part, in the room.
Action declare_part(Arguments& arguments) {
  const auto words = std::make_shared<std::vector<std::string>>();
  arguments.values("PLACE", *words, "of the tensor");
  return [words] {
    for (Pending& p : pending) {
      if (words->size() != 1 || std::to_string(p.place) != words->front()) continue;
      if (!p.counter) p.counter = std::make_unique<ValueCounter>();
      p.counter->add_state({reinterpret_cast<const std::uint64_t*>(room.data()), room.size() / sizeof(std::uint64_t)});
      if (p.counter->values() < p.tensor.values()) return 0;
      kept[p.place] = p.counter->counts();
      p.counter.reset();
      return 0;
    }
    throw narrow::Error("part: no tensor waits for it");
  };
}

Action declare_counted(Arguments&) {
  return [] {
    Json rows = Json::array();
    for (const Pending& p : pending) {
      if (kept[p.place].values != p.tensor.values())
        throw narrow::Error(narrow::quote_path(p.file) + ": became shorter while it was read");
      rows.push_back({{"place", p.place}, {"tensor", to_json(p.file, p.tensor, kept[p.place])}});
    }
    print(Json{{"rows", rows}}.dump(-1, ' ', false, Json::error_handler_t::replace));
    return 0;
  };
}

}  // namespace of_count

namespace of_at {

Json to_json(const Lost& lost) {
  Json row = Json::object();
  row["underflow"] = lost.underflow, row["subnormal"] = lost.subnormal, row["overflow"] = lost.overflow;
  const bool defined = lost.overflow == 0 && lost.signal > 0;
  row["sqnr_db"] = defined ? json_number(10 * std::log10(lost.signal / lost.squared_error)) : Json();
  return row;
}

int run(const std::vector<std::string>& words) {
  if (words.size() != 2) throw narrow::Error("at: a power of two and a list of formats");
  if (of_count::kept.empty()) throw narrow::Error("nothing is counted; open the file again");
  const int k = std::atoi(words[0].c_str());
  Json rows = Json::array(), total = Json::array(), names = Json::array();
  for (std::size_t i = 0; i < of_count::kept.size(); ++i) rows.push_back(Json::array());
  for (const ChosenFormat& chosen : parse_format_list(words[1])) {
    const narrow::FormatCast to{chosen.format, {}};
    const std::vector<Lost> lost = lost_at(of_count::kept, to, k);
    Lost sum;
    for (std::size_t i = 0; i < lost.size(); ++i) {
      rows[i].push_back(to_json(lost[i]));
      sum.underflow += lost[i].underflow, sum.subnormal += lost[i].subnormal, sum.overflow += lost[i].overflow;
      sum.signal += lost[i].signal, sum.squared_error += lost[i].squared_error;
    }
    total.push_back(to_json(sum));
    names.push_back(chosen.name);
  }
  print(Json{{"scale_log2", k}, {"formats", names}, {"tensors", rows}, {"total", total}}.dump());
  return 0;
}

Action declare(Arguments& arguments) {
  const auto words = std::make_shared<std::vector<std::string>>();
  arguments.values("K FORMATS", *words, "a power of two and a comma list");
  return [words] { return run(*words); };
}

}  // namespace of_at

const Command count_command{"count", "counts the values of tensors", "", of_count::declare, ""};
const Command piece_command{"piece", "begins to count parts of tensors", "", of_count::declare_piece, ""};
const Command part_command{"part", "takes the counts of a part", "", of_count::declare_part, ""};
const Command counted_command{"counted", "the tensors that were counted in parts", "", of_count::declare_counted, ""};
const Command at_command{"at", "what a scale of 2^K makes of what was counted", "", of_at::declare, ""};

}  // namespace app

// Room for so many bytes; what lies there is counted, or is a state.
extern "C" __attribute__((export_name("piece_room"))) std::byte* piece_room(std::size_t size) {
  app::of_count::room.resize(size);
  return app::of_count::room.data();
}
extern "C" __attribute__((export_name("count_piece"))) void count_piece(std::size_t bytes) {
  app::of_count::count_room(bytes);
}
extern "C" __attribute__((export_name("state_at"))) const std::uint64_t* state_at() {
  app::of_count::state = app::of_count::piece_counter.state();
  return app::of_count::state.data();
}
extern "C" __attribute__((export_name("state_size"))) std::size_t state_size() {
  return app::of_count::state.size() * sizeof(std::uint64_t);
}
