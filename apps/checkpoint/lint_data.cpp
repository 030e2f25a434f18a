// What codes and scales are worth: values that no writer means.
#include <algorithm>
#include <array>
#include <cmath>

#include "checkpoint/lint.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/chunks.hpp"
#include "narrow/text/quote.hpp"
#include "options/tensor_text.hpp"

namespace app::lint {

namespace {

// A pass over a tensor that leaves no more than this of its file in memory.
class Forgetting {
 public:
  explicit Forgetting(const narrow::Tensor& tensor) : source_(*tensor.source) {}
  ~Forgetting() { source_.forget(); }
  Forgetting(const Forgetting&) = delete;
  Forgetting& operator=(const Forgetting&) = delete;
  void read(std::uint64_t bytes) {
    if ((since_ += bytes) < most) return;
    since_ = 0;
    source_.forget();
  }

 private:
  static constexpr std::uint64_t most = std::uint64_t{1} << 28;
  const narrow::ByteSource& source_;
  std::uint64_t since_ = 0;
};

struct Scales {
  std::uint64_t count = 0, not_finite = 0, zero = 0, subnormal = 0, negative = 0, no_power = 0, at_most_one = 0;
  float least = 0, most = 0;  // of those above zero
};

Scales look_at_scales(const narrow::Tensor& t) {
  Scales s;
  const double smallest_normal = narrow::smallest_normal(t.type.format);
  const bool has_range = t.type.bits >= 16;  // a subnormal E4M3 is an ordinary scale of NVFP4
  std::vector<float> values;
  Forgetting pass(t);
  for (std::uint64_t first = 0; first < t.elements(); first += narrow::chunk_values) {
    values.resize(static_cast<std::size_t>(std::min<std::uint64_t>(narrow::chunk_values, t.elements() - first)));
    narrow::read_values(t, first, std::span(values));
    pass.read(narrow::bytes_of_values(t, values.size()));
    for (const float x : values) {
      ++s.count;
      if (!std::isfinite(x)) {
        ++s.not_finite;
        continue;
      }
      if (x == 0) ++s.zero;
      if (x < 0) ++s.negative;
      if (has_range && x != 0 && std::abs(x) < smallest_normal) ++s.subnormal;
      int exponent;
      if (x != 0 && std::frexp(std::abs(x), &exponent) != 0.5f) ++s.no_power;
      if (x <= 1) ++s.at_most_one;
      if (x > 0) s.least = s.least == 0 ? x : std::min(s.least, x), s.most = std::max(s.most, x);
    }
  }
  return s;
}

// How often each code comes; of codes that lie in words or bytes of their own kind, of the bytes.
std::array<std::uint64_t, 256> count_codes(const narrow::BlockParts& p, Progress& progress) {
  std::array<std::uint64_t, 256> counts{};
  if (p.packing.bits != 0) return counts;
  std::vector<std::uint8_t> codes;
  Forgetting pass(p.codes);
  for (std::uint64_t first = 0; first < p.codes.values(); first += narrow::chunk_values) {
    codes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(narrow::chunk_values, p.codes.values() - first)));
    narrow::read_codes(p.codes, first, std::span(codes));
    for (const std::uint8_t code : codes) ++counts[code];
    pass.read(codes.size());
    progress.add(codes.size());
  }
  return counts;
}

// Whether a block whose scale is 0 holds anything but zeros.
bool block_has_values(const narrow::BlockParts& p, std::uint64_t block) {
  const narrow::TensorHeader whole{{}, *narrow::find_element_type("F32"), p.shape};
  const narrow::MatrixSize m = narrow::matrix_of(whole);
  const narrow::BlockFormat& f = p.format;
  if (p.packing.bits != 0 || m.cols == 0) return false;  // NF4 has a code for 0, and its writers store a scale of 0
  const std::size_t across = narrow::grid_cols(f, m.cols);
  const std::size_t top = f.block_rows == 0 ? 0 : static_cast<std::size_t>(block) / across * f.block_rows;
  const std::size_t left = f.block_cols == 0 ? 0 : static_cast<std::size_t>(block) % across * f.block_cols;
  const std::size_t height = std::min(f.block_rows == 0 ? m.rows : f.block_rows, m.rows - top);
  std::vector<std::uint8_t> codes(std::min(f.block_cols == 0 ? m.cols : f.block_cols, m.cols - left));
  for (std::size_t r = 0; r < height; ++r) {
    narrow::read_codes(p.codes, (top + r) * m.cols + left, std::span(codes));
    for (const std::uint8_t code : codes)
      if (narrow::classify(code, f.element) != narrow::ValueClass::zero) return true;
  }
  return false;
}

