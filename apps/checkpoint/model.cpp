#include "checkpoint/model.hpp"

#include <malloc.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "cli/progress.hpp"
#include "cli/write_file.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/new_file.hpp"
#include "narrow/tensor/safetensors.hpp"
#include "narrow/tensor/tensor_writer.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/strict_json.hpp"
#include "options/model_index.hpp"

namespace app {
namespace fs = std::filesystem;

namespace {

Shard read_shard(const std::string& path) {
  Shard shard{path, fs::path(path).filename().string(), {}, {}};
  const std::shared_ptr<const narrow::MappedFile> file = narrow::MappedFile::open(path);
  narrow::SafetensorsHeader header;
  try {
    header = narrow::parse_safetensors(*file);
  } catch (const narrow::Error& error) {
    throw narrow::Error(narrow::quote_path(path) + ": " + error.what());
  }
  for (narrow::SafetensorsEntry& e : header.entries) shard.names.push_back(std::move(e.header.name));
  shard.metadata = std::move(header.metadata);
  return shard;
}

// The .safetensors of a folder: those of its index, or all.
std::vector<std::string> files_of(const std::string& folder) {
  std::error_code error;
  if (const std::string index = (fs::path(folder) / model_index_name).string(); fs::exists(index, error))
    return {index};
  std::vector<std::string> files;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".safetensors") files.push_back(it->path().string());
    else if (it->path().filename().string().ends_with(".safetensors.index.json"))
      throw narrow::Error(narrow::quote(it->path().string()) + ": an index under another name than " +
                          model_index_name + ", which is not followed");
  if (error) throw narrow::Error(narrow::quote(folder) + ": cannot read the folder: " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

const narrow::Tensor* Model::tensor_at(const std::string& stored_name) const {
  const auto found = places_.find(stored_name);
  return found == places_.end() ? nullptr : found->second;
}

const narrow::Tensor* Model::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : found->second;
}

Model open_model(const std::string& path, const char* command) {
  if (path.ends_with(".index.json"))
    throw narrow::Error(std::string(command) + ": " + narrow::quote(path) + " is an index; give its folder");
  Model model;
  model.path = path;
  std::error_code error;
  model.is_folder = fs::is_directory(path, error);
  const std::vector<std::string> files = model.is_folder ? files_of(path) : std::vector{path};
  if (files.empty())
    throw narrow::Error(std::string(command) + ": " + narrow::quote(path) + " is a folder without .safetensors files");
  if (model.is_folder && files[0].ends_with(".json")) model.index = files[0];
  for (const std::string& file : files) model.files.push_back(narrow::open_tensor_file(file));
  for (const narrow::TensorFile& file : model.files) {
    if (file.kind != narrow::FileKind::safetensors && file.kind != narrow::FileKind::sharded_safetensors &&
        file.kind != narrow::FileKind::gguf)
      throw narrow::Error(std::string(command) + ": " + narrow::quote(file.path) + " is " +
                          std::string(narrow::file_kind_name(file.kind)) + "; .safetensors are right");
    if (!file.unreadable.empty())
      throw narrow::Error(narrow::quote_path(file.path) + ": tensor " + narrow::quote(file.unreadable[0].name) + ": " +
                          file.unreadable[0].why + "; narrow lint looks at all of it");
    if (file.kind == narrow::FileKind::gguf) {
      Shard shard{file.path, fs::path(file.path).stem().string() + ".safetensors", {}, {}};
      for (const narrow::Tensor& t : file.tensors) shard.names.push_back(t.name);
      model.shards.push_back(std::move(shard));
    }
    for (const std::string& shard : file.kind == narrow::FileKind::sharded_safetensors ? file.shards
                                    : file.kind == narrow::FileKind::gguf              ? std::vector<std::string>{}
                                                                                       : std::vector{file.path})
      model.shards.push_back(read_shard(shard));
    for (const narrow::Tensor& t : file.tensors) {
      model.names_.emplace(t.name, &t);
      const std::string& place = t.blocks && !t.blocks->stored.empty() ? t.blocks->codes.name : t.name;
      if (!model.places_.emplace(place, &t).second)
        throw narrow::Error(std::string(command) + ": two files of " + narrow::quote(path) + " have a tensor " +
                            narrow::quote(place) + "; an index would say which one counts");
    }
  }
  return model;
}

Converted copied(const narrow::Tensor& tensor) {
  Converted c;
  const std::vector<narrow::Tensor> parts =
      tensor.blocks && tensor.blocks->layout != "gguf" ? tensor.blocks->stored : std::vector{tensor};
  c.headers.assign(parts.begin(), parts.end());
  c.write = [parts](const auto& write, const narrow::BytesDone& done) {
    for (const narrow::Tensor& part : parts) narrow::copy_tensor(part, narrow::WriteBytes(write), {0, 0, done});
  };
  return c;
}

namespace {

// Does one thing after the other while the next is computed: pieces are written, files are finished, which waits for
// the disk. Where no thread can be had, each is done when it comes.
class Behind {
 public:
  using Task = std::function<void()>;
  Behind() {
    try {
      thread_ = std::thread([this] { serve(); });
    } catch (const std::system_error&) {
    }
  }
  ~Behind() { end(); }
  Behind(const Behind&) = delete;
  Behind& operator=(const Behind&) = delete;

