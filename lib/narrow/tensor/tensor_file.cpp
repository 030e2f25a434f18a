#include "narrow/tensor/tensor_file.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/gguf.hpp"
#include "narrow/tensor/mapped_file.hpp"
#include "narrow/tensor/npy.hpp"
#include "narrow/tensor/npz.hpp"
#include "narrow/tensor/safetensors.hpp"
#include "narrow/tensor/sharded.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace narrow {

namespace {

// Files that are often mistaken for tensors, by how they begin.
struct Known {
  std::string_view beginning, what;
};
constexpr Known known_files[] = {
    {"version https://git-lfs.github.com/spec/v1", "a pointer of Git LFS, not the data; fetch them: git lfs pull"},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file, which is not read; give .safetensors, .npy or .npz"},
    {"\x1f\x8b", "compressed with gzip; gunzip it first"},
    {"\x28\xb5\x2f\xfd", "compressed with zstd; decompress it first"},
};

bool is_pickle(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

// What a file is that is no tensor file; empty when that is not known.
std::string what_it_is(const std::string& path, std::string_view content) {
  for (const Known& known : known_files)
    if (content.starts_with(known.beginning)) return std::string(known.what);
  if (is_pickle(content) || path.ends_with(".pt") || path.ends_with(".pth")) return std::string(torch_advice);
  if (looks_like_text(content)) return "text, not a tensor file: it begins with " + quote(content.substr(0, 24));
  return "";
}

std::string what_it_is_not(const std::string& path, std::string_view content) {
  if (path.ends_with(".npy")) return "byte 0: no .npy file, it does not begin with \\x93NUMPY";
  if (path.ends_with(".npz")) return "byte 0: no .npz file, it does not begin with PK as zip archives do";
  return "neither .safetensors nor .npy nor .npz; it begins with " + quote(content.substr(0, 8));
}

// By content first: names lie, and standard input has none. A pickle and a text show in their first bytes.
TensorFile read_any(const std::shared_ptr<const MappedFile>& file) {
  const std::span<const std::byte> bytes = file->head(512);
  const std::string& path = file->path();
  if (bytes.empty()) throw Error("an empty file");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with(npy_magic)) return read_npy(file);
  if (text.starts_with("GGUF")) return read_gguf(file);
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) return read_npz(file);
  // A header of 640 bytes begins with 80 02 as a pickle does: '{' at byte 8 decides.
  if (text.size() > 8 && text[8] == '{' && !looks_like_text(text.substr(0, 8))) return read_safetensors(file);
  if (path.ends_with(".json")) return read_sharded(file);
  const std::string known = what_it_is(path, text);
  if (known.empty() && path.ends_with(".safetensors")) return read_safetensors(file);  // says what is wrong with it
  throw Error(known.empty() ? what_it_is_not(path, text) : known);
}

std::string some_names(const TensorFile& file) {
  constexpr std::size_t most = 5;
  std::string list;
  for (std::size_t i = 0; i < file.tensors.size() && i < most; ++i)
    list += (i == 0 ? "" : ", ") + quote(file.tensors[i].name);
  return list + (file.tensors.size() > most ? ", ..." : "");
}

std::string close_name(const TensorFile& file, const std::string& name) {
  constexpr std::size_t most = 1000, longest = 200;  // the search takes time by both
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < file.tensors.size() && i < most; ++i)
    if (file.tensors[i].name.size() <= longest) names.push_back(file.tensors[i].name);
  const std::string close = name.size() > longest ? "" : did_you_mean(name, names);
  return close.empty() ? "" : "; did you mean " + quote(close) + "?";
}

}  // namespace

std::string_view file_kind_name(FileKind kind) {
  switch (kind) {
    case FileKind::safetensors: return "safetensors";
    case FileKind::sharded_safetensors: return "sharded safetensors";
    case FileKind::npy: return "npy";
    case FileKind::npz: return "npz";
    case FileKind::gguf: return "gguf";
  }
  return "";
}

const Tensor* TensorFile::find(std::string_view name) const {
  for (const std::vector<Tensor>* list : {&tensors, &parts})
    for (const Tensor& tensor : *list)
      if (tensor.name == name) return &tensor;
  return nullptr;
}

namespace {

thread_local const std::vector<Tensor>* in_memory = nullptr;

}  // namespace

TensorsInMemory::TensorsInMemory(std::vector<Tensor> tensors) : tensors_(std::move(tensors)), outer_(in_memory) {
  in_memory = &tensors_;
}
TensorsInMemory::~TensorsInMemory() { in_memory = outer_; }

TensorFile open_tensor_file(const std::string& path) {
  if (in_memory != nullptr)
    for (const Tensor& tensor : *in_memory)
      if (tensor.name == path) {
        TensorFile file;
        file.path = path, file.bytes = tensor.bytes(), file.tensors = {tensor};
        return file;
      }
  const std::shared_ptr<const MappedFile> file = path == "-" ? MappedFile::standard_input() : MappedFile::open(path);
  try {
    TensorFile result = read_any(file);
    result.bytes += file->size();
    join_blocks(result);
    if (result.tensors.empty() && !result.unreadable.empty())
      throw Error("tensor " + quote(result.unreadable[0].name) + ": " + result.unreadable[0].why);
    return result;
  } catch (const Error& error) {
    const std::string prefix = quote_path(file->path()) + ": ", what = error.what();
    throw Error(what.starts_with(prefix) ? what : prefix + what);
  }
}

std::pair<std::string, std::string> split_file_and_name(const std::string& file_and_name) {
  const std::string& all = file_and_name;
  if (all == "-" || file_exists(all)) return {all, ""};
  for (std::size_t colon = all.rfind(':'); colon != std::string::npos && colon > 0; colon = all.rfind(':', colon - 1)) {
    const std::string file = all.substr(0, colon);
    if (file == "-" || file_exists(file)) return {file, all.substr(colon + 1)};
  }
  // No such file: split where a name of a tensor file ends, so that the message names the file.
  for (const std::string_view ending : {".safetensors:", ".npy:", ".npz:", ".gguf:", ".json:"})
    if (const std::size_t at = all.find(ending); at != std::string::npos)
      return {all.substr(0, at + ending.size() - 1), all.substr(at + ending.size())};
  return {all, ""};
}

Tensor open_tensor(const std::string& file_and_name) {
  const auto [path, name] = split_file_and_name(file_and_name);
  TensorFile file = open_tensor_file(path);
  if (file.tensors.empty()) throw Error(quote_path(path) + ": holds no tensor");
  if (name.empty()) {
    if (file.tensors.size() == 1 && file.unreadable.empty()) return std::move(file.tensors[0]);
    throw Error(quote_path(path) + ": holds " + std::to_string(file.tensors.size() + file.unreadable.size()) +
                " tensors; name one as FILE:TENSOR: " + some_names(file));
  }
  if (const Tensor* found = file.find(name)) return *found;
  for (const Unreadable& broken : file.unreadable)
    if (broken.name == name) throw Error(quote_path(path) + ": tensor " + quote(name) + ": " + broken.why);
  throw Error(quote_path(path) + ": no tensor " + quote(name) + close_name(file, name) + "; it holds " +
              some_names(file));
}

}  // namespace narrow
