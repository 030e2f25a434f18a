// Is a sharded model read as one, and does the index have to agree with its shards?
#include <doctest/doctest.h>
#include <sys/resource.h>

#include "files.hpp"
#include "narrow/tensor/tensor_file.hpp"

using namespace narrow;

namespace {

std::string shard(const std::string& name, const std::string& data) {
  return test::safetensors(R"({"__metadata__":{"format":"pt"},")" + name + R"(":{"dtype":"U8","shape":[)" +
                               std::to_string(data.size()) + R"(],"data_offsets":[0,)" + std::to_string(data.size()) +
                               "]}}",
                           data);
}

struct Model {
  test::Folder folder;
  Model() {
    folder.write("model-1.safetensors", shard("a", "abc"));
    folder.write("model-2.safetensors", shard("b", "defg"));
  }
  std::string index(const std::string& json) const { return folder.write("model.safetensors.index.json", json); }
  std::string error(const std::string& json) const {
    return test::error_of([&] { open_tensor_file(index(json)); });
  }
};

}  // namespace

TEST_CASE("tensor: a sharded model is one file of many tensors") {
  const Model model;
  const TensorFile file =
      open_tensor_file(model.index(R"({"metadata":{"total_size":7,"x":[1.5,null,{"y":true}]},)"
                                   R"("weight_map":{"b":"model-2.safetensors","a":"model-1.safetensors"}})"));
  CHECK(file.kind == FileKind::sharded_safetensors);
  REQUIRE(file.tensors.size() == 2);
  CHECK(file.metadata == std::vector<std::pair<std::string, std::string>>{{"format", "pt"}});
  std::vector<std::uint8_t> codes(4);
  read_codes(*file.find("b"), 0, std::span(codes));
  CHECK(codes == std::vector<std::uint8_t>{'d', 'e', 'f', 'g'});
}

TEST_CASE("tensor: a model may have more shards than a process may have files open") {
  const Model model;
  std::string map;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "s" + std::to_string(i);
    model.folder.write(name, shard(name, "abc"));
    map += (i == 0 ? "\"" : ",\"") + name + "\":\"" + name + "\"";
  }
  const std::string index = model.index(R"({"weight_map":{)" + map + "}}");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{std::min<rlim_t>(before.rlim_cur, 64), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  const std::string error = test::error_of([&] {
    const TensorFile file = open_tensor_file(index);
    REQUIRE(file.tensors.size() == 300);
    std::vector<std::uint8_t> codes(3);
    for (const Tensor& tensor : file.tensors) read_codes(tensor, 0, std::span(codes));
    CHECK(codes == std::vector<std::uint8_t>{'a', 'b', 'c'});
    std::filesystem::resize_file(model.folder / "s299", 9);  // it is still noticed
    read_codes(*file.find("s299"), 0, std::span(codes));
  });
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(error.find("s299': became shorter while it was read (9 of ") != std::string::npos);
}

TEST_CASE("tensor: an index that is broken or disagrees with its shards is refused") {
  const Model model;
  model.folder.write("broken.safetensors", "12345678[]");
  struct Broken {
    std::string json, message;
  };
  const std::vector<Broken> all = {
      {R"({"metadata":{}})", "no 'weight_map'"},
      {R"({"weight_map":{}})", "an empty weight_map"},
      {R"({"weight_map":["a"]})", "an array"},
      {R"({"weight_map":"a"})", "text where an object"},
      {R"(["a"])", "an array where an object"},
      {R"("a")", "text where an object"},
      {R"({"weight_map":{"a":1}})", "weight_map: the number 1 at 'a'"},
      {R"({"weight_map":{"a":{}}})", "weight_map: an object at 'a'"},
      {R"({"weight_map":{"a":null}})", "weight_map: null at 'a'"},
      {R"({"weight_map":{"a":"model-1.safetensors","a":"model-2.safetensors"}})", "the key 'a' comes twice"},
      {R"({"weight_map":{"a":"x"},"weight_map":{"a":"y"}})", "'weight_map' comes twice"},
      {R"({"weight_map":{"a":"model-1.safetensors"})", "not JSON at byte"},
      {R"({"weight_map":{"a":"../model-1.safetensors"}})", "'../model-1.safetensors' is no plain file name"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "is no plain file name"},
      {R"({"weight_map":{"a":"x\\y"}})", "is no plain file name"},
      {R"({"weight_map":{"a":".."}})", "is no plain file name"},
      {R"({"weight_map":{"a":"x\u0000y"}})", "is no plain file name"},
      {R"({"weight_map":{"a":""}})", "is no plain file name"},
      {R"({"weight_map":{"a":"model-3.safetensors"}})", "model-3.safetensors': no such file"},
      {R"({"weight_map":{"a":"broken.safetensors"}})", "shard 'broken.safetensors': byte 0"},
      {R"({"weight_map":{"x":"model-1.safetensors"}})", "holds 'a', which weight_map does not list"},
      {R"({"weight_map":{"a":"model-1.safetensors","c":"model-1.safetensors"}})",
       "puts 'c' into shard 'model-1.safetensors', which does not hold it"},
      {R"({"weight_map":{"a":"model-2.safetensors","b":"model-2.safetensors"}})",
       "puts 'a' into shard 'model-2.safetensors', which does not hold it"},
      {R"({"weight_map":{"a":"model-1.safetensors","b":"model-1.safetensors","c":"model-2.safetensors"}})",
       "which does not hold it"},
      {"{\"metadata\":" + std::string(1000, '[') + std::string(1000, ']') + "}", "nested deeper than 16 levels"},
  };
  for (const Broken& broken : all) {
    CAPTURE(broken.json.substr(0, 100));
    const std::string message = model.error(broken.json);
    CAPTURE(message);
    CHECK(test::is_one_line(message));
    CHECK(message.starts_with("'" + (model.folder / "model.safetensors.index.json")));
    CHECK(message.find(broken.message) != std::string::npos);
  }
}
