// The GPU's own opinion: every native conversion, operation and tensor-core instruction against the emulator.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace narrow {

struct GpuCheckOptions {
  double scale = 1;        // share of the full count of sampled items; exhaustive ones run whole unless scale < 1
  std::uint64_t seed = 1;  // of everything that is sampled
  std::uint64_t dots = 20'000'000'000;  // dot products an instruction, before scale
  std::vector<std::string> only;        // names that contain one of these words; empty: all
  int capability = 90;                  // of the device: what it does not have is left out
};

struct GpuCheckResult {
  std::string name;
  std::string unit;  // what was counted: inputs, pairs, triples, dots
  std::uint64_t count = 0;
  std::uint64_t mismatches = 0;
  double seconds = 0;
  std::uint64_t hash = 0;  // conversions: the sum over inputs that data/conformance uses
  std::string first;       // the first mismatch in full; empty when there is none
};

using GpuReport = std::function<void(const GpuCheckResult&)>;

bool is_wanted(const GpuCheckOptions& options, const std::string& name, int minimum_sm = 80);

void check_conversions(const GpuCheckOptions& options, const GpuReport& report);
void check_arithmetic(const GpuCheckOptions& options, const GpuReport& report);
void check_tensor_cores(const GpuCheckOptions& options, const GpuReport& report);
void check_special(const GpuCheckOptions& options, const GpuReport& report);

}  // namespace narrow
