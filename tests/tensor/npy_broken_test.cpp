// Is every broken .npy file refused with a line that says what and where?
#include <doctest/doctest.h>

#include "files.hpp"
#include "narrow/tensor/npy.hpp"
#include "narrow/tensor/tensor_file.hpp"

using test::npy;
using test::npy_of;

namespace {

struct Broken {
  std::string name;
  std::string file;
  std::string message;
};

const std::vector<Broken>& broken_files() {
  const std::string four(4, '\0'), eight(8, '\0');
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n";
  static const std::vector<Broken> all = {
      {"only the magic", "\x93NUMPY", "ends at byte 6"},
      {"cut in the version", "\x93NUMPY\x01", "ends at byte 7"},
      {"cut in the length", std::string("\x93NUMPY\x01\0\x10", 9), "ends at byte 9"},
      {"cut in the long length", std::string("\x93NUMPY\x02\0\x10\0", 10), "ends at byte 10"},
      {"version 0", npy(good, four, 0), "byte 6: .npy version 0.0"},
      {"version 4", npy(good, four, 4), "byte 6: .npy version 4.0"},
      {"version 1.1", std::string("\x93NUMPY\x01\x01", 8) + test::little_endian(good.size(), 2) + good + four,
       "version 1.1"},
      {"length beyond the file", std::string("\x93NUMPY\x01\0\xFF\xFF", 10) + good,
       "a header of 65535 bytes, but only"},
      {"length 4 GiB", std::string("\x93NUMPY\x02\0\xFF\xFF\xFF\xFF", 12) + good,
       "a header of 4294967295 bytes, but only"},
      {"header of 10001 bytes", npy(good + std::string(10001 - good.size(), ' '), four), "at most 10000 are read"},
      {"header of 5 MiB", npy(good + std::string(5 << 20, ' '), four, 2), "at most 10000 are read"},
      {"empty header", npy(""), "a dict { } is missing"},
      {"no dict", npy("('<f4', False, (1,))\n", four), "header at byte 10: a dict { } is missing"},
      {"dict that does not end", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), ", four),
       "a key in quotes is missing"},
      {"text that does not end", npy("{'descr': '<f4", four), "quotes that do not end"},
      {"no colon", npy("{'descr' '<f4'}", four), "':' after a key is missing"},
      {"no comma", npy("{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", four), "',' or '}' is missing"},
      {"no descr", npy("{'fortran_order': False, 'shape': (1,), }", four), "no key 'descr'"},
      {"no fortran_order", npy("{'descr': '<f4', 'shape': (1,), }", four), "no key 'fortran_order'"},
      {"no shape", npy("{'descr': '<f4', 'fortran_order': False, }", four), "no key 'shape'"},
      {"unknown key", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", four), "unknown key 'x'"},
      {"duplicate key", npy("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", four),
       "the key 'descr' comes twice"},
      {"duplicate shape", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (2,)}", four),
       "the key 'shape' comes twice"},
      {"something after the dict", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x\n", four),
       "something after the dict"},
      {"zero bytes after the dict", npy(good + std::string(3, '\0'), four), "something after the dict"},
      {"fortran_order is a number", npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", four),
       "True or False"},
      {"shape is a list", npy("{'descr': '<f4', 'fortran_order': False, 'shape': [1], }", four),
       "a tuple ( ) for shape is missing"},
      {"shape is a number in brackets", npy_of("<f4", "(1)", four), "(1) is no tuple; (1,) is right"},
      {"negative dimension", npy_of("<f4", "(-1,)", four), "integers from 0 to 2^63 - 1"},
      {"two negative dimensions", npy_of("<f4", "(-1, -1)", four), "integers from 0 to 2^63 - 1"},
      {"fraction", npy_of("<f4", "(1.0,)", four), "',' or ')' is missing in shape"},
      {"a word as dimension", npy_of("<f4", "(None,)", four), "integers from 0"},
      {"dimension 2^63", npy_of("<f4", "(9223372036854775808,)", four), "2^63 or more"},
      {"a dimension of 400 digits", npy_of("<f4", "(" + std::string(400, '9') + ",)", four), "2^63 or more"},
      {"17 dimensions", npy_of("<f4", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)", four), "more than 16 dimensions"},
      {"shape that does not end", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,", four),
       "integers from 0"},
      {"product wraps to zero", npy_of("<f4", "(4294967296, 4294967296)", ""), "is too large"},
      {"bytes wrap", npy_of("<f8", "(2305843009213693952,)", ""), "is too large"},
      {"cut data", npy_of("<f4", "(2,)", "abcdefg"), "takes 8 bytes, but 7 follow the header; the file was cut"},
      {"no data", npy_of("<f4", "(2,)", ""), "takes 8 bytes, but 0 follow"},
      {"a byte too many", npy_of("<f4", "(1,)", "abcde"), "takes 4 bytes, but 5 follow the header"},
      {"two arrays in one file", npy_of("<f4", "(1,)", four) + npy_of("<f4", "(1,)", four), "more than one array"},
      {"huge shape", npy_of("<f4", "(1000000000000,)", four), "takes 4000000000000 bytes, but 4 follow"},
      {"objects", npy_of("|O", "(1,)", eight), "'|O' is not read; objects are pickled Python code"},
      {"structured", npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,), }", four),
       "a structured type"},
      {"structured in a tuple", npy("{'descr': ('<f4', (1,)), 'fortran_order': False, 'shape': (1,), }", four),
       "a structured type"},
      {"text elements", npy_of("<U1", "(1,)", four), "type '<U1' is not read"},
      {"byte strings", npy_of("|S4", "(1,)", four), "type '|S4' is not read"},
      {"dates", npy_of("<M8[ns]", "(1,)", eight), "type '<M8[ns]' is not read"},
      {"bytes without a meaning", npy_of("|V4", "(1,)", four), "V1 and V2 are (types of ml_dtypes), or integers"},
      {"long double", npy_of("<f16", "(1,)", eight + eight), "type '<f16' is not read"},
      {"double complex", npy_of("<c16", "(1,)", eight + eight), "type '<c16' is not read"},
      {"integers of 3 bytes", npy_of("<i3", "(1,)", "abc"), "type '<i3' is not read"},
      {"no byte order", npy_of("f4", "(1,)", four), "type 'f4' is not read"},
      {"no byte order for four bytes", npy_of("|f4", "(1,)", four), "type '|f4' is not read"},
      {"empty descr", npy_of("", "(1,)", four), "type '' is not read"},
      {"descr is not quoted", npy("{'descr': <f4, 'fortran_order': False, 'shape': (1,), }", four),
       "descr in quotes is missing"},
  };
  return all;
}

}  // namespace

TEST_CASE("tensor: every broken .npy is refused with one line that says what is wrong") {
  const test::Folder folder;
  for (const Broken& broken : broken_files()) {
    CAPTURE(broken.name);
    const std::string message = test::error_of([&] { narrow::read_npy(test::in_memory(broken.file)); });
    CAPTURE(message);
    CHECK(test::is_one_line(message));
    CHECK(message.find(broken.message) != std::string::npos);
    const std::string path = folder.write("broken.npy", broken.file);
    CHECK(test::error_of([&] { narrow::open_tensor_file(path); }) == "'" + path + "': " + message);
  }
}

TEST_CASE("tensor: every cut of a good .npy is refused") {
  const std::string good = npy_of("<f4", "(2,)", "abcdefgh");
  CHECK(narrow::read_npy(test::in_memory(good)).tensors.size() == 1);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const std::string cut = good.substr(0, size);
    CHECK_THROWS_AS(narrow::read_npy(test::in_memory(cut)), narrow::Error);
  }
}