  // Throws what an earlier one threw; then those that wait are not done.
  void add(Task task) {
    if (!thread_.joinable()) return task();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() < most || failed_; });
    if (failed_) std::rethrow_exception(failed_);
    waiting_.push_back(std::move(task));
    changed_.notify_all();
  }
  void finish() {
    end();
    if (failed_) std::rethrow_exception(failed_);
  }

 private:
  static constexpr std::size_t most = 2;  // pieces in memory

  void end() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !waiting_.empty() || is_over_; });
      if (waiting_.empty()) return;
      Task task = std::move(waiting_.front());
      waiting_.erase(waiting_.begin());
      changed_.notify_all();
      const bool skipped = failed_ != nullptr;
      lock.unlock();
      std::exception_ptr failure;
      try {
        if (!skipped) task();
      } catch (...) {
        failure = std::current_exception();
      }
      task = {};  // what it held: a file that is not finished goes
      lock.lock();
      if (failure) failed_ = failure, changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> waiting_;
  std::exception_ptr failed_;
  bool is_over_ = false;
  std::thread thread_;
};

void convert_shard(const Model& from, const Shard& shard, const std::string& to, const Conversion& how,
                   Progress& progress, Behind& behind, ShardOf& index, std::uint64_t& total, ConvertedModel& result) {
  std::vector<Converted> tensors;
  std::vector<const narrow::ByteSource*> sources;
  std::vector<narrow::TensorHeader> headers;
  std::vector<std::pair<std::string, std::string>> metadata;
  for (const auto& entry : shard.metadata)
    if (!entry.first.starts_with("narrow.")) metadata.push_back(entry);
  for (const std::string& name : shard.names) {
    const narrow::Tensor* tensor = from.tensor_at(name);
    if (tensor == nullptr) continue;  // a part, which goes where its codes go
    tensors.push_back(how.convert(*tensor));
    sources.push_back(tensor->source.get());
    ++(tensors.back().is_changed ? result.changed : result.kept);
    for (const auto& entry : tensors.back().metadata) metadata.push_back(entry);
    if (!tensors.back().is_changed)  // what the file says of narrow's own blocks stays true of those that stay
      for (const auto& entry : shard.metadata)
        if (entry.first == narrow::block_format_key(name) || entry.first == narrow::scale2_key(name) ||
            entry.first == "narrow.format." + name)
          metadata.push_back(entry);
    for (const narrow::TensorHeader& h : tensors.back().headers) {
      headers.push_back(h);
      total += h.bytes();
      if (!index.emplace(h.name, shard.name).second)
        throw narrow::Error(std::string(how.command) + ": two tensors would have the name " + narrow::quote(h.name));
    }
  }
  const auto file = std::make_shared<narrow::TensorWriter>(to, headers, metadata);
  constexpr std::uint64_t most_in_memory = std::uint64_t{1} << 28;  // of files that are mapped
  std::uint64_t since = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors[i].write(
        [&](std::span<const std::byte> bytes) {
          behind.add([file, piece = std::vector<std::byte>(bytes.begin(), bytes.end())] { file->write(piece); });
        },
        [&](std::uint64_t done) {
          progress.add(done);
          if ((since += done) < most_in_memory) return;
          since = 0;
          sources[i]->forget();
        });
  behind.add([file] { file->finish(); });
}

// A file that is read is never written, under whatever name.
void require_other(const fs::path& from, const fs::path& to, const char* command) {
  std::error_code error;
  if (fs::equivalent(from, to, error))
    throw narrow::Error(std::string(command) + ": " + narrow::quote(to.string()) +
                        " is the file that is read; give another");
}

void copy_whole(const fs::path& from, const fs::path& to) {
  constexpr std::size_t piece = std::size_t{1} << 26;
  const std::shared_ptr<const narrow::MappedFile> file = narrow::MappedFile::open(from.string());
  narrow::NewFile out(to.string());
  for (std::span<const std::byte> rest = file->bytes(); !rest.empty(); file->forget()) {
    out.write(rest.first(std::min(piece, rest.size())));
    rest = rest.subspan(std::min(piece, rest.size()));
  }
  out.finish();
}

