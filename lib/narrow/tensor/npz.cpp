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
// Deflated ones come from a source of their own: the state of an inflating stream takes 40 KiB, and there may be many.
std::vector<std::byte> beginning_of(const std::shared_ptr<const MappedFile>& file, const ZipMember& member) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(member.size, longest_npy_beginning));
  if (!member.deflated) {
    const std::span<const std::byte> bytes = file->bytes().subspan(member.begin, count);
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> bytes(count);
  member_source(file, member)->read(0, bytes);
  return bytes;
}

}  // namespace

TensorFile read_npz(std::shared_ptr<const MappedFile> file) {
  TensorFile result;
  result.path = file->path();
  result.kind = FileKind::npz;
  const std::vector<ZipMember> members = read_zip_directory(file->bytes());
  std::string first_error;
  if (is_torch(members)) throw Error(std::string(torch_advice));
  for (const ZipMember& member : members) {
    constexpr std::string_view ending = ".npy";
    const bool is_npy = member.name.ends_with(ending);
    const std::string name = member.name.substr(0, member.name.size() - (is_npy ? ending.size() : 0));
    try {
      if (!is_npy) throw Error("is no .npy; archives of numpy.savez are read");
      if (!member.problem.empty()) throw Error(member.problem);
      const std::shared_ptr<const ByteSource> source = member_source(file, member);
      const NpyHeader header = parse_npy(beginning_of(file, member), member.size);
      if (header.data_start == member.size) (void)source->mapped();  // nobody will read it: its checksum is looked at now
      result.tensors.push_back(npy_tensor(header, name, skip_bytes(source, header.data_start)));
    } catch (const Error& error) {
      const std::string where = "member " + quote(member.name) + (is_npy ? ": " : " "), what = error.what();
      const std::size_t named = what.find(where);
      result.unreadable.push_back({name, named == std::string::npos ? what : what.substr(named + where.size())});
      if (first_error.empty()) first_error = named == std::string::npos ? where + what : what;
    }
  }
  if (result.tensors.empty() && !first_error.empty()) throw Error(first_error);
  return result;
}

}  // namespace narrow
