// Codes and scales: does each have its other, and do they fit?
#include <algorithm>

#include "checkpoint/lint.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/text/quote.hpp"

namespace app::lint {

namespace {

bool is_quantised_type(const narrow::Tensor& t) {
  return t.type.bits <= 8 || (t.type.name == "I32" && t.name.ends_with("_packed")) || t.name.ends_with("_blocks");
}

void check_orphans(const Checkpoint& c, Report& report) {
  for (const narrow::Tensor& t : c.all.tensors)
    for (const ScaleEnding& pair : scale_endings()) {
      if (!t.name.ends_with(pair.scale)) continue;
      const std::string module = t.name.substr(0, t.name.size() - pair.scale.size());
      const narrow::Tensor* codes = nullptr;
      for (const std::string_view ending : pair.codes)
        if (codes == nullptr) codes = c.find(module + std::string(ending));
      if (codes == nullptr && module.ends_with('_')) codes = c.find(module.substr(0, module.size() - 1));
      if (codes == nullptr && pair.scale == "_scales" && t.type.bits != 8) break;  // a parameter of that name
      if (codes == nullptr) report.add("scale-without-codes", c.file_of.at(t.name), t.name, "has no codes beside it");
      else if (!c.parts.contains(codes->name) && !is_quantised_type(*codes) &&
               codes->type.kind == narrow::ElementKind::floating)
        report.add("scale-beside-unquantised", c.file_of.at(t.name), t.name,
                   "stands beside " + narrow::quote(codes->name) + ", which is " + std::string(codes->type.name) +
                       ": a loader that applies it scales twice");
      break;
    }
}

// One FP8 tensor of a model without scales is meant so; a matrix of weights is not.
void check_bare_codes(const Checkpoint& c, Report& report) {
  const bool is_said = c.is_said_to_be_quantised();
  for (const narrow::Tensor& t : c.all.tensors) {
    if (c.parts.contains(t.name) || t.shape.size() < 2) continue;
    const bool is_fp8 = t.type.name.starts_with("F8_") && t.type.name != "F8_E8M0";
    if (is_fp8 && t.name.ends_with("weight"))
      report.add(is_said ? "codes-without-scales" : "bare-fp8", c.file_of.at(t.name), t.name,
                 "is " + std::string(t.type.name) + " and has no scale under any name that is known");
    const bool may_be_bnb = t.name.ends_with("weight") && t.type.name == "U8" && t.shape.size() == 2 && t.shape[1] == 1;
    if (may_be_bnb || (t.type.name == "U8" && c.find(t.name + ".absmax") != nullptr))
      report.add("bad-nibble-state", c.file_of.at(t.name), t.name,
                 "holds packed codes of four bits, and no quant_state says their shape and kind");
  }
}

// Layers of one kind either have scales of activations or have none.
void check_activations(const Checkpoint& c, Report& report) {
  for (const char* ending : {"input_scale", "input_global_scale", "activation_scale"}) {
    std::map<std::string, std::pair<std::vector<std::string>, std::size_t>, std::less<>>
        kinds;  // without it, and how many have it
    for (const Quantised& q : c.quantised) {
      const std::string module = module_of(q.parts.name);
      auto& [without, with] = kinds[kind_of(module)];
      if (c.find(module + "." + ending) != nullptr) ++with;
      else without.push_back(q.parts.name);
    }
    for (const auto& [kind, found] : kinds)
      for (const std::string& name : found.second == 0 ? std::vector<std::string>{} : found.first)
        report.add(
            "missing-activation-scale", c.file_of.contains(name) ? c.file_of.at(name) : "", name,
            "has no " + std::string(ending) + ", which " + std::to_string(found.second) + " others of its kind have");
  }
}

float one_number(const narrow::Tensor& t) {
  float x = 0;
  if (t.elements() == 1 && t.type.has_format()) narrow::read_values(t, 0, std::span(&x, 1));
  return x;
}

// Loaders join q, k, v and gate, up into one matrix with one factor.
void check_siblings(const Checkpoint& c, Report& report) {
  std::map<std::string, const Quantised*> by_name;
  for (const Quantised& q : c.quantised) by_name.emplace(q.parts.name, &q);
  for (const auto& [name, q] : by_name) {
    const std::vector<std::string> group = fused_with(name);
    if (!q->parts.scale2 || group[0] != name) continue;
    for (std::size_t i = 1; i < group.size(); ++i) {
      const auto found = by_name.find(group[i]);
      if (found == by_name.end() || !found->second->parts.scale2) continue;
      if (one_number(*q->parts.scale2) != one_number(*found->second->parts.scale2))
        report.add("fused-siblings-differ", found->second->file, group[i],
                   "has another factor than " + narrow::quote(name) + "; loaders that join them take one for both");
    }
  }
}

void check_blocks(const Checkpoint& c, Report& report) {
  for (const Quantised& q : c.quantised) {
    const narrow::BlockFormat& f = q.parts.format;
    if (f.block_rows <= 1 || q.parts.shape.size() < 2) continue;
    const std::uint64_t rows = q.parts.shape[q.parts.shape.size() - 2], cols = q.parts.shape.back();
    if (rows % f.block_rows != 0 || cols % f.block_cols != 0)
      report.add("block-not-dividing", q.file, q.parts.name,
                 narrow::shape_text(q.parts.shape) + " is no multiple of " + std::to_string(f.block_rows) + " x " +
                     std::to_string(f.block_cols) + ": some loaders refuse to split it");
  }
}

}  // namespace

void check_parts(Checkpoint& c, Report& report) {
  const narrow::CheckpointParts all(c.all);
  for (const narrow::Tensor& codes : c.all.tensors) {
    const std::string file = c.file_of.at(codes.name);
    try {
      for (const narrow::Layout* layout : narrow::layouts()) {
        std::optional<narrow::BlockParts> found = layout->parts_of(all, codes);
        if (!found) continue;
        c.parts.insert(found->codes.name), c.parts.insert(found->scales.name);
        if (found->scale2) c.parts.insert(found->scale2->name);
        for (const narrow::Tensor& t : found->beside) c.parts.insert(t.name);
        c.quantised.push_back({std::move(*found), file});
        break;
      }
    } catch (const narrow::MissingPart& e) {
      c.parts.insert(codes.name);
      report.add("codes-without-scales", file, codes.name, e.what());
    } catch (const narrow::Error& e) {
      c.parts.insert(codes.name);
      report.add("scale-grid", file, codes.name, e.what());
    }
  }
  check_orphans(c, report);
  check_bare_codes(c, report);
  check_activations(c, report);
  check_siblings(c, report);
  check_blocks(c, report);
}

}  // namespace app::lint
