#include "narrow/golden/instruction.hpp"

#include "narrow/base/error.hpp"
#include "narrow/dot/model_table.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace narrow {

namespace {

const DotType& type_of(TileElement e) {
  static constexpr DotType types[] = {detail::f64,  detail::f32,  detail::tf32, detail::f16, detail::bf16,
                                      detail::e4m3, detail::e5m2, detail::s8,   detail::u8,  detail::s32};
  return types[static_cast<std::size_t>(e)];
}

}  // namespace

const char* element_name(TileElement e) { return type_of(e).name.data(); }
Format element_format(TileElement e) { return type_of(e).format; }
int element_low_bits(TileElement e) { return e == TileElement::tf32 ? 13 : 0; }
int element_bytes(TileElement e) {
  switch (e) {
    case TileElement::f64: return 8;
    case TileElement::f32:
    case TileElement::tf32:
    case TileElement::s32: return 4;
    case TileElement::f16:
    case TileElement::bf16: return 2;
    default: return 1;
  }
}

TileFormats Instruction::formats() const { return {element_format(a), element_format(b), element_format(accumulator)}; }

std::string Instruction::name() const {
  std::string text = unit == TileUnit::mma ? "mma" : "wgmma";
  if (sparse) text += ".sp";
  text += unit == TileUnit::mma ? (a == TileElement::f64 && n == 0 ? ".m8n8k" : ".m16n8k")
                                : ".m64n" + std::to_string(n) + "k";
  text += std::to_string(k);
  for (const TileElement e : {accumulator, a, b}) text += std::string(".") + element_name(e);
  if (saturate) text += ".satfinite";
  if (from_registers) text += ".rs";
  if (negate) text += ".neg";
  return text;
}

std::string sm_generation(int sm) {
  if (sm >= 80 && sm < 89) return "ampere";
  if (sm == 89) return "ada";
  if (sm == 90) return "hopper";
  if (sm >= 100 && sm < 120) return "blackwell";
  return sm == 120 || sm == 121 ? "rtx-blackwell" : "";
}

// PTX ISA, mma: FP8 from sm_89, m16n8 shapes of f64 from sm_90, all others from sm_80. wgmma: sm_90a.
int Instruction::minimum_sm() const {
  if (unit == TileUnit::wgmma || a == TileElement::f64) return 90;
  return element_bytes(a) == 1 && accumulator != TileElement::s32 ? 89 : 80;
}
bool Instruction::runs_on(int sm) const { return unit == TileUnit::wgmma ? sm == 90 : sm >= minimum_sm(); }

std::string Instruction::model(int sm) const {
  std::string text = sm_generation(sm) + (unit == TileUnit::mma ? ".mma" : ".wgmma");
  for (const TileElement e : {accumulator, a, b}) text += std::string(".") + element_name(e);
  // A sparse instruction multiplies the half of K that is kept: it computes as the dense one of that K.
  if (unit == TileUnit::mma) text += ".k" + std::to_string(sparse ? k / 2 : k);
  if (saturate) text += ".satfinite";
  return text;
}

std::uint64_t Instruction::number() const {
  std::uint64_t hash = 0;
  for (const char c : name()) hash = mix_bits(hash ^ static_cast<unsigned char>(c));
  return hash;
}

std::vector<Instruction> all_instructions() {
  using enum TileElement;
  std::vector<Instruction> list;
  const auto mma = [&](TileElement accumulator, TileElement a, TileElement b, int k, bool saturate = false) {
    Instruction i;
    i.accumulator = accumulator, i.a = a, i.b = b, i.k = k, i.saturate = saturate;
    list.push_back(i);
  };
  for (const int k : {16, 8}) mma(f32, f16, f16, k), mma(f16, f16, f16, k), mma(f32, bf16, bf16, k);
  for (const int k : {8, 4}) mma(f32, tf32, tf32, k);
  for (const int k : {32, 16})
    for (const TileElement accumulator : {f32, f16})
      for (const TileElement a : {e4m3, e5m2})
        for (const TileElement b : {e4m3, e5m2}) mma(accumulator, a, b, k);
  for (const int k : {16, 8, 4}) mma(f64, f64, f64, k);
  for (const int k : {32, 16})
    for (const bool saturate : {false, true})
      for (const TileElement a : {s8, u8})
        for (const TileElement b : {s8, u8}) mma(s32, a, b, k, saturate);

  for (const Instruction& dense : std::vector<Instruction>(list)) {
    // Two of four: the instruction of twice the K has the products of the dense one.
    const bool fp8 = dense.a == e4m3 || dense.a == e5m2;
    if (dense.a == f64 || dense.saturate || dense.a != dense.b || dense.a == u8) continue;
    if (fp8 && (dense.k != 32 || dense.accumulator == f16)) continue;
    if (dense.accumulator == f16 && dense.k != 16) continue;
    Instruction i = dense;
    i.sparse = true, i.k = 2 * dense.k;
    list.push_back(i);
  }

  const auto wgmma = [&](TileElement accumulator, TileElement a, TileElement b, int k, bool is_float) {
    for (const int n : {8, 64, 256})
      for (const bool from_registers : {false, true})
        for (const bool negate : {false, true}) {
          if (negate && (n != 64 || from_registers || !is_float)) continue;
          Instruction i;
          i.unit = TileUnit::wgmma, i.accumulator = accumulator, i.a = a, i.b = b, i.n = n, i.k = k;
          i.from_registers = from_registers, i.negate = negate;
          list.push_back(i);
        }
  };
  wgmma(f32, f16, f16, 16, true);
  wgmma(f16, f16, f16, 16, true);
  wgmma(f32, bf16, bf16, 16, true);
  wgmma(f32, tf32, tf32, 8, true);
  for (const TileElement accumulator : {f32, f16})
    for (const TileElement a : {e4m3, e5m2})
      for (const TileElement b : {e4m3, e5m2}) wgmma(accumulator, a, b, 32, true);
  for (const TileElement a : {s8, u8})
    for (const TileElement b : {s8, u8}) {
      wgmma(s32, a, b, 32, false);
      Instruction i;  // one shape is enough: what saturates is the sum, after the shape has done its work
      i.unit = TileUnit::wgmma, i.accumulator = s32, i.a = a, i.b = b, i.n = 64, i.k = 32, i.saturate = true;
      list.push_back(i);
    }
  for (const Instruction& dense : std::vector<Instruction>(list)) {
    if (dense.unit != TileUnit::wgmma || dense.n != 64 || dense.from_registers || dense.negate || dense.saturate ||
        dense.a != dense.b || dense.a == u8)
      continue;
    if (dense.accumulator == f16 && dense.a != f16) continue;
    Instruction i = dense;
    i.sparse = true, i.k = 2 * dense.k;
    list.push_back(i);
  }
  return list;
}

Instruction find_instruction(const std::string& name) {
  std::vector<std::string> names;
  for (const Instruction& i : all_instructions()) {
    if (i.name() == name) return i;
    names.push_back(i.name());
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  throw Error("gpu: unknown instruction " + quote(name) + "; " +
              hint(name, views) + "`narrow gpu check --list` names them all");
}

}  // namespace narrow
