#include "options/tensor_choice.hpp"

#include <regex.h>
#include <sys/types.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "cli/crew.hpp"
#include "cli/progress.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/tensor/cast_tensor.hpp"
#include "narrow/text/quote.hpp"
#include "options/format_list.hpp"
#include "options/model_index.hpp"
#include "options/tensor_text.hpp"

namespace app {
namespace fs = std::filesystem;

namespace {

// The width of the integers that carry codes of a format in files.
int carrier_bits(const narrow::Format& f) {
  return f.width() <= 8 ? 8 : f.width() <= 16 ? 16 : f.width() <= 32 ? 32 : 64;
}

using Metadata = std::unordered_map<std::string_view, std::string_view>;

// What the file itself says about integers that are codes, unless --format says otherwise.
narrow::Tensor with_known_format(narrow::Tensor tensor, const narrow::TensorFile& file, const Metadata& metadata,
                                 const TensorOptions& options, bool one_named) {
  if (!tensor.type.may_be_codes()) return tensor;
  if (options.format) {
    const narrow::Format f = blame("--format", [&] { return choose_format(*options.format).format; });
    // In a file of many tensors the others are no codes (positions, token numbers); a single one must fit, or is
    // refused.
    if (!one_named && file.tensors.size() > 1 && tensor.type.bits != carrier_bits(f)) return tensor;
    return blame("--format", [&] { return narrow::with_format(std::move(tensor), f); });
  }
  if (const auto said = metadata.find(format_key(tensor.name)); said != metadata.end())
    if (const auto f = narrow::find_format(said->second); f && tensor.type.bits == carrier_bits(*f))
      return narrow::with_format(std::move(tensor), *f);
  return tensor;
}

bool is_opaque(const narrow::Tensor& tensor) { return tensor.type.kind == narrow::ElementKind::opaque; }

std::string format_hint(const narrow::Tensor& tensor) {
  return "type " + std::string(tensor.type.name) + " is what numpy writes for a type of ml_dtypes; name it: --format " +
         (tensor.type.name == "f1" ? "e5m2"
          : tensor.type.bits == 8  ? "e4m3"
                                   : "bf16");
}

// Archives have checksums: members whose data is damaged go from the tensors to the unreadable ones.
void check_data(ChosenFile& chosen) {
  if (chosen.file.kind != narrow::FileKind::npz) return;
  Progress progress("check", bytes_of(chosen.tensors));
  std::vector<narrow::Tensor> good;
  for (narrow::Tensor& tensor : chosen.tensors) {
    try {
      narrow::Tensor as_it_lies = tensor;  // the order of its elements does not matter here
      as_it_lies.column_major = false;
      (void)tensor.source->mapped();  // a member without elements has a checksum, too
      narrow::copy_tensor(as_it_lies, [](std::span<const std::byte>) {},
                          {0, 0, [&](std::uint64_t n) { progress.add(n); }});
      good.push_back(std::move(tensor));
    } catch (const narrow::Error& error) {
      chosen.unreadable.push_back({tensor.name, error.what()});
    }
  }
  chosen.tensors = std::move(good);
}

bool is_tensor_file(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".safetensors" || ending == ".npy" || ending == ".npz" || ending == ".gguf";
}

// regcomp() recurses once a bracket and writes a repetition out, x{9}{9} as 81 of x: what it is given is bounded
// before. Back references are no part of POSIX extended expressions, and searching for them takes time without a bound.
void check_bounds(const std::string& pattern) {
  constexpr std::size_t longest = 500, most_open = 50, most_written = 2000;
  const auto refuse = [&](const std::string& why) {
    throw narrow::Error("--tensors: " + narrow::quote(pattern) + " " + why + "; for example 'attn.*weight'");
  };
  if (pattern.size() > longest) refuse("is longer than " + std::to_string(longest) + " characters");
  if (pattern.find('\0') != std::string::npos) refuse("has a byte 0 in it");
  std::size_t open = 0, copies = 1;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      if (++i < pattern.size() && pattern[i] >= '1' && pattern[i] <= '9') refuse("refers back to a group");
    } else if (c == '(') {
      if (++open > most_open) refuse("nests more than " + std::to_string(most_open) + " groups");
    } else if (c == ')') {
      open -= open > 0 ? 1 : 0;
    } else if (c == '{') {
      std::size_t count = 0, largest = 1;
      for (++i; i < pattern.size() && pattern[i] != '}'; ++i) {
        const bool digit = pattern[i] >= '0' && pattern[i] <= '9';
        count =
            digit ? std::min<std::size_t>(10 * count + static_cast<std::size_t>(pattern[i] - '0'), most_written) : 0;
        largest = std::max(largest, count);
      }
      copies *= largest;
      if (copies * pattern.size() > most_written)
        refuse("is longer than " + std::to_string(most_written) + " characters when its repetitions are written out");
    }
  }
}

}  // namespace

NamePattern::NamePattern(const std::string& pattern) {
  check_bounds(pattern);
  auto regex = std::make_unique<regex_t>();
  if (const int code = regcomp(regex.get(), pattern.c_str(), REG_EXTENDED | REG_NOSUB); code != 0) {
    char reason[200] = {};
    regerror(code, regex.get(), reason, sizeof reason);
    throw narrow::Error("--tensors: " + narrow::quote(pattern) + " is no regular expression: " + reason +
                        "; for example 'attn.*weight'");
  }
  compiled_ = std::shared_ptr<void>(regex.release(), [](void* p) {
    regfree(static_cast<regex_t*>(p));
    delete static_cast<regex_t*>(p);
  });
}

bool NamePattern::matches(const std::string& name) const {
  return regexec(static_cast<const regex_t*>(compiled_.get()), name.c_str(), 0, nullptr, 0) == 0;
}