// Blocks with a scale of 0 that hold anything but zeros.
std::uint64_t count_lost_blocks(const narrow::BlockParts& p) {
  std::uint64_t lost = 0;
  std::vector<float> values;
  for (std::uint64_t first = 0; first < p.scales.elements(); first += values.size()) {
    values.resize(static_cast<std::size_t>(std::min<std::uint64_t>(narrow::chunk_values, p.scales.elements() - first)));
    narrow::read_values(p.scales, first, std::span(values));
    for (std::size_t i = 0; i < values.size(); ++i) lost += values[i] == 0 && block_has_values(p, first + i) ? 1 : 0;
  }
  return lost;
}

void check_scales(const Quantised& q, const Scales& s, bool is_ue8m0, Report& report) {
  const narrow::BlockParts& p = q.parts;
  const std::string& name = p.scales.name;
  if (s.not_finite != 0)
    report.add("nan-scales", q.file, name,
               many(s.not_finite, "scale") + " of " + std::to_string(s.count) +
                   " NaN or Inf: all values of such a block are lost");
  if (const std::uint64_t lost = s.zero == 0 ? 0 : count_lost_blocks(p); lost != 0)
    report.add("zero-scales", q.file, name,
               many(lost, "scale") + " of " + std::to_string(s.count) + " zero, and the codes are not");
  if (s.subnormal != 0)
    report.add("subnormal-scales", q.file, name,
               many(s.subnormal, "scale") + " of " + std::to_string(s.count) + " subnormal in " +
                   std::string(p.scales.type.name) + ": devices that flush them lose the block");
  if (s.negative != 0)
    report.add("negative-scales", q.file, name,
               many(s.negative, "scale") + " of " + std::to_string(s.count) + " below zero");
  if (is_ue8m0 && s.no_power != 0 && p.scales.type.bits > 8)
    report.add("e8m0-in-disguise", q.file, name,
               many(s.no_power, "scale") + " of " + std::to_string(s.count) +
                   " no power of two, and scale_fmt is ue8m0: a loader that casts them changes the model");
  const bool is_grid = p.format.block_rows != 0 && p.format.block_cols != 0 && p.scales.type.bits > 8;
  if (is_grid && s.count >= 4 && s.not_finite == 0 && s.least == s.most && s.zero == 0)
    report.add("constant-scales", q.file, name,
               "all " + std::to_string(s.count) + " scales are " + std::to_string(s.most) + ": was one scale meant?");
}

