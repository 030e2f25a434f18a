// The dot products that others recorded on GPUs (data/gpu-vectors): which sets there are, which model each must equal, and
// a loader.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "narrow/dot/dot.hpp"
#include "narrow/tensor/tensor_file.hpp"
#include "support/inputs.hpp"

namespace test {

// d = a . b + c. Tensors: <gpu>.npz:<type>_{a,b,c,d_<output>}
struct RecordedSet {
  std::string gpu, type, output, model;
  bool has_c = true;

  std::string tensor(const std::string& part) const { return gpu + ".npz:" + type + "_" + part; }
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

inline std::string recorded_folder() { return NARROW_DATA "/gpu-vectors/"; }

inline std::vector<std::uint32_t> recorded_words(const std::string& tensor) {
  const narrow::Tensor t = narrow::open_tensor(recorded_folder() + tensor);
  REQUIRE(t.type.name == "U32");
  std::vector<std::uint32_t> words(t.elements());
  narrow::read_codes(t, 0, std::span(words));
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
