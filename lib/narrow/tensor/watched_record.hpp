// One line of the logs of a watched run: an object that says what is wrong with it, and the tensors that it records.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "narrow/tensor/watched_run.hpp"

namespace narrow::detail {

// What a line holds, and how to complain about it. `json` and `where` stay the caller's.
class LogObject {
 public:
  using Json = nlohmann::json;

  LogObject(const Json& json, const std::string& where);  // Error when it is no object

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void refuse(const char* key, const Json& value, const std::string& wanted) const;
  const Json& json() const { return json_; }
  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const;  // the others as well: Error where there is none, or none of that kind
  std::string text(const char* key) const;
  std::uint64_t integer(const char* key, std::uint64_t most) const { return integer(key, at(key), most); }
  std::uint64_t integer(const char* key, const Json& value, std::uint64_t most) const;
  std::int64_t step() const;
  double number(const char* key) const;      // NaN for null
  double any_number(const char* key) const;  // also what JSON has no number for: "inf", "-inf", "nan"
  const Json& list(const char* key) const;
  SignCounts signs(const char* key, bool has_signs) const;

 private:
  const Json& json_;
  const std::string& where_;
};

// A tensor that has a line of its own.
WatchedTensor tensor_of(const LogObject& in, const std::vector<WatchedFormat>& formats, const std::string& where);

// A step in a line, as recordings are kept: a list for every key, with one entry a tensor. role, name and dtype are
// those of the line before where they are left out, zero, subnormal, inf and nan are 0 then, count is what counts add
// up to, scale is null where there is none; no formats were counted. Of the binades b_k there is b_k - 2 b_(k-1): where
// a density is flat, as it is towards zero, a binade holds twice as many values as the one below, and what is left is
// noise.
class PackedSteps {
 public:
  void for_each_tensor(const LogObject& line, const std::string& where,
                       const std::function<void(const LogObject&, WatchedTensor&)>& each);

 private:
  std::pair<const char*, nlohmann::json> words_[3] = {{"role", {}}, {"name", {}}, {"dtype", {}}};
};

}  // namespace narrow::detail
