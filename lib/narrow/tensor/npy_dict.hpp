// The Python dict literal in the header of an .npy file, as numpy writes it: three keys, nothing is evaluated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace narrow {

struct NpyDict {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } and blanks. first_byte: where text begins in its file.
NpyDict parse_npy_dict(std::string_view text, std::uint64_t first_byte);

}  // namespace narrow
