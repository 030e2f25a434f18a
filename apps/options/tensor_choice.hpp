// The tensors that a request names: FILE, FILE:TENSOR, a folder of dumps, --tensors REGEX, and integers read as codes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "narrow/tensor/tensor_file.hpp"

namespace app {

// A POSIX extended regular expression that a name contains. (std::regex recurses once a character.)
class NamePattern {
 public:
  explicit NamePattern(const std::string& pattern);  // throws narrow::Error; also for one that costs without a bound
  bool matches(const std::string& name) const;

 private:
  std::shared_ptr<void> compiled_;
};

struct TensorOptions {
  std::optional<std::string> pattern;  // --tensors
  std::optional<std::string> format;   // --format: integers of that width are codes
  bool may_match_none = false;         // one file of several

  static constexpr const char* format_help =
      "integers are codes of this format (bf16 in u2, e4m3 in u1, ...), and so are V1 and V2 of ml_dtypes";
  void declare(Arguments& arguments, const char* help = format_help);
};

struct ChosenFile {
  std::string argument;                             // as it was given
  narrow::TensorFile file;                          // with everything that is in it
  std::vector<narrow::Tensor> tensors;              // chosen by name; integers have their format where it is known
  bool one_named = false;                           // FILE:TENSOR
  std::vector<narrow::Unreadable> unreadable = {};  // chosen by name, and broken

  // Of the chosen ones those with numbers; Error that says what would be right when there is none.
  std::vector<narrow::Tensor> floating() const;
};

// What a command that reads the rest must say of them, a line each, and of tensors whose type needs --format; "" when
// there are none.
std::string left_out_text(const ChosenFile& chosen);

// The key under which a file says that an integer tensor holds codes of a format.
std::string format_key(const std::string& tensor_name);

// check: the checksums of archives are compared, so that a broken member is known before the work.
ChosenFile open_chosen(const std::string& argument, const TensorOptions& options, bool check = true);

// Folders replaced by the tensor files in them, by step and then by name. "-" and files stay.
std::vector<std::string> expand_folders(const std::vector<std::string>& arguments);

// The last integer in the name of a file: 300 for "grads_step300.safetensors". Digits of the ending do not count.
std::optional<std::uint64_t> step_of(const std::string& path);

std::uint64_t bytes_of(const std::vector<narrow::Tensor>& tensors);  // as they are read: F32 for block formats

}  // namespace app
