// The tensors that a request names: FILE, FILE:TENSOR, a folder of dumps, --tensors REGEX, and integers read as codes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "narrow/tensor/tensor_file.hpp"

namespace app {

// A POSIX extended regular expression that a name contains. (std::regex recurses once a character.)
class NamePattern {
 public:
  explicit NamePattern(const std::string& pattern);  // throws narrow::Error
  bool matches(const std::string& name) const;

 private:
  std::shared_ptr<void> compiled_;
};

struct TensorOptions {
  std::optional<std::string> pattern;  // --tensors
  std::optional<std::string> format;   // --format: integers of that width are codes

  void declare(Arguments& arguments);
};

struct ChosenFile {
  std::string argument;                 // as it was given
  narrow::TensorFile file;              // with everything that is in it
  std::vector<narrow::Tensor> tensors;  // chosen by name; integers have their format where it is known
  bool one_named = false;               // FILE:TENSOR

  // Of the chosen ones those with numbers; Error that says what would be right when there is none.
  std::vector<narrow::Tensor> floating() const;
};

// The key under which a file says that an integer tensor holds codes of a format.
std::string format_key(const std::string& tensor_name);

ChosenFile open_chosen(const std::string& argument, const TensorOptions& options);

// Folders replaced by the tensor files in them, by step and then by name. "-" and files stay.
std::vector<std::string> expand_folders(const std::vector<std::string>& arguments);

// The last integer in the name of a file: 300 for "grads_step300.safetensors". Digits of the ending do not count.
std::optional<std::uint64_t> step_of(const std::string& path);

std::uint64_t bytes_of(const std::vector<narrow::Tensor>& tensors);

}  // namespace app
