// The dot products that others recorded on GPUs: which sets there are, which model each must equal, and a loader.
// The data lie beside the project, not in it.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "narrow/dot/dot.hpp"
#include "support/inputs.hpp"

namespace test {

// d = a . b + c. Files: <gpu>_<type>_{a,b,c,d_<output>}.npy
struct RecordedSet {
  std::string gpu, type, output, model;
  bool has_c = true;

  std::string file(const std::string& part) const { return gpu + "_" + type + "_" + part + ".npy"; }
};

inline std::vector<RecordedSet> recorded_sets() {
  std::vector<RecordedSet> sets;
  const auto both = [&](const std::string& gpu, const std::string& type, const std::string& before,
                        const std::string& after) {
    sets.push_back({gpu, type, "fp32", before + "f32" + after});
    sets.push_back({gpu, type, "fp16", before + "f16" + after});
  };
  const auto one = [&](const std::string& gpu, const std::string& type, const std::string& model) {
    sets.push_back({gpu, type, "fp32", model});
  };
  both("V100", "fp16", "volta.mma.", ".f16.f16.k4");
  for (const std::string gpu : {"A100", "A2", "Ada", "L40S"}) {
    const std::string generation = gpu[1] == '1' || gpu[1] == '2' ? "ampere" : "ada";
    both(gpu, "fp16", generation + ".mma.", ".f16.f16.k8");
    one(gpu, "bf16", generation + ".mma.f32.bf16.bf16.k8");
    one(gpu, "tf32", generation + ".mma.f32.tf32.tf32.k4");
  }
  both("Ada", "E4M3", "ada.mma.", ".e4m3.e4m3.k32");
  both("Ada", "E5M2", "ada.mma.", ".e5m2.e5m2.k32");
  one("L40S", "E4M3", "ada.mma.f32.e4m3.e4m3.k32");
  one("L40S", "E5M2", "ada.mma.f32.e5m2.e5m2.k32");
  for (const std::string gpu : {"H100", "H200", "B200"}) {
    const std::string generation = gpu == "B200" ? "blackwell" : "hopper";
    both(gpu, "fp16", generation + ".mma.", ".f16.f16.k16");
    one(gpu, "bf16", generation + ".mma.f32.bf16.bf16.k16");
    one(gpu, "tf32", generation + ".mma.f32.tf32.tf32.k4");
    for (const std::string type : {"e4m3", "e5m2"}) {
      const std::string upper = type == "e4m3" ? "E4M3" : "E5M2", types = "." + type + "." + type;
      if (generation == "blackwell") {
        both(gpu, upper, "blackwell.mma.", types + ".k32");
      } else {
        sets.push_back({gpu, upper, "fp32", "hopper.wgmma.f32" + types, false});
        sets.push_back({gpu, upper, "fp16", "hopper.mma.f16" + types + ".k32"});
      }
    }
  }
  return sets;
}

inline std::filesystem::path recorded_folder() { return std::filesystem::path(NARROW_SHARED) / "data" / "gpu-vectors"; }

// The 32-bit words of a .npy file of version 1: magic, header length, header, data.
inline std::vector<std::uint32_t> recorded_words(const std::string& file) {
  std::ifstream in(recorded_folder() / file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  REQUIRE_MESSAGE(bytes.size() > 10, file);
  REQUIRE(bytes.compare(0, 8, std::string("\x93NUMPY\x01\x00", 8)) == 0);
  const auto byte = [&](std::size_t at) { return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at])); };
  const std::size_t data = 10 + byte(8) + 256 * byte(9);
  REQUIRE(bytes.substr(0, data).find("'<u4'") != std::string::npos);
  std::vector<std::uint32_t> words((bytes.size() - data) / 4);
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] =
        byte(data + 4 * i) | byte(data + 4 * i + 1) << 8 | byte(data + 4 * i + 2) << 16 | byte(data + 4 * i + 3) << 24;
  return words;
}

// The codes of the values whose FP32 words these are; `exact` says that no value may need rounding.
inline std::vector<narrow::Code> codes_of(const std::vector<std::uint32_t>& words, const narrow::Format& f,
                                          bool exact) {
  std::vector<narrow::Code> codes(words.size());
  std::size_t rounded = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const float value = std::bit_cast<float>(words[i]);
    codes[i] = oracle::round(value, f);
    rounded += oracle::value_of(codes[i], f).exact() == oracle::from_double(value) ? 0 : 1;
  }
  if (exact) CHECK(rounded == 0);
  return codes;
}

}  // namespace test
