// .npz: a zip archive of .npy files, stored or deflated, as numpy.savez and savez_compressed write it.
#pragma once

#include "narrow/tensor/mapped_file.hpp"

namespace narrow {

struct TensorFile;
TensorFile read_npz(std::shared_ptr<const MappedFile> file);

}  // namespace narrow
