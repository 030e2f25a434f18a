#include "narrow/tensor/npz.hpp"

#include <algorithm>

#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/inflate.hpp"
#include "narrow/tensor/npy.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

// What torch.save writes is a zip archive, too.
bool is_torch(const std::vector<ZipMember>& members) {
  return std::any_of(members.begin(), members.end(), [](const ZipMember& member) {
    return member.name == "data.pkl" || member.name.ends_with("/data.pkl");
  });
}

// The first bytes of a member, for its header. Stored ones are looked at where they lie: their checksum can wait.
std::vector<std::byte> beginning_of(const MappedFile& file, const ZipMember& member, const ByteSource& source) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(member.size, longest_npy_beginning));
  if (!member.deflated) {
    const std::span<const std::byte> bytes = file.bytes().subspan(member.begin, count);
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> bytes(count);
  source.read(0, bytes);
  return bytes;
}

}  // namespace

TensorFile read_npz(std::shared_ptr<const MappedFile> file) {
  TensorFile result;
  result.path = file->path();
  result.kind = FileKind::npz;
  const std::vector<ZipMember> members = read_zip_directory(file->bytes());
  if (is_torch(members)) throw Error(std::string(torch_advice));
  for (const ZipMember& member : members) {
    constexpr std::string_view ending = ".npy";
    if (!member.name.ends_with(ending))
      throw Error("member " + quote(member.name) + " is no .npy; archives of numpy.savez are read");
    const std::shared_ptr<const ByteSource> source = member_source(file, member);
    const std::vector<std::byte> beginning = beginning_of(*file, member, *source);
    NpyHeader header;
    try {
      header = parse_npy(beginning, member.size);
    } catch (const Error& error) {
      throw Error("member " + quote(member.name) + ": " + error.what());
    }
    result.tensors.push_back(npy_tensor(header, member.name.substr(0, member.name.size() - ending.size()),
                                        skip_bytes(source, header.data_start)));
  }
  return result;
}

}  // namespace narrow