void TensorOptions::declare(Arguments& arguments, const char* help) {
  arguments.option("--tensors", pattern, "REGEX", "only tensors whose name contains a match of this expression");
  arguments.option("--format", format, "FORMAT", help);
}

std::string format_key(const std::string& tensor_name) { return "narrow.format." + tensor_name; }

std::vector<narrow::Tensor> ChosenFile::floating() const {
  std::vector<narrow::Tensor> out;
  for (const narrow::Tensor& tensor : tensors)
    if (tensor.type.has_format()) out.push_back(tensor);
  if (!out.empty()) return out;
  const auto opaque = std::find_if(tensors.begin(), tensors.end(), is_opaque);
  throw narrow::Error(narrow::quote(argument) + " has no tensor of floating numbers" +
                      (opaque != tensors.end() ? "; its " + format_hint(*opaque)
                       : tensors.empty()       ? ""
                                               : "; if its integers are codes, name the format: --format bf16"));
}

std::string left_out_text(const ChosenFile& chosen) {
  constexpr std::size_t most = 20;
  std::vector<std::string> lines;
  for (const narrow::Unreadable& broken : chosen.unreadable)
    lines.push_back(printable(broken.name) + ": " + broken.why);
  for (const narrow::Tensor& tensor : chosen.tensors)
    if (is_opaque(tensor)) lines.push_back(printable(tensor.name) + ": " + format_hint(tensor));
  std::string text;
  for (std::size_t i = 0; i < lines.size() && i < most; ++i)
    text += "left out of " + printable(chosen.argument) + ": " + lines[i] + "\n";
  return text + (lines.size() > most ? "left out: " + std::to_string(lines.size() - most) + " more\n" : "");
}

ChosenFile open_chosen(const std::string& argument, const TensorOptions& options, bool check) {
  const auto [path, name] = narrow::split_file_and_name(argument);
  if (path == "-" && crew() != nullptr && crew()->size() > 1)
    throw narrow::Error("standard input reaches one rank only; give a file that all of them can read");
  ChosenFile chosen{argument, narrow::open_tensor_file(path), {}, !name.empty()};
  if (!name.empty() && chosen.file.find(name) == nullptr) {
    (void)narrow::open_tensor(argument);  // says which names there are
    throw narrow::Error(narrow::quote(path) + " has no tensor " + narrow::quote(name));
  }
  std::optional<NamePattern> pattern;
  if (options.pattern) pattern.emplace(*options.pattern);
  const Metadata metadata(chosen.file.metadata.begin(), chosen.file.metadata.end());
  for (const narrow::Tensor& tensor : chosen.file.tensors) {
    if (!name.empty() && tensor.name != name) continue;
    if (pattern && !pattern->matches(tensor.name)) continue;
    chosen.tensors.push_back(with_known_format(tensor, chosen.file, metadata, options, chosen.one_named));
  }
  for (const narrow::Tensor& part : chosen.file.parts)  // scales of blocks only where they are asked for
    if (part.name == name) chosen.tensors.push_back(part);
  for (const narrow::Unreadable& broken : chosen.file.unreadable)
    if (name.empty() && (!pattern || pattern->matches(broken.name))) chosen.unreadable.push_back(broken);
  if (check) check_data(chosen);
  if (chosen.tensors.empty() && !chosen.unreadable.empty())
    throw narrow::Error(narrow::quote(argument) + ": tensor " + narrow::quote(chosen.unreadable[0].name) + ": " +
                        chosen.unreadable[0].why);
  if (chosen.tensors.empty() && pattern && !chosen.file.tensors.empty() && !options.may_match_none)
    throw narrow::Error("--tensors: no name in " + narrow::quote(argument) + " matches " +
                        narrow::quote(*options.pattern) + "; one of its " + std::to_string(chosen.file.tensors.size()) +
                        " names is " + narrow::quote(chosen.file.tensors.front().name));
  return chosen;
}

std::optional<std::uint64_t> step_of(const std::string& path) {
  const std::string stem = fs::path(narrow::split_file_and_name(path).first).stem().string();
  const std::size_t last = stem.find_last_of("0123456789");
  if (last == std::string::npos) return {};
  const std::size_t before = stem.find_last_not_of("0123456789", last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  if (last - first > 18) return {};  // no step that a 64-bit number holds
  return std::stoull(stem.substr(first, last - first + 1));
}

std::vector<std::string> expand_folders(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (argument == "-" || !fs::is_directory(argument, error)) {
      out.push_back(argument);
      continue;
    }
    const fs::path index = fs::path(argument) / model_index_name;
    if (fs::exists(index, error)) {  // one model in shards
      out.push_back(index.string());
      continue;
    }
    std::vector<std::string> inside;
    fs::directory_iterator entries(argument, error);
    if (error) throw narrow::Error(narrow::quote(argument) + ": cannot read the folder: " + error.message());
    for (const fs::directory_entry& entry : entries)
      if (is_tensor_file(entry.path())) inside.push_back(entry.path().string());
    if (inside.empty())
      throw narrow::Error(narrow::quote(argument) + " is a folder without .safetensors, .npy or .npz files");
    std::sort(inside.begin(), inside.end(), [](const std::string& a, const std::string& b) {
      const auto x = step_of(a), y = step_of(b);
      return x != y ? x < y : a < b;
    });
    out.insert(out.end(), inside.begin(), inside.end());
  }
  return out;
}

std::uint64_t bytes_of(const std::vector<narrow::Tensor>& tensors) {
  std::uint64_t sum = 0;
  for (const narrow::Tensor& tensor : tensors) sum += tensor.bytes();
  return sum;
}

}  // namespace app
