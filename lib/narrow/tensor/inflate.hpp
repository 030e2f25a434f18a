// The bytes of a zip member: stored ones where they lie, deflated ones inflated as they are asked for.
#pragma once

#include "narrow/tensor/mapped_file.hpp"
#include "narrow/tensor/zip.hpp"

namespace narrow {

// Memory is bounded whatever the member declares: a window, and the last few states of it, so that threads that ask for
// neighbouring pieces out of order do not start anew. The checksum is compared before stored bytes
// are given out, and when the end of deflated ones is reached. Throws Error where the library was built without zlib.
std::shared_ptr<const ByteSource> member_source(std::shared_ptr<const MappedFile> file, const ZipMember& member);

// The bytes of a source from `skip` on.
std::shared_ptr<const ByteSource> skip_bytes(std::shared_ptr<const ByteSource> source, std::uint64_t skip);

}  // namespace narrow
