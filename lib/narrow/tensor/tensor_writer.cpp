#include "narrow/tensor/tensor_writer.hpp"

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/limits.hpp"
#include "narrow/tensor/new_file.hpp"
#include "narrow/tensor/npy.hpp"
#include "narrow/tensor/safetensors_json.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

std::uint64_t checked_bytes(const std::vector<TensorHeader>& headers) {
  std::uint64_t all = 0;
  for (const TensorHeader& header : headers) {
    const std::string where = "tensor " + quote(header.name) + ": ";
    if (header.name.size() > longest_name)
      throw Error(where + "a name of more than " + std::to_string(longest_name) + " bytes");
    if (header.shape.size() > most_dimensions)
      throw Error(where + "more than " + std::to_string(most_dimensions) + " dimensions");
    const Size size = size_of(header.shape, header.type.bits);
    if (size.problem != nullptr)
      throw Error(where + "shape " + shape_text(header.shape) + " of " + std::string(header.type.name) + " " +
                  size.problem);
    if (__builtin_add_overflow(all, size.bytes, &all) || all > largest_number)
      throw Error(where + "more data than 2^63 bytes");
  }
  return all;
}

// Sub-byte codes have no type in .npy: one byte each. Pieces need not end between groups, so what is left of one waits.
class Unpacker {
 public:
  explicit Unpacker(int bits) : bits_(bits) {}

  void write(NewFile& file, std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      held_ |= std::to_integer<unsigned>(byte) << held_bits_;
      for (held_bits_ += 8; held_bits_ >= bits_; held_bits_ -= bits_, held_ >>= bits_)
        codes_.push_back(static_cast<std::byte>(held_ & ((1u << bits_) - 1)));
      if (codes_.size() >= 65536) flush(file);
    }
    flush(file);
  }

 private:
  void flush(NewFile& file) {
    file.write(codes_);
    codes_.clear();
  }

  int bits_, held_bits_ = 0;
  unsigned held_ = 0;
  std::vector<std::byte> codes_;
};

}  // namespace

struct TensorWriter::State {
  std::string path;
  std::uint64_t expected = 0, written = 0;
  std::unique_ptr<Unpacker> unpacker;  // only where the file holds a byte for each sub-byte code
  std::unique_ptr<NewFile> file;
};

TensorWriter::TensorWriter(const std::string& path, std::vector<TensorHeader> headers,
                           std::vector<std::pair<std::string, std::string>> metadata, bool column_major)
    : state_(std::make_unique<State>()) {
  const bool npy = path.ends_with(".npy");
  const auto fail = [&](const std::string& what) { throw Error("cannot write " + quote_path(path) + ": " + what); };
  if (!npy && !path.ends_with(".safetensors")) fail("the name must end in .safetensors or .npy");
  if (npy && headers.size() != 1)
    fail(std::to_string(headers.size()) + " tensors, but .npy holds one; write .safetensors, or name one tensor");
  if (!npy && column_major) fail(".safetensors holds row-major data only");
  std::string beginning;
  try {
    state_->expected = checked_bytes(headers);
    beginning = npy ? npy_header_text(headers[0], column_major) : safetensors_header_text(headers, metadata);
  } catch (const Error& error) {
    fail(error.what());
  }
  if (npy && headers[0].type.bits < 8) state_->unpacker = std::make_unique<Unpacker>(headers[0].type.bits);
  state_->path = path;
  state_->file = std::make_unique<NewFile>(path);
  state_->file->write(beginning);
}

TensorWriter::~TensorWriter() = default;

void TensorWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > state_->expected - state_->written)
    throw Error("cannot write " + quote_path(state_->path) + ": more data than the " +
                std::to_string(state_->expected) + " bytes of its tensors");
  state_->written += bytes.size();
  if (state_->unpacker) state_->unpacker->write(*state_->file, bytes);
  else state_->file->write(bytes);
}

void TensorWriter::finish() {
  if (state_->written != state_->expected)
    throw Error("cannot write " + quote_path(state_->path) + ": " + std::to_string(state_->written) + " of " +
                std::to_string(state_->expected) + " bytes came");
  state_->file->finish();
}

}  // namespace narrow