void check_codes(const Quantised& q, const Scales& s, const std::array<std::uint64_t, 256>& counts, Report& report) {
  const narrow::BlockParts& p = q.parts;
  const narrow::Format& f = p.format.element;
  std::uint64_t nan = 0, all = 0, zeros = 0;
  bool reaches_largest = false;
  for (unsigned code = 0; code < counts.size(); ++code) {
    if (counts[code] == 0) continue;
    all += counts[code];
    const narrow::ValueClass kind = narrow::classify(code & f.code_mask(), f);
    if (kind == narrow::ValueClass::nan || kind == narrow::ValueClass::inf) nan += counts[code];
    if (kind == narrow::ValueClass::zero) zeros += counts[code];
    if (std::abs(narrow::decode(code & f.code_mask(), f)) == narrow::largest(f)) reaches_largest = true;
  }
  if (nan != 0)
    report.add("nan-codes", q.file, p.codes.name, many(nan, "code") + " of " + std::to_string(all) + " NaN or Inf");
  if (all != 0 && zeros == all) report.add("all-zero-tensor", q.file, p.codes.name, "has no code but zero");
  const bool is_fp8 = f.width() == 8 && !f.is_integer();
  if (is_fp8 && reaches_largest && s.count != 0 && s.least == 1 && s.most == 1)
    report.add("largest-value-unscaled", q.file, p.codes.name,
               "reaches " + std::to_string(static_cast<int>(narrow::largest(f))) +
                   ", the largest value of its format, with a scale of 1: was the scale lost?");
  else if (is_fp8 && reaches_largest && s.count != 0 && s.at_most_one == 0 && s.not_finite == 0)
    report.add("scale-inverted", q.file, p.scales.name,
               "has no scale below 1, and the codes reach the largest value: weights beyond " +
                   std::to_string(static_cast<int>(narrow::largest(f))) +
                   ", or what was multiplied by instead of what decodes");
  if (!p.scale2) return;
  const Scales factors = look_at_scales(*p.scale2);  // one, or one of every row
  const std::string of_all = factors.count == 1 ? "" : " of " + std::to_string(factors.count) + " factors";
  const auto add = [&](const char* rule, std::uint64_t n, const char* what) {
    if (n != 0)
      report.add(rule, q.file, p.scale2->name,
                 of_all.empty() ? std::string("is ") + what : std::to_string(n) + of_all + " " + what);
  };
  add("nan-scales", factors.not_finite, "NaN or Inf");
  add("zero-scales", factors.zero, "zero");
  add("negative-scales", factors.negative, "below zero");
  if (factors.count != 1 || factors.most == 0 || p.layout == "narrow") return;
  const bool divides = p.second == narrow::BlockParts::Second::divisor;
  if (divides ? factors.most < 1 : factors.most > 1)
    report.add("scale-inverted", q.file, p.scale2->name,
               std::string("is ") + std::to_string(factors.most) + (divides ? ", and divides" : ", and multiplies") +
                   ": the other way round it would fit weights");
}

// Values that the type of the model could not have held, and NaN, in what is not quantised.
void check_plain(const Checkpoint& c, const narrow::Tensor& t, const std::string& dtype, Report& report,
                 Progress& progress) {
  const bool bf16 = dtype == "bfloat16",
             may_be_wider = t.type.name == "F32" && !t.blocks && t.name.ends_with("weight") &&
                            !t.name.ends_with("gate.weight") && (bf16 || dtype == "float16");
  const narrow::Format source = bf16 ? narrow::Format(*narrow::find_format("bf16")) : *narrow::find_format("fp16");
  const bool is_mask = t.name.find("mask") != std::string::npos;  // of -Inf
  std::uint64_t strange = 0, not_finite = 0;
  std::vector<float> values;
  Forgetting pass(t);
  for (std::uint64_t first = 0; first < t.values(); first += narrow::chunk_values) {
    values.resize(static_cast<std::size_t>(std::min<std::uint64_t>(narrow::chunk_values, t.values() - first)));
    narrow::read_values(t, first, std::span(values));
    for (const float x : values) {
      if (!std::isfinite(x)) not_finite += is_mask && x < 0 ? 0 : 1;
      else if (may_be_wider && narrow::round_to(x, source) != x) ++strange;
    }
    pass.read(narrow::bytes_of_values(t, values.size()));
    progress.add(narrow::bytes_of_values(t, values.size()));
  }
  const std::string& file = c.file_of.at(t.name);
  if (not_finite != 0)
    report.add("nan-values", file, t.name,
               many(not_finite, "value") + " of " + std::to_string(t.values()) + " NaN or Inf");
  if (strange != 0)
    report.add("values-not-of-source", file, t.name,
               many(strange, "value") + " of " + std::to_string(t.values()) + " that " + dtype +
                   " does not hold, which the model is said to be of");
}

}  // namespace

void check_data(const Checkpoint& c, Report& report, Progress& progress) {
  const Json q = c.quantization();
  const bool ue8m0 = q.contains("scale_fmt") && q["scale_fmt"] == "ue8m0";
  std::string dtype;
  for (const char* key : {"torch_dtype", "dtype"})
    if (c.config.is_object() && c.config.contains(key) && c.config[key].is_string())
      dtype = c.config[key].get<std::string>();
  for (const Quantised& one : c.quantised) {
    const Scales scales = look_at_scales(one.parts.scales);
    check_scales(one, scales, ue8m0, report);
    check_codes(one, scales, count_codes(one.parts, progress), report);
  }
  for (const narrow::Tensor& t : c.all.tensors) {
    if (c.parts.contains(t.name) || is_scale_name(t.name) || t.type.kind != narrow::ElementKind::floating) continue;
    check_plain(c, t, dtype, report, progress);
  }
}

}  // namespace app::lint