// Everything that is no tensor of this model: tokenizers, code, licences, folders of them.
std::size_t copy_others(const Model& from, const std::string& to, const std::vector<std::string>& left_out,
                        const char* command) {
  std::size_t copies = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(from.path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() == ".git") {  // it has another copy of everything
      it.disable_recursion_pending();
      continue;
    }
    const fs::path relative = it->path().lexically_relative(from.path);
    const std::string name = relative.string();
    const bool is_shard =
        std::any_of(from.shards.begin(), from.shards.end(), [&](const Shard& s) { return s.name == name; });
    if (is_shard || name == "config.json" || name == model_index_name ||
        std::find(left_out.begin(), left_out.end(), name) != left_out.end())
      continue;
    if (fs::equivalent(it->path(), to, error)) {  // a folder within the one that is read
      it.disable_recursion_pending();
      continue;
    }
    error.clear();
    if (!fs::exists(it->path(), error) || (it->is_symlink(error) && fs::is_directory(it->path(), error)))
      throw narrow::Error(narrow::quote(it->path().string()) +
                          ": a link to a folder or to nothing, which is not copied");
    if (it->is_directory(error)) {
      make_folder((fs::path(to) / relative).string());
    } else if (it->is_regular_file(error)) {
      require_other(it->path(), fs::path(to) / relative, command);
      copy_whole(it->path(), fs::path(to) / relative);
      ++copies;
    }
  }
  if (error) throw narrow::Error(narrow::quote(from.path) + ": cannot read the folder: " + error.message());
  return copies;
}

// What another model left would be read as part of this one.
void require_no_others(const Model& from, const std::string& to, const char* command) {
  std::error_code error;
  for (fs::directory_iterator it(to, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool is_ours =
        std::any_of(from.shards.begin(), from.shards.end(), [&](const Shard& s) { return s.name == name; });
    if (name.ends_with(".safetensors") && !is_ours)
      throw narrow::Error(std::string(command) + ": " + narrow::quote(to) + " has a file " + narrow::quote(name) +
                          " of another model; give an empty folder");
  }
}

// null where there is none.
Json read_config(const Model& from) {
  const std::string path = (fs::path(from.path) / "config.json").string();
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  Json config = narrow::parse_strict_json<Json>(narrow::read_text(path), narrow::quote_path(path));
  if (!config.is_object()) throw narrow::Error(narrow::quote_path(path) + ": no object { }");
  return config;
}

}  // namespace

ConvertedModel convert_model(const Model& from, const std::string& to, const Conversion& how) {
#ifdef __GLIBC__
  // Buffers of a piece come and go: without this the system takes their pages and gives them again each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 26);
  mallopt(M_TRIM_THRESHOLD, 1 << 28);
#endif
  std::error_code error;
  if (from.is_folder) {
    make_folder(to);
    if (fs::equivalent(from.path, to, error))
      throw narrow::Error(std::string(how.command) + ": " + narrow::quote(to) +
                          " would be replaced file by file; give another folder");
    fs::remove(fs::path(to) / model_index_name, error);  // it is of other shards than those to come
  } else if (!to.ends_with(".safetensors")) {
    throw narrow::Error(std::string(how.command) + ": " + narrow::quote(to) + " must end in .safetensors, as " +
                        narrow::quote(from.path) + " is one file");
  }
  ConvertedModel result;
  std::uint64_t work = 0, total = 0;
  Json config;
  for (const Shard& shard : from.shards)
    require_other(shard.path, from.is_folder ? fs::path(to) / shard.name : fs::path(to), how.command);
  if (from.is_folder) {  // first what may be refused
    config = read_config(from);
    require_no_others(from, to, how.command);
    require_other(fs::path(from.path) / "config.json", fs::path(to) / "config.json", how.command);
    result.other_files = copy_others(from, to, how.left_out, how.command);
  }
  for (const narrow::TensorFile& file : from.files) {
    result.bytes_before += file.bytes;
    for (const narrow::Tensor& t : file.tensors) work += t.bytes();
  }
  Progress progress(how.command, work);
  ShardOf index;
  const auto path_of = [&](const Shard& shard) { return from.is_folder ? (fs::path(to) / shard.name).string() : to; };
  Behind behind;
  for (const Shard& shard : from.shards)
    convert_shard(from, shard, path_of(shard), how, progress, behind, index, total, result);
  behind.finish();
  for (const Shard& shard : from.shards) result.bytes_after += fs::file_size(path_of(shard));
  result.shards = from.shards.size();
  if (!from.is_folder) return result;
  if (how.extra)
    for (const auto& [name, text] : how.extra()) write_file((fs::path(to) / name).string(), text);
  const bool had_config = !config.is_null();
  if (!had_config) config = Json::object();
  how.edit(config);
  if (had_config || !config.empty()) write_file((fs::path(to) / "config.json").string(), json_text(config));
  if (!from.index.empty())
    write_file((fs::path(to) / model_index_name).string(), model_index_text(index, total, from.index));
  return result;
}

}  // namespace app
