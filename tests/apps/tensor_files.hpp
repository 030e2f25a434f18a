// Small tensor files for the tests of the program, made byte by byte.
#pragma once

#include <cstring>

#include "program.hpp"
#include "tensor/files.hpp"

namespace test {

template <class T>
std::string raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct Entry {
  std::string name, dtype, shape, data;
};

// metadata: JSON, or empty.
inline std::string safetensors_of(const std::vector<Entry>& entries, const std::string& metadata = "") {
  std::string json = "{" + (metadata.empty() ? "" : "\"__metadata__\":" + metadata), data;
  for (const Entry& e : entries) {
    json += (json.size() > 1 ? "," : "") + ("\"" + e.name + "\":{\"dtype\":\"" + e.dtype) + "\",\"shape\":" + e.shape +
            ",\"data_offsets\":[" + std::to_string(data.size()) + "," + std::to_string(data.size() + e.data.size()) +
            "]}";
    data += e.data;
  }
  return safetensors(json + "}", data);
}

inline std::string floats_file(const std::string& name, const std::vector<float>& values) {
  return safetensors_of({{name, "F32", "[" + std::to_string(values.size()) + "]", raw(values)}});
}

// The data behind the header.
inline std::string data_of(const std::string& file) {
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  return file.substr(8 + header);
}
inline Json header_of(const std::string& file) {
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  return Json::parse(file.substr(8, header));
}

// test::narrow under a name that is no namespace.
inline Ran run(const std::vector<std::string>& arguments, const RunOptions& options = {}) {
  return narrow(arguments, options);
}

inline RunOptions with_environment(const std::string& name, const std::string& value) {
  RunOptions options;
  options.environment = {{name, value}};
  return options;
}

// A run that found a difference or failed a gate: status 1.
inline Json failing_json(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const Ran ran = run(arguments);
  CHECK(ran.status == 1);
  return Json::parse(ran.out);
}

inline const char* given_file = NARROW_DATA "/torch/step300.safetensors";

}  // namespace test
